"""A caller's body, read raw and never past the cap; and what a content encoding hides, inflated never past the cap.

Must never decode text: signatures are over bytes.
"""

import zlib

from django.http import HttpRequest
from django.http.request import UnreadablePostError

from webhooks.models import Refusal

_GZIP_OR_ZLIB = 32 + zlib.MAX_WBITS  # zlib's flag for "find out which"
_BARE = -zlib.MAX_WBITS  # what many take `deflate` for (RFC 9110 §8.4.1.2)


class BodyRefused(Exception):
    """The body cannot be taken; `reason` is a `Refusal`."""

    def __init__(self, reason: Refusal) -> None:
        super().__init__(reason.label)
        self.reason = reason


def read_raw(request: HttpRequest, cap: int) -> bytes:
    """The body's bytes as they came. `BodyRefused` if it is longer than `cap` bytes (no more is read) or cut off."""
    declared = request.headers.get("content-length", "")
    if declared.isascii() and declared.isdigit() and int(declared[:20]) > cap:
        raise BodyRefused(Refusal.TOO_LARGE)
    try:
        raw = request.read(cap + 1)
    except (UnreadablePostError, OSError):
        raise BodyRefused(Refusal.BODY_CUT_OFF) from None
    if len(raw) > cap:
        raise BodyRefused(Refusal.TOO_LARGE)
    return raw


def inflate(raw: bytes, encoding: str, cap: int) -> bytes:
    """The content behind `content-encoding`; `BodyRefused` for encodings but gzip and deflate, junk, and bombs."""
    name = encoding.strip().lower()
    if name in {"", "identity"}:
        return raw
    if name not in {"gzip", "x-gzip", "deflate"}:
        raise BodyRefused(Refusal.BAD_ENCODING)
    for window in (_GZIP_OR_ZLIB, _BARE) if name == "deflate" else (_GZIP_OR_ZLIB,):
        content = _inflated(raw, window, cap)
        if content is not None:
            return content
    raise BodyRefused(Refusal.BAD_ENCODING)


def _inflated(raw: bytes, window: int, cap: int) -> bytes | None:
    """None where it is not packed that way, is cut off, or where something follows it that would go unread."""
    machine = zlib.decompressobj(window)
    try:
        content = machine.decompress(raw, cap + 1)
    except zlib.error:
        return None
    if len(content) > cap:
        raise BodyRefused(Refusal.TOO_LARGE)
    return content if machine.eof and not machine.unused_data else None
