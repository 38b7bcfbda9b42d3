"""Events offered at a steady rate, and when each was committed: the other half of every latency.

`python -m bench.harness.load` does it in a process of its own and prints {uid: moment}, so that the offering does
not wait for the bench. The moments are CLOCK_MONOTONIC, taken before the COMMIT: what is told includes the commit.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from bench import ROOT

TICK_SECONDS = 0.02


def moments(per_second: float, seconds: float, tick: float = TICK_SECONDS) -> Iterator[tuple[float, int]]:
    """(seconds from the start, how many) for each tick, so that the sum keeps the rate whatever the tick."""
    done, number = 0, 0
    while (at := number * tick) < seconds:
        wanted = int(min(at + tick, seconds) * per_second + 1e-9)
        if wanted > done:
            yield at, wanted - done
            done = wanted
        number += 1


def offer(subscribers: Sequence[str], per_second: float, seconds: float, mark: str) -> dict[str, float]:
    """Record so many events a second for these subscribers in turn; returns the moment of each uid."""
    from django.db import transaction

    from bench.harness.rows import new_event
    from delivery import events

    began, number, at = time.monotonic(), 0, {}
    for due, count in moments(per_second, seconds):
        time.sleep(max(0.0, began + due - time.monotonic()))
        new = []
        for _ in range(count):
            new.append(new_event(subscribers[number % len(subscribers)], number, f"{mark}_{number}"))
            number += 1
        with transaction.atomic():
            events.record_many(new)
            now = time.monotonic()
        at.update({str(event.uid): now for event in new})
    return at


@contextmanager
def offering(
    env: dict[str, str], subscribers: Sequence[str], per_second: float, seconds: float, mark: str
) -> Iterator[subprocess.Popen[str]]:
    """Offer from a process of its own while the block runs; `offered` waits for its end."""
    argv = [sys.executable, "-m", "bench.harness.load", "--rate", str(per_second), "--seconds", str(seconds),
            "--mark", mark]  # fmt: skip
    process = subprocess.Popen(argv, cwd=ROOT, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdin is not None
        process.stdin.write(json.dumps(list(subscribers)) + "\n")
        process.stdin.flush()
        assert process.stdout is not None
        if process.stdout.readline().strip() != "ready":
            raise RuntimeError("the offering process did not start")
        yield process
    finally:
        if process.poll() is None:
            process.terminate()
        process.wait(20)


def offered(process: subprocess.Popen[str]) -> dict[str, float]:
    """Wait until it has offered everything; the moment of each uid."""
    out, _ = process.communicate()
    return json.loads(out)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.harness.load", description=__doc__)
    parser.add_argument("--rate", type=float, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--mark", required=True)
    chosen = parser.parse_args()
    subscribers = json.loads(sys.stdin.readline())
    import django

    django.setup()
    from django.db import connection

    connection.ensure_connection()
    print("ready", flush=True)
    print(json.dumps(offer(subscribers, chosen.rate, chosen.seconds, chosen.mark)), flush=True)


if __name__ == "__main__":
    main()
