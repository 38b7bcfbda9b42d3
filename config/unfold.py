"""How the admin site looks and what its sidebar lists (django-unfold)."""

from typing import Any

UNFOLD: dict[str, Any] = {
    "SITE_TITLE": "Roundtrip",
    "SITE_HEADER": "Roundtrip",
    "SITE_SYMBOL": "sync_alt",
}
