"""Who is at the other end of the line, for the public doors: see `kernel.peers`."""

from kernel.peers import client_address

__all__ = ["client_address"]
