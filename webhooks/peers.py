"""Who is at the other end of the line, for the public doors: see `kernel.network.peers`."""

from kernel.network.peers import client_address

__all__ = ["client_address"]
