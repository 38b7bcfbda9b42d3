"""How many connections the web server keeps, in all and from one address. Counts only; the protocol refuses.

Behind a reverse proxy all come from its address, so TRUSTED_PROXIES are not counted one by one; their proxy has limits
of its own (`limit_conn` in nginx). Used from the event loop's thread alone.
"""

import resource
import time
from collections import Counter

import structlog

from kernel.network.peers import is_trusted_proxy

MOST = 4_000
MOST_OF_ADDRESS = 1_000
OTHER_FILES = 200  # database, broker, channel layer, files that bodies wait in
LOG_SECONDS = 60.0

log = structlog.get_logger(__name__)


def most_by_files(most: int = MOST) -> int:
    """No more than the process may have files open: beyond, accepting itself fails, for everybody."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return most if limit == resource.RLIM_INFINITY else max(1, min(most, limit - OTHER_FILES))


class Connections:
    """Those of one server."""

    def __init__(self, most: int | None = None, most_of_address: int = MOST_OF_ADDRESS) -> None:
        self._most = most_by_files() if most is None else most
        self._most_of_address = most_of_address
        self._of: Counter[str] = Counter()
        self._count = 0
        self._logged_at = -LOG_SECONDS

    def come(self, address: str) -> bool:
        """Count one more; False where it is one too many. Either way `go` must follow at its end."""
        self._count += 1
        self._of[address] += 1
        of_address = 0 if is_trusted_proxy(address) else self._of[address]
        fits = self._count <= self._most and of_address <= self._most_of_address
        if not fits:
            self._tell(address)
        return fits

    def go(self, address: str) -> None:
        self._count -= 1
        self._of[address] -= 1
        if not self._of[address]:
            del self._of[address]

    def _tell(self, address: str) -> None:
        now = time.monotonic()
        if now - self._logged_at >= LOG_SECONDS:
            self._logged_at = now
            log.warning("too_many_connections", address=address, of_address=self._of[address], in_all=self._count)
