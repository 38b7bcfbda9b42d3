"""Ports on loopback: whether one is free, and free ones that a data folder remembers. Only ever binds for a moment."""

import errno
import json
import random
import socket

from roundtrip_up.folders import Data, write_private
from roundtrip_up.refusal import Refusal
from roundtrip_up.secrets_store import read_json

# Below the ranges from which systems take ports for outgoing connections: those would race with a stopped server's.
LOWEST, HIGHEST = 20_000, 32_000
HOST = "127.0.0.1"


def is_free(port: int) -> bool:
    """Whether a server could listen on this loopback port now. Refusal when we may not use it at all."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError as error:
            if error.errno in (errno.EACCES, errno.EPERM):
                raise Refusal(
                    f"Port {port} needs more rights than you have. Choose one above 1023: --port 8000."
                ) from error
            return False
        return True


def pick(taken: set[int]) -> int:
    """A free port that is not in `taken`."""
    for _ in range(200):
        port = random.randrange(LOWEST, HIGHEST)
        if port not in taken and is_free(port):
            return port
    raise Refusal(f"No free port was found between {LOWEST} and {HIGHEST}. Stop some servers and try again.")


def require_free(port: int) -> None:
    """Refusal, with a free port to use instead, when the web port is taken."""
    if not is_free(port):
        other = next((near for near in range(port + 1, min(port + 100, 65_536)) if is_free(near)), pick({port}))
        raise Refusal(f"Port {port} is taken. Stop what listens there, or start with --port {other}.")


def remembered(data: Data, names: tuple[str, ...], avoid: int) -> dict[str, int]:
    """A free port for each name: the one used last if it is still free. Never `avoid`, the web port."""
    before = read_json(data.ports)
    chosen: dict[str, int] = {}
    for name in names:
        last, taken = before.get(name), {avoid, *chosen.values()}
        if not (isinstance(last, int) and last not in taken and is_free(last)):
            last = pick(taken)
        chosen[name] = last
    write_private(data.ports, json.dumps({**before, **chosen}, indent=2) + "\n")
    return chosen
