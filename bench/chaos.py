"""Whether anything is lost: 100,000 deliveries while workers are killed with -9 every two seconds, the broker is
flushed and restarted, and PostgreSQL is restarted in immediate mode twice.

The one killed is always one that is delivering at that moment, or the kill would prove nothing; it is started again
at once. Accepted is what `record_many` returned for. A batch whose commit ended in an error is recorded again under the
same uids, as a careful caller does. Beat and the worker of its ticks run as in production.

Keys: `accepted`, `delivered`, `lost`, `duplicated`, `duplicates_bound`, `unknown`, `left_in_flight`, `dead`,
`account_difference`, `drain_s`.
"""

from __future__ import annotations

import argparse
import threading
import time

from roundtrip_up import process_table

import bench
from bench.harness import measure, report
from bench.harness.faults import Fault, Faults, Processes, patiently
from bench.harness.receiving import Receiver, receiver

ENDPOINTS, BATCH = 50, 100
WORKERS = 3  # a new one takes seconds until it works; so one or two do at any time
FULL = {"count": 100_000, "per_second": 2_500, "least_s": 40.0}
QUICK = {"count": 3_000, "per_second": 300, "least_s": 10.0}
KILL_EVERY_SECONDS = 2.0
FAULTS_MOST_SECONDS, DRAIN_MOST_SECONDS = 240.0, 300.0
# Short, so that the leases of the dead end soon; a cap above what the dead of half a minute hold.
POLICY = {"timeout_ms": 5_000, "max_concurrency": 200}
LEFT = (
    "SELECT EXISTS (SELECT 1 FROM delivery_delivery WHERE state = 'in_flight')::int "
    "+ EXISTS (SELECT 1 FROM delivery_delivery WHERE state IN ('pending', 'failed'))::int"
)


def run(arguments: argparse.Namespace) -> dict:
    sizes = QUICK if arguments.quick else FULL
    external = {name: value for name in EXTERNAL if (value := getattr(arguments, name.lower()))}
    with receiver() as receiving, bench.topology(external) as servers:
        servers.set_up_django()
        caller = Caller(_endpoints(receiving), sizes["count"], sizes["per_second"])
        processes = Processes(servers, _programs(servers))
        processes.start()
        try:
            caller.start()
            faults = _faults(servers, processes, caller, sizes["least_s"])
            report.progress("no more faults: drain")
            drain_s = _drain(servers.env["DATABASE_URL"], processes)
        finally:
            processes.stop()
        seen = _seen(receiving, caller.accepted)
    _print(faults, processes.restarts)
    return _figures(seen, faults, drain_s)


EXTERNAL = ("DATABASE_URL", "CELERY_BROKER_URL", "CHANNEL_LAYER_URL")


def _programs(servers: bench.Topology) -> list:
    """As bin/up starts them, but for the web."""
    every_one = process_table.programs(servers.python, servers.addresses, WORKERS, servers.env)
    return [program for program in every_one if program.name != "web"]


def _endpoints(receiving: Receiver) -> list[str]:
    """Half of them answer at once, half after 20 ms, so that there is something in the air."""
    from bench.harness.rows import forget_all, make_endpoints

    forget_all()
    half = ENDPOINTS // 2
    made = make_endpoints(receiving, half, **POLICY) + make_endpoints(receiving, half, "/slow/20", **POLICY)
    return [target.subscriber for target in made]


class Caller(threading.Thread):
    """Records events in batches and keeps what was accepted; tries a failed batch again until it is."""

    def __init__(self, subscribers: list[str], count: int, per_second: float) -> None:
        super().__init__(name="caller", daemon=True)
        self._subscribers, self._count, self._per_second = subscribers, count, per_second
        self.accepted: list[str] = []
        self.repeated = 0

    def run(self) -> None:
        began = time.monotonic()
        for start in range(0, self._count, BATCH):
            time.sleep(max(0.0, began + start / self._per_second - time.monotonic()))
            while not self._record(range(start, min(self._count, start + BATCH))):
                self.repeated += 1
                time.sleep(0.1)

    def _record(self, numbers: range) -> bool:
        from django.db import Error, close_old_connections, connection

        from bench.harness.rows import new_event
        from delivery import events

        new = [new_event(self._subscribers[n % len(self._subscribers)], n, f"chaos_{n}") for n in numbers]
        try:
            close_old_connections()
            events.record_many(new)
        except Error:
            connection.close()
            return False
        self.accepted += [str(event.uid) for event in new]
        return True

    @property
    def is_done(self) -> bool:
        return not self.is_alive()


