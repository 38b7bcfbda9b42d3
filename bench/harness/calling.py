"""HTTP requests over a few open connections, written out before the clock runs: what is measured is answering.

The caller is one loop that sends bytes and reads answers, so that it takes as little of the machine as it can.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from sandbox.signing import sign

ANSWER_SECONDS, READY_SECONDS = 120.0, 90.0


@dataclass(slots=True)
class Sent:
    """What came of many requests."""

    seconds: float = 0.0
    waits_ms: list[float] = field(default_factory=list)
    statuses: Counter[int] = field(default_factory=Counter)
    last: bytes = b""

    def per_s(self) -> float:
        return len(self.waits_ms) / self.seconds

    def expect(self, status: int) -> Sent:
        """Itself. RuntimeError where one was answered otherwise: a figure of refusals would be none."""
        if set(self.statuses) != {status}:
            raise RuntimeError(f"not all were answered {status}: {dict(self.statuses)}; the last: {self.last[:300]!r}")
        return self


def request(method: str, path: str, body: bytes = b"", headers: Mapping[str, str] | None = None) -> bytes:
    """One request as its bytes."""
    told = {"host": "127.0.0.1", "content-type": "application/json", "content-length": len(body), **(headers or {})}
    head = "".join(f"{name}: {value}\r\n" for name, value in told.items())
    return f"{method} {path} HTTP/1.1\r\n{head}\r\n".encode() + body


def webhook(path: str, key: bytes, said: object) -> bytes:
    """A webhook of the sandbox's provider, signed as of now."""
    body = json.dumps(said, separators=(",", ":")).encode()
    name, now = f"bench-{secrets.token_hex(8)}", str(int(time.time()))
    signature = sign(key, name.encode(), now.encode(), body).decode()
    return request("POST", path, body, {"webhook-id": name, "webhook-timestamp": now, "webhook-signature": signature})


def send(port: int, requests: Sequence[bytes], connections: int = 1) -> Sent:
    """Send them all, each connection its next one as soon as it has been answered."""
    return asyncio.run(_send(port, requests, connections))


async def _send(port: int, requests: Sequence[bytes], connections: int) -> Sent:
    sent, waiting = Sent(), iter(requests)
    streams = [await asyncio.open_connection("127.0.0.1", port) for _ in range(connections)]
    began = time.perf_counter()
    await asyncio.gather(*(_one_by_one(reader, writer, waiting, sent) for reader, writer in streams))
    sent.seconds = time.perf_counter() - began
    for _, writer in streams:
        writer.close()
    return sent


async def _one_by_one(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, waiting: Iterator[bytes], sent: Sent
) -> None:
    for one in waiting:
        began = time.perf_counter()
        writer.write(one)
        head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), ANSWER_SECONDS)
        sent.last = await _body(reader, head.lower())
        sent.waits_ms.append((time.perf_counter() - began) * 1e3)
        sent.statuses[int(head[9:12])] += 1


async def _body(reader: asyncio.StreamReader, head: bytes) -> bytes:
    """By its length, or in chunks where there is none."""
    for line in head.split(b"\r\n"):
        if line.startswith(b"content-length:"):
            return await reader.readexactly(int(line[15:]))
    body = b""
    while size := int(await reader.readline(), 16):
        body += (await reader.readexactly(size + 2))[:-2]
    await reader.readexactly(2)
    return body


def wait_ready(port: int, path: str) -> None:
    """Until `path` answers 200. RuntimeError where it does not."""
    ends = time.monotonic() + READY_SECONDS
    while time.monotonic() < ends:
        try:
            if set(send(port, [request("GET", path)]).statuses) == {200}:
                return
        except (OSError, EOFError, asyncio.IncompleteReadError):
            pass
        time.sleep(0.2)
    raise RuntimeError(f"{path} did not become 200")
