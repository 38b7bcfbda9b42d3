"""One short line per event, to stdout. Never a body, a header or a secret."""

from __future__ import annotations

import sys
from datetime import UTC, datetime


def log(event: str, **fields: object) -> None:
    at = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3]
    words = " ".join(f"{name}={value}" for name, value in fields.items())
    print(f"{at}Z sandbox {event} {words}".rstrip(), file=sys.stdout, flush=True)
