"""Bodies are read to the cap and no further; what is behind an encoding too."""

import gzip
import io
import zlib

import pytest
from django.core.handlers.wsgi import WSGIRequest
from django.test import RequestFactory

from webhooks.bodies import BodyRefused, inflate, read_raw
from webhooks.models import Refusal


def request_with(stream, length: int | None) -> WSGIRequest:
    request = RequestFactory().post("/", b"", content_type="application/json")
    request._stream = stream
    request._read_started = False
    if length is None:
        request.META.pop("CONTENT_LENGTH", None)
    else:
        request.META["CONTENT_LENGTH"] = str(length)
    return request


def test_a_declared_excess_is_refused_unread():
    stream = io.BytesIO(b"x" * 20)
    with pytest.raises(BodyRefused) as refused:
        read_raw(request_with(stream, 20), 10)
    assert refused.value.reason == Refusal.TOO_LARGE
    assert stream.tell() == 0


def test_an_undeclared_excess_is_read_one_byte_past_the_cap():
    stream = io.BytesIO(b"x" * 2000)
    with pytest.raises(BodyRefused) as refused:
        read_raw(request_with(stream, None), 10)
    assert refused.value.reason == Refusal.TOO_LARGE
    assert stream.tell() == 11


def test_exactly_the_cap_is_taken():
    assert read_raw(request_with(io.BytesIO(b"x" * 10), 10), 10) == b"x" * 10


def test_a_broken_connection_has_its_reason():
    class Broken(io.RawIOBase):
        def read(self, size: int = -1) -> bytes:
            raise OSError("gone")

    with pytest.raises(BodyRefused) as refused:
        read_raw(request_with(Broken(), 10), 100)
    assert refused.value.reason == Refusal.BODY_CUT_OFF


@pytest.mark.parametrize("encoding", ["", "identity", " Identity "])
def test_plain_bytes_stay_the_same_object(encoding):
    raw = b"{}"
    assert inflate(raw, encoding, 10) is raw


@pytest.mark.parametrize(
    ("encoding", "pack"), [("gzip", gzip.compress), ("GZIP", gzip.compress), ("deflate", zlib.compress)]
)
def test_gzip_and_deflate_are_opened(encoding, pack):
    assert inflate(pack(b"abc"), encoding, 10) == b"abc"


@pytest.mark.parametrize(
    ("raw", "encoding", "reason"),
    [
        (gzip.compress(b"0" * 10_000_000, mtime=0), "gzip", Refusal.TOO_LARGE),
        (b"no gzip", "gzip", Refusal.BAD_ENCODING),
        (gzip.compress(b"abc" * 100, mtime=0)[:-9], "gzip", Refusal.BAD_ENCODING),
        (b"abc", "br", Refusal.BAD_ENCODING),
        (b"abc", "gzip, gzip", Refusal.BAD_ENCODING),
    ],
)
def test_bombs_and_junk_are_refused(raw, encoding, reason):
    with pytest.raises(BodyRefused) as refused:
        inflate(raw, encoding, 1000)
    assert refused.value.reason == reason
