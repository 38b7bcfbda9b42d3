"""fal's public keys: a JWKS, fetched through the guarded client and kept for a day at most, as fal asks.

No header of a webhook names a key, so one that fits none may be signed with a new one: the set is then fetched again,
and because anybody can send such a webhook, once a minute at most.
"""

import threading
import time
from collections.abc import Mapping
from typing import Any

from kernel.network.http import CallFailed, provider_session
from kernel.parsing import HostileJSON, tolerant_loads
from tasks.providers.base import ProviderUnavailable

JWKS_URL = "https://rest.fal.ai/.well-known/jwks.json"
KEPT_SECONDS = 24 * 3600.0  # "cacheable, but no longer than 24 hours"
RENEWED_SECONDS = 12 * 3600.0  # from then on they are fetched again; if that fails, the rest of the day is left to try
ASKED_SECONDS = 60.0  # the least between two fetches
FETCH_SECONDS = 5.0  # a webhook waits for it
MAX_BYTES, MAX_KEYS = 256 * 1024, 20


class Keys:
    """The set of one account, shared by all threads."""

    def __init__(self, url: str, networks: Any) -> None:
        self._url = url
        self._networks = networks
        self._lock = threading.Lock()
        self._keys: list[str] = []
        self._fetched_at = self._asked_at = float("-inf")

    def current(self) -> list[str]:
        """Raises ProviderUnavailable where there are none that are young enough."""
        if self._age() > RENEWED_SECONDS:
            self._fetch()
        if self._age() > KEPT_SECONDS:
            raise ProviderUnavailable("The public keys of fal could not be fetched.")
        return list(self._keys)

    def renewed(self) -> list[str]:
        """Once more from fal, unless that was done a moment ago."""
        self._fetch()
        return list(self._keys) if self._age() <= KEPT_SECONDS else []

    def _age(self) -> float:
        return time.monotonic() - self._fetched_at

    def _fetch(self) -> None:
        with self._lock:
            if time.monotonic() - self._asked_at < ASKED_SECONDS:
                return
            self._asked_at = time.monotonic()
            if keys := self._asked():
                self._keys, self._fetched_at = keys, time.monotonic()

    def _asked(self) -> list[str]:
        session = provider_session(
            allowed_networks=self._networks, total_seconds=FETCH_SECONDS, max_body_bytes=MAX_BYTES
        )
        try:
            answer = session.get(self._url)
            return read(tolerant_loads(answer.content)) if answer.status_code == 200 else []
        except (CallFailed, HostileJSON):
            return []


def read(said: Any) -> list[str]:
    """The `x` of each Ed25519 key of the set (RFC 8037)."""
    keys = said.get("keys") if isinstance(said, Mapping) else None
    rows = [key for key in keys if isinstance(key, Mapping)] if isinstance(keys, list) else []
    ours = [key.get("x") for key in rows if key.get("kty") == "OKP" and key.get("crv") in (None, "Ed25519")]
    return [x for x in ours if isinstance(x, str)][:MAX_KEYS]
