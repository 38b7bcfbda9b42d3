"""The bare libcurl loop: one process, signed 700-byte bodies, connections kept alive, nothing stored anywhere.

It is the ceiling: of the receiver, and of whoever sends through libcurl on this machine.
"""

from __future__ import annotations

import argparse
import json
import time
from itertools import cycle

import pycurl

from sandbox.signing import secret_bytes, sign

IN_AIR = 100


class Loop:
    """libcurl's multi interface over its own epoll-like wait, as plain as its manual shows it."""

    def __init__(self, urls: list[str], secret: str, body_bytes: int) -> None:
        self._urls = cycle(urls)
        self._key = secret_bytes(secret)
        self._body = b"x" * body_bytes
        self._multi = pycurl.CurlMulti()
        self._number = 0

    def run(self, count: int) -> float:
        """Seconds that so many requests took."""
        free = [self._handle() for _ in range(min(IN_AIR, count))]
        began, done = time.perf_counter(), 0
        while done < count:
            while free and self._number < count:
                self._start(free.pop())
            self._multi.select(1.0)
            self._multi.perform()
            ended = self._ended()
            done += len(ended)
            free += ended
        return time.perf_counter() - began

    def _handle(self) -> pycurl.Curl:
        curl = pycurl.Curl()
        curl.setopt(pycurl.POST, 1)
        curl.setopt(pycurl.POSTFIELDS, self._body)
        curl.setopt(pycurl.WRITEFUNCTION, lambda _chunk: None)
        return curl

    def _start(self, curl: pycurl.Curl) -> None:
        self._number += 1
        name, moment = b"bare_%d" % self._number, b"%d" % time.time()
        signature = sign(self._key, name, moment, self._body)
        curl.setopt(pycurl.URL, next(self._urls))
        curl.setopt(
            pycurl.HTTPHEADER,
            [b"webhook-id: " + name, b"webhook-timestamp: " + moment, b"webhook-signature: " + signature, b"Expect:"],
        )
        self._multi.add_handle(curl)

    def _ended(self) -> list[pycurl.Curl]:
        ended: list[pycurl.Curl] = []
        while True:
            queued, good, bad = self._multi.info_read(512)
            if bad:
                raise RuntimeError(f"the receiver failed the bare loop: {bad[0][2]}")
            for curl in good:
                self._multi.remove_handle(curl)
            ended += good
            if not queued:
                return ended


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.baselines.bare", description=__doc__)
    parser.add_argument("--url", required=True, help="50 paths are made of it")
    parser.add_argument("--secret", required=True)
    parser.add_argument("--count", type=int, required=True)
    parser.add_argument("--bytes", type=int, default=700)
    chosen = parser.parse_args()
    loop = Loop([f"{chosen.url}/{n}" for n in range(50)], chosen.secret, chosen.bytes)
    began = time.process_time()
    seconds = loop.run(chosen.count)
    print(json.dumps({"seconds": seconds, "cpu_seconds": time.process_time() - began}), flush=True)


if __name__ == "__main__":
    main()
