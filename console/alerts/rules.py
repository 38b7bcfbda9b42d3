"""The alert rules: each looks at the database and says what an operator must know now, and what to do about it.

A rule is a function of `now` that returns findings; it changes nothing. `console.alerts.evaluate` opens, keeps and
resolves.
"""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Count, Max, Min, OuterRef, Q, Subquery
from django.urls import reverse

from console.alerts import leftover_rules, schedule_rules, steps
from console.alerts.findings import Finding
from console.health import checks, database, heartbeat
from console.models import Heartbeat
from delivery import dead_letters as delivery_side
from delivery import stats as delivery_stats
from delivery.models import Delivery, Endpoint, EndpointHealth, lean
from delivery.policy import own_faults, retry
from delivery.states import WAITING_STATES, BreakerState
from kernel import counting
from tasks.models import Task
from tasks.reading import stats as task_stats
from tasks.states import State as TaskState

WAITING_TOO_LONG = timedelta(minutes=30)
STARTING_UP = timedelta(seconds=60)
SNAPSHOT_TOO_OLD = timedelta(minutes=5)
SILENT_SHARE_PERCENT, SILENT_LEAST_JOBS = 20, 10
ENDPOINTS_LOOKED_AT = 500
PROCESSES_NAMED = 10
OWN_FAULT_LASTS = timedelta(seconds=20)  # a moment's is no alert


def dead_letters(_now: datetime) -> list[Finding]:
    found = []
    tasks = counting.capped(Task.objects.filter(state=TaskState.DEAD_LETTER))
    # Those of a deleted endpoint were kept on purpose: nobody waits for them.
    for counted, what in ((tasks, "task"), (delivery_side.redrivable_count(), "delivery")):
        count = counted.number
        if count:
            plural = "deliveries" if what == "delivery" else "tasks"
            found.append(
                Finding(
                    "dead_letters",
                    plural,
                    f"{counted.words} dead {what if count == 1 else plural}",
                    "They gave up and wait for a person.",
                    "Look at the groups, correct the cause, then redrive or discard them.",
                    f"{reverse('dead-letters')}#{plural}",
                    count,
                )
            )
    return found


def waiting_deliveries(now: datetime) -> list[Finding]:
    """The oldest due delivery that nothing holds, against 30 minutes and against its endpoint's own retry window."""
    first = Delivery.objects.filter(endpoint=OuterRef("pk"), state__in=WAITING_STATES).order_by("next_attempt_at")
    rows = (
        lean(Endpoint.objects.exclude(delivery_stats.HELD))
        .annotate(due=Subquery(first.values("next_attempt_at")[:1]))
        .filter(due__lt=now - timedelta(minutes=1))
        .order_by("due")[:ENDPOINTS_LOOKED_AT]
    )
    late = [(row, now - row.due) for row in rows if now - row.due > _patience(row)]
    if not late:
        return []
    worst, age = max(late, key=lambda pair: pair[1])
    return [
        Finding(
            "waiting_too_long",
            "deliveries",
            f"A delivery to {worst.host} has been due for {_words(age)}",
            f"{len(late)} endpoints have deliveries that wait longer than they should. Nothing holds them.",
            "See on the start page whether a delivery worker lives. If it does, look at the endpoint's rate limit, its "
            "learned pace and its concurrency, or start more delivery workers.",
            reverse("admin:delivery_endpoint_change", args=[worst.pk]),
            age.total_seconds(),
        )
    ]


def _patience(endpoint: Endpoint) -> timedelta:
    """The endpoint's own retry window, within two and thirty minutes."""
    schedule = retry.schedule_for(endpoint.retry_profile, endpoint.retry_delays)
    window = timedelta(seconds=schedule.window_seconds(endpoint.max_attempts))
    return min(WAITING_TOO_LONG, max(timedelta(minutes=2), window))


def waiting_tasks(now: datetime) -> list[Finding]:
    oldest = task_stats.oldest_waiting(now)
    if oldest is None or now - oldest <= WAITING_TOO_LONG:
        return []
    return [
        Finding(
            "waiting_too_long",
            "tasks",
            f"A task has been due for {_words(now - oldest)}",
            "Tasks wait longer than they should. Their kind is not paused.",
            "See on the start page whether a tasks worker lives, and under Kind policies whether the concurrency or "
            "the rate of the kind is too low for the load.",
            f"{reverse('admin:tasks_task_changelist')}?state__exact=queued",
            (now - oldest).total_seconds(),
        )
    ]


