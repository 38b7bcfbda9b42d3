"""Bodies over ASGI: read to one byte past the cap, and what Django then sees says so."""

import asyncio

import pytest

from kernel.web.bodies import CappedBodies

CAP = 10


def call(chunks: list[bytes], *, length: bytes | None = None, path: str = "/webhooks/x") -> tuple[bytes, dict, int]:
    """(body the application saw, its headers, chunks that were taken from the socket)."""
    seen: dict = {}
    taken = 0

    async def application(scope, receive, send):
        body, more = b"", True
        while more:
            message = await receive()
            body, more = body + message.get("body", b""), message.get("more_body", False)
        seen.update(body=body, headers=dict(scope["headers"]))

    async def receive():
        nonlocal taken
        taken += 1
        return {"type": "http.request", "body": chunks[taken - 1], "more_body": taken < len(chunks)}

    headers = [(b"content-type", b"application/json")]
    headers += [(b"content-length", length)] if length is not None else []
    scope = {"type": "http", "path": path, "headers": headers}
    asyncio.run(CappedBodies(application, {"/webhooks/": CAP, "/": 100})(scope, receive, None))
    return seen["body"], seen["headers"], taken


@pytest.mark.parametrize("chunks", [[b""], [b"x" * CAP], [b"xxx", b"xxx", b""]])
def test_what_fits_passes_untouched(chunks):
    body, headers, taken = call(chunks)
    assert (body, taken) == (b"".join(chunks), len(chunks))
    assert headers.get(b"content-length", b"0") == str(len(body)).encode()


def test_no_body_gets_no_length():
    assert b"content-length" not in call([b""])[1]


def test_a_declared_length_stays_as_it_was():
    assert call([b"xxx", b"xxx"], length=b"6")[1][b"content-length"] == b"6"


def test_a_declared_excess_is_not_read_at_all():
    assert call([b"x" * 50], length=b"50") == (
        b"",
        {b"content-type": b"application/json", b"content-length": b"50"},
        0,
    )


def test_an_undeclared_excess_is_read_to_one_past_the_cap_and_declared():
    body, headers, taken = call([b"x" * 6] * 1000)
    assert (body, taken, headers[b"content-length"]) == (b"x" * 11, 2, b"11")


def test_a_lying_length_is_corrected():
    body, headers, taken = call([b"x" * 6] * 1000, length=b"3")
    assert (len(body), taken, headers[b"content-length"]) == (11, 2, b"11")


def test_the_cap_is_the_paths():
    assert len(call([b"x" * 50], path="/api/v1/tasks/")[0]) == 50


def test_a_disconnect_and_other_protocols_pass():
    async def application(scope, receive, send):
        assert (await receive())["type"] == "http.disconnect"

    async def receive():
        return {"type": "http.disconnect"}

    for scope in ({"type": "http", "path": "/", "headers": []}, {"type": "lifespan"}):
        asyncio.run(CappedBodies(application, {"/": CAP})(scope, receive, None))
