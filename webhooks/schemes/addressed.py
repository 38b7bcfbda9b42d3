"""Twilio's scheme, which signs the address: base64 HMAC-SHA1 over the public URL and the form's sorted fields.

Where the body is JSON, the URL carries `bodySHA256`, and the body must have that hash. What stands between us and the
sender may have put a port into the URL or taken one out, so both spellings count, as in Twilio's own validator.
"""

import base64
import hashlib
import hmac
from collections.abc import Sequence
from datetime import datetime
from urllib.parse import SplitResult, parse_qs, parse_qsl, urlsplit

from webhooks.schemes.base import Scheme, SignedCall, Verification, any_equal, as_bytes, plain_keys, refused, verdict

_PORTS = {"https": 443, "http": 80}
_FORM = "application/x-www-form-urlencoded"


def twilio(call: SignedCall, keys: Sequence[bytes], now: datetime) -> Verification:
    header = call.headers.get("x-twilio-signature", "").strip()
    if not header:
        return refused("signature_missing")
    try:
        parts = urlsplit(call.url)
        spellings = [_without_port(parts), _with_port(parts)]
    except ValueError:
        return refused("signature_malformed")
    fields = _fields(call, parts)
    if fields is None:
        return refused("signature_wrong")
    expected = [_sha1(key, (url + fields).encode("utf-8", "surrogatepass")) for key in keys for url in spellings]
    return verdict(any_equal(expected, [as_bytes(header)]))


def _fields(call: SignedCall, parts: SplitResult) -> str | None:
    """What follows the URL in the signed text; None where the body is not what the URL says, or nothing covers it."""
    said = parse_qs(parts.query).get("bodySHA256")
    if said:
        found = hashlib.sha256(call.body).hexdigest()
        return "" if any_equal([found.encode()], [as_bytes(said[0].lower())]) else None
    if not call.body:
        return ""
    if call.headers.get("content-type", "").partition(";")[0].strip().lower() != _FORM:
        return None
    try:
        pairs = parse_qsl(call.body.decode("utf-8"), keep_blank_values=True, max_num_fields=1000)
    except (UnicodeDecodeError, ValueError):
        return None
    return "".join(name + value for name, value in sorted(set(pairs)))


def _without_port(parts: SplitResult) -> str:
    return parts._replace(netloc=_host(parts)).geturl()


def _with_port(parts: SplitResult) -> str:
    return parts._replace(netloc=f"{_host(parts)}:{parts.port or _PORTS.get(parts.scheme, 443)}").geturl()


def _host(parts: SplitResult) -> str:
    host = parts.hostname or ""
    return f"[{host}]" if ":" in host else host


def _sha1(key: bytes, message: bytes) -> bytes:
    return base64.b64encode(hmac.new(key, message, hashlib.sha1).digest())


TWILIO = Scheme(twilio, ("x-twilio-signature",), plain_keys)