def slow_endpoints(_now: datetime) -> list[Finding]:
    return [
        Finding(
            "slow_endpoint",
            f"endpoint:{row['id']}",
            f"{row['name'] or row['host']} answers slowly: p95 {row['p95_ms'] / 1000:.1f} s",
            f"p95 {row['p95_ms']:.0f} ms over {row['sample_count']} samples of 24 hours. Failures often follow.",
            "Tell the receiver before it fails. Lower the endpoint's concurrency if our load is the cause.",
            reverse("admin:delivery_endpoint_change", args=[row["id"]]),
            row["p95_ms"],
        )
        for row in delivery_stats.slow_endpoints()
    ]


def open_breakers(_now: datetime) -> list[Finding]:
    """Those that failed by themselves; what a fault of ours has opened is told by `own_faults_in_a_row`."""
    rows = EndpointHealth.objects.select_related("endpoint").filter(endpoint__deleted_at=None, own_fault_count=0)
    rows = lean(rows, "endpoint__")
    return [
        Finding(
            "breaker_open",
            f"endpoint:{row.pk}",
            f"The circuit breaker of {row.endpoint.name or row.endpoint.host} is open",
            f"{row.consecutive_failures} failures in a row. Its deliveries are held, nothing is lost; "
            f"one probe goes out after each cooldown.",
            "Nothing is to be done if the receiver recovers by itself; Resume sends at once. If it does not recover, "
            "tell them; redrive what died.",
            reverse("admin:delivery_endpoint_change", args=[row.pk]),
            row.consecutive_failures,
        )
        for row in rows.exclude(breaker_state=BreakerState.CLOSED)[:ENDPOINTS_LOOKED_AT]
    ]


def endpoints_in_need(_now: datetime) -> list[Finding]:
    rows = Endpoint.objects.filter(Q(attention_at__isnull=False) | Q(disabled_at__isnull=False), deleted_at=None)
    found = []
    for row in lean(rows.order_by("-pk"))[:ENDPOINTS_LOOKED_AT]:
        is_off = row.disabled_at is not None
        found.append(
            Finding(
                "endpoint_held",
                f"endpoint:{row.pk}",
                f"{row.name or row.host} {'is disabled' if is_off else 'needs attention'}",
                _held_words(row.hold_reason),
                "Correct what the reason names, send a test, then press "
                + ("Enable" if is_off else "Resume")
                + " on the endpoint; what is held goes out.",
                reverse("admin:delivery_endpoint_change", args=[row.pk]),
            )
        )
    return found


def own_faults_in_a_row(now: datetime) -> list[Finding]:
    """What of ours keeps deliveries from going out, one finding for each sort; held endpoints are told by their own."""
    rows = (
        EndpointHealth.objects.filter(own_fault_since__lt=now - OWN_FAULT_LASTS)
        # A sick process meets other endpoints at each of its tries.
        .filter(Q(own_fault_count__gt=1) | Q(own_fault_count=1, own_fault_kind=own_faults.Kind.PROCESS))
        .filter(endpoint__is_held=False)
        .values("own_fault_kind")
        .annotate(endpoints=Count("pk"), since=Min("own_fault_since"), first=Min("pk"))
    )
    found = []
    for row in rows.order_by("own_fault_kind"):
        title, advice = own_faults.WORDS[own_faults.kind_of(row["own_fault_kind"])]
        who = "1 endpoint waits" if row["endpoints"] == 1 else f"{row['endpoints']} endpoints wait"
        found.append(
            Finding(
                "own_fault",
                row["own_fault_kind"],
                f"{title}: {who}",
                f"Since {row['since']:%Y-%m-%d %H:%M} UTC, and it is a fault on our side. No receiver is charged an "
                "attempt, and nothing is lost; after ten minutes only probes are sent.",
                advice,
                reverse("admin:delivery_endpoint_change", args=[row["first"]]),
                row["endpoints"],
            )
        )
    return found


def _held_words(reason: str) -> str:
    words = reason or "It refused several deliveries in a row."
    return words if "held" in words else f"{words.rstrip('.')}. Its deliveries are held, none is lost."


ROLES = {
    heartbeat.DELIVERY: ("No delivery worker is alive", "Deliveries wait until one starts."),
    heartbeat.TASKS: ("No tasks worker is alive", "Tasks wait until one starts."),
    heartbeat.BEAT: (
        "Beat is not alive",
        "The minute poll, the rescue of expired leases and these alerts stand still.",
    ),
    heartbeat.SCHEDULE: ("Beat's ticks reach no worker", "Beat may hang, or the broker or the default worker is away."),
}


