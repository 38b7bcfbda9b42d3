"""What some providers ask before they send events: that an address answers their challenge. Pure.

Only who proves to be the provider gets an answer: a signed call, or our verify token. Nothing else is ever echoed.
"""

import hmac
import re
from collections.abc import Mapping

from kernel.parsing import HostileJSON, tolerant_loads

_CHALLENGE = re.compile(r"[A-Za-z0-9._=-]{1,500}")  # nothing that a browser could take for more than text
MAX_BODY = 10_000


def of_call(scheme: str, body: bytes) -> str:
    """Slack's `url_verification`: the challenge of a call that is known to be genuine; "" for any other."""
    if scheme != "slack" or len(body) > MAX_BODY or b"url_verification" not in body:
        return ""
    try:
        said = tolerant_loads(body)
    except HostileJSON:
        return ""
    is_asked = isinstance(said, Mapping) and said.get("type") == "url_verification"
    return _plain(said.get("challenge")) if is_asked else ""


def of_visit(query: Mapping[str, str], verify_token: str) -> str:
    """A GET with `hub.challenge` (WebSub, Meta's webhooks): the challenge where it shows our verify token."""
    given = query.get("hub.verify_token", "")
    if query.get("hub.mode") != "subscribe" or not verify_token or not given:
        return ""
    is_ours = hmac.compare_digest(given.encode("utf-8", "replace"), verify_token.encode("utf-8", "replace"))
    return _plain(query.get("hub.challenge")) if is_ours else ""


def _plain(value: object) -> str:
    return value if isinstance(value, str) and _CHALLENGE.fullmatch(value) else ""
