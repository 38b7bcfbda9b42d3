"""A process that looks at one database: records, claims, settles and asks for pages when told to, a line at a time.

Two of them, on an empty database and on a full one, asked in turn within the same second, see the same machine: what
else it does weighs on both alike. Commands on stdin: `grow N`, `record N`, `rounds N`, `pages N`; each answer is a line
of JSON.
"""

from __future__ import annotations

import json
import random
import statistics
import subprocess
import sys
import time
import uuid
from collections.abc import Callable

from bench import ROOT

ROWS = 100
PAGES = {
    "list": "/api/v1/deliveries/",
    "list_endpoint": "/api/v1/deliveries/?endpoint={endpoint}",
    "list_delivered": "/api/v1/deliveries/?state=delivered",
    "list_dead": "/api/v1/deliveries/?state=dead_letter",
    "attempts": "/api/v1/deliveries/{delivery}/attempts/",
    "stats": "/api/v1/stats/",
}
Figures = dict[str, list[float]]


class Probe:
    """The bench's side: a probing process on this database."""

    def __init__(self, env: dict[str, str], database_url: str, receiver_port: int, endpoints: int) -> None:
        argv = [sys.executable, "-m", "bench.harness.probing", str(receiver_port), str(endpoints)]
        self._process = subprocess.Popen(
            argv, cwd=ROOT, env={**env, "DATABASE_URL": database_url},
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    def ask(self, command: str) -> dict:
        """What the process answers to this command. RuntimeError where it has ended."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(command + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the probing process ended at {command!r}")
        return json.loads(line)

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(30)


# --- the process itself ---------------------------------------------------------------------------------------------


class Prober:
    """Lives in the probing process; Django stands by then."""

    def __init__(self, receiver_port: int, endpoints: int) -> None:
        from bench.harness import rows
        from bench.harness.receiving import Receiver
        from delivery.engine.claiming import Claimer
        from delivery.latency import Recorder

        self._targets = rows.make_endpoints(Receiver(receiver_port, 0), endpoints)
        self._claimer, self._recorder, self._rng = Claimer(), Recorder(), random.Random(1)
        self._client = None

    def record(self, count: int) -> dict:
        """So many due deliveries; then vacuum, analyze, checkpoint."""
        from bench.harness import rows

        rows.record(self._targets, count)
        rows.settle_down("delivery_event", "delivery_delivery", "delivery_attempt", "delivery_endpointhealth")
        return {}

    def grow(self, count: int) -> dict:
        """So many finished deliveries, each with its attempt."""
        from bench.harness import seed

        endpoints = [target.pk for target in self._targets]
        seed.finished(endpoints, self._targets[0].subscriber, count, f"old{uuid.uuid4().hex[:8]}")
        return {}

    def rounds(self, count: int) -> Figures:
        """Milliseconds of so many claims of ROWS rows, and of their settles, by the engine itself."""
        from delivery.engine import settle
        from delivery.engine.verdicts import judge

        claims, settles = [], []
        for _ in range(count):
            began = time.perf_counter()
            claimed, _ = self._claimer.claim(ROWS, uuid.uuid4())
            claims.append((time.perf_counter() - began) * 1000)
            if not claimed:
                raise RuntimeError("nothing is due any more: record more")
            verdicts = [judge(one, _result(), self._rng) for one in claimed]
            began = time.perf_counter()
            settle.settle(verdicts, self._recorder, "bench")
            settles.append((time.perf_counter() - began) * 1000)
        return {"claim": claims, "settle": settles}

    def pages(self, looks: int) -> Figures:
        """Milliseconds of each page, asked of the API itself with a key."""
        from delivery.models import Delivery

        client = self._signed_in()
        newest = Delivery.objects.order_by("-id").values_list("id", flat=True)[0]
        found = {}
        for name, path in PAGES.items():
            where = path.format(endpoint=self._targets[7].pk, delivery=newest)
            found[name] = [_ask(client, where) for _ in range(looks)]
        return found

    def _signed_in(self) -> object:
        from django.test import Client

        from kernel.auth import Scope, create_key

        if self._client is None:
            _, token = create_key("bench", [Scope.DELIVERIES_READ, Scope.TASKS_READ])
            self._client = Client(headers={"authorization": f"Bearer {token}", "host": "127.0.0.1"})
        return self._client


def _result() -> object:
    from delivery.engine.transport.messages import Request, TransferResult

    return TransferResult(Request(""), 200, address="127.0.0.1", reused=True, first_byte_ms=1.0, total_ms=1.2)


def _ask(client: object, path: str) -> float:
    began = time.perf_counter()
    answer = client.get(path)  # type: ignore[attr-defined]
    if answer.status_code != 200:
        raise RuntimeError(f"{path} answered {answer.status_code}: {answer.content[:200]!r}")
    return (time.perf_counter() - began) * 1000


def medians(figures: Figures) -> dict[str, float]:
    """The median of each list of milliseconds."""
    return {name: statistics.median(values) for name, values in figures.items()}


def main() -> None:
    import django

    django.setup()
    prober = Prober(int(sys.argv[1]), int(sys.argv[2]))
    verbs: dict[str, Callable[[int], dict]] = {
        "record": prober.record, "grow": prober.grow, "rounds": prober.rounds, "pages": prober.pages,
    }  # fmt: skip
    for line in sys.stdin:
        verb, number = line.split()
        print(json.dumps(verbs[verb](int(number))), flush=True)


if __name__ == "__main__":
    main()
