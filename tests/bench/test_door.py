"""The crowd at the door is what it says: what is genuine is signed, and a cut connection is counted."""

import asyncio

from bench import door
from sandbox.signing import verify

KEY = b"k" * 24


async def _served(answer, act):
    heard = []

    async def take(reader, writer):
        try:
            heard.append(await reader.readuntil(b"\r\n\r\n"))
            length = next(line for line in heard[0].split(b"\r\n") if line.startswith(b"content-length: "))
            heard.append(await reader.readexactly(int(length[16:])))
        except asyncio.IncompleteReadError:
            pass
        writer.write(answer)
        writer.close()

    server = await asyncio.start_server(take, "127.0.0.1", 0)
    async with server:
        seen = await act(server.sockets[0].getsockname()[1])
    return heard, seen


def test_each_webhook_is_signed_and_its_answer_counted():
    async def act(port):
        standing = door.Door(port, KEY, ["job-1"])
        await standing._webhook(0.0)
        return standing.seen

    (head, body), seen = asyncio.run(_served(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", act))
    said = dict(line.split(b": ", 1) for line in head.split(b"\r\n")[1:] if line)
    name, at, signature = (said[b"webhook-" + part] for part in (b"id", b"timestamp", b"signature"))
    assert verify((KEY,), name, at, signature, body, float(at))
    assert (dict(seen.statuses), len(seen.waits_ms)) == ({"200": 1}, 1)


def test_a_connection_that_is_closed_without_an_answer_is_no_status():
    async def act(port):
        return await door.Door(port, KEY, [])._ask("GET", "/readyz", {}, b"")

    assert asyncio.run(_served(b"", act))[1] == "closed"