def processes(now: datetime) -> list[Finding]:
    rows = (
        Heartbeat.objects.order_by()
        .values("role")
        .annotate(seen=Max("seen_at"), fresh=Count("pk", filter=Q(seen_at__gte=now - heartbeat.FRESH)))
    )
    seen: dict[str, dict[str, Any]] = {row["role"]: dict(row) for row in rows}
    since = Heartbeat.objects.filter(seen_at__gte=now - heartbeat.FRESH).exclude(
        role__in=[heartbeat.SCHEDULE, heartbeat.EVALUATOR]
    )
    began = since.aggregate(began=Min("started_at"))["began"]
    if began is None or now - began < STARTING_UP:
        return []  # the house is starting up; give every process its minute
    return [
        Finding(
            "process_missing",
            role,
            title,
            f"{what} Last seen: {_last(seen.get(role))}.",
            "Start it again and look at its log; `manage.py doctor` says what it needs.",
            reverse("readyz"),
        )
        for role, (title, what) in ROLES.items()
        if not seen.get(role, {}).get("fresh")
    ]


def clocks_off(_now: datetime) -> list[Finding]:
    """One for each host; where every host is named, the database's own clock is the wrong one."""
    hosts: dict[str, list[tuple[str, float]]] = {}
    for process, seconds in heartbeat.clocks_off():
        host = process.partition("@")[2].rpartition(":")[0]
        hosts.setdefault(host, []).append((process, seconds))
    return [_clock_off(host, rows) for host, rows in sorted(hosts.items())]


def _clock_off(host: str, rows: list[tuple[str, float]]) -> Finding:
    worst = max((seconds for _process, seconds in rows), key=abs)
    named = ", ".join(f"{process} ({checks.ahead_words(seconds)})" for process, seconds in rows[:PROCESSES_NAMED])
    more = f" and {len(rows) - PROCESSES_NAMED} more" if len(rows) > PROCESSES_NAMED else ""
    return Finding(
        "clock_off",
        f"host:{host}"[:100],
        f"The clock of {host} is {checks.ahead_words(worst)}",
        f"Against the database's clock: {named}{more}. Roundtrip goes by the database's, so work goes on; TLS "
        "certificates, log lines and whatever else runs there go by the host's.",
        "Synchronise the host with NTP (`timedatectl`, `chronyc tracking`). If every host is named, it is the "
        "database's clock that is wrong, and so are the times that are stored and signed.",
        reverse("readyz"),
        round(worst),
    )


def _last(row: dict[str, Any] | None) -> str:
    return f"{row['seen']:%Y-%m-%d %H:%M:%S} UTC" if row else "never"


def held_snapshots(_now: datetime) -> list[Finding]:
    held = database.oldest_snapshot()
    if held is None or held.age <= SNAPSHOT_TOO_OLD:
        return []
    return [
        Finding(
            "held_snapshot",
            "database",
            f"A database session holds a snapshot for {_words(held.age)}",
            f"{held.what}. PostgreSQL cannot clean up behind it; claims and lists get slower the longer it lasts.",
            f"End it: {held.remedy}",
            reverse("start"),
            held.age.total_seconds(),
        )
    ]


def silent_webhooks(now: datetime) -> list[Finding]:
    noticed = task_stats.noticed_last_hour(now)
    if noticed["total"] < SILENT_LEAST_JOBS or noticed["shares"]["silent"] <= SILENT_SHARE_PERCENT:
        return []
    return [
        Finding(
            "webhooks_silent",
            "providers",
            f"The poll finished {noticed['shares']['silent']} % of the last hour's jobs",
            noticed["words"],
            "Check that PUBLIC_BASE_URL leads to us from outside (`manage.py doctor`), and what the inbox refused.",
            reverse("admin:webhooks_inboundevent_changelist"),
            noticed["shares"]["silent"],
        )
    ]


def _words(age: timedelta) -> str:
    minutes = int(age.total_seconds() // 60)
    if minutes < 120:
        return f"{minutes} minutes"
    return f"{minutes // 60} hours" if minutes < 2880 else f"{minutes // 1440} days"


RULES: dict[str, tuple[Callable[[datetime], list[Finding]], ...]] = {
    "dead_letters": (dead_letters,),
    "waiting_too_long": (waiting_deliveries, waiting_tasks),
    "slow_endpoint": (slow_endpoints,),
    "breaker_open": (open_breakers,),
    "process_missing": (processes,),
    "clock_off": (clocks_off,),
    "endpoint_held": (endpoints_in_need,),
    "own_fault": (own_faults_in_a_row,),
    "held_snapshot": (held_snapshots,),
    "step_broke": (steps.broken,),
    "schedule_row_unusable": (schedule_rules.unusable,),
    "schedule_row_missing": (schedule_rules.missing,),
    "webhooks_silent": (silent_webhooks,),
    "demo_leftover": (leftover_rules.demo,),
}