def _faults(servers: bench.Topology, processes: Processes, caller: Caller, least_s: float) -> list[Fault]:
    """Faults until everything is accepted, and for at least so long."""
    faults = Faults(servers, processes)
    workers = [f"worker-delivery-{number}" for number in range(1, WORKERS + 1)]
    kill_at = 0.0
    planned = [(least_s * share, verb) for share, verb in (
        (0.2, faults.break_broker), (0.4, faults.crash_postgres), (0.6, faults.break_broker),
        (0.8, faults.crash_postgres),
    )]  # fmt: skip
    began = time.monotonic()
    while (passed := time.monotonic() - began) < least_s or planned or not caller.is_done:
        if passed > FAULTS_MOST_SECONDS:
            raise RuntimeError(f"only {len(caller.accepted)} were accepted in {passed:.0f} s")
        if planned and passed >= planned[0][0]:
            planned.pop(0)[1]()
            report.progress(f"{faults.done[-1].kind}; accepted {len(caller.accepted):,}")
        if passed >= kill_at and (victim := processes.oldest_at_work(workers)):
            faults.kill(victim)
            kill_at = passed + KILL_EVERY_SECONDS
        processes.look_after()
        time.sleep(0.05)
    return faults.done


def _drain(url: str, processes: Processes) -> float:
    """Seconds until nothing waits and nothing is in the air."""
    began = time.monotonic()
    while patiently(url, LEFT)[0][0]:
        if time.monotonic() - began > DRAIN_MOST_SECONDS:
            break  # the figures say what was left
        processes.look_after()
        time.sleep(0.1)
    return time.monotonic() - began


def _seen(receiving: Receiver, accepted: list[str]) -> dict[str, int]:
    """What receiver and database say at the end."""
    from django.db import connection
    from django.utils import timezone

    from bench.harness.rows import states
    from delivery.maintenance.accounting import account
    from delivery.models import Attempt, Delivery

    connection.close()
    arrived = receiving.arrivals()
    owed = set(accepted)
    delivered = set(Delivery.objects.filter(state="delivered").values_list("event__uid", flat=True))
    now = states()
    return {
        "accepted": len(owed),
        "delivered": len(owed & delivered & arrived.keys()),
        "lost": len(owed - (delivered & arrived.keys())),
        "duplicated": sum(len(moments) - 1 for moments in arrived.values()),
        "most_of_one": max((len(moments) for moments in arrived.values()), default=0),
        "unknown": len(arrived.keys() - owed),
        "rescued": Attempt.objects.filter(outcome="rescued").count(),
        "left_in_flight": now.get("in_flight", 0),
        "dead": now.get("dead_letter", 0),
        "account_difference": account(timezone.now().date()).difference,
    }


def _print(faults: list[Fault], restarts: int) -> None:
    kinds: dict[str, list[Fault]] = {}
    for fault in faults:
        kinds.setdefault(fault.kind.rstrip("0123456789-"), []).append(fault)
    rows = [
        (kind, len(each), f"{each[0].at:.0f}", f"{each[-1].at:.0f}", f"{sum(f.in_flight for f in each):,}")
        for kind, each in kinds.items()
    ]
    report.table(
        f"Faults; {restarts} processes ended by themselves and were started again",
        ("fault", "times", "first s", "last s", "in flight then, sum"),
        rows,
    )


def _figures(seen: dict[str, int], faults: list[Fault], drain_s: float) -> dict:
    bound = sum(fault.in_flight for fault in faults if fault.may_duplicate)
    figures = {**seen, "duplicates_bound": bound, "drain_s": round(drain_s, 1)}
    report.table("What became of them", ("figure", "count"), [(name, f"{value:,}") for name, value in figures.items()])
    report.verdicts(
        [
            ("lost", seen["lost"], "<=", 0),
            ("dead", seen["dead"], "<=", 0),
            ("left_in_flight", seen["left_in_flight"], "<=", 0),
            ("unknown", seen["unknown"], "<=", 0),
            ("account_difference", abs(seen["account_difference"]), "<=", 0),
            ("duplicated", seen["duplicated"], "<=", bound),
        ]
    )
    return {**figures, "machine": measure.machine()}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--quick", action="store_true", help="3,000 deliveries in ten seconds of faults")
    for name in EXTERNAL:
        option = f"--{name.lower().replace('_', '-')}"
        parser.add_argument(option, default="", help="a server that stands already; what is in it is emptied")


if __name__ == "__main__":
    bench.main(run, add_arguments)
