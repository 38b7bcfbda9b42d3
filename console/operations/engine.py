"""Runs operations: chunk by chunk along the ids, under a lease, so that a crash resumes where it stopped.

Each chunk is one transaction, guarded by the lease: the lifecycle acts, what became of each row is written, and the
cursor moves on. All of it commits or none, so a runner that dies at any moment leaves nothing half done: whoever comes
next does the chunk as if for the first time. Lock order: the operation's row, then what the lifecycle locks.
"""

import time
import uuid
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import structlog
from django.db import InterfaceError, OperationalError, transaction
from django.db.models import F, Q
from django.db.models.functions import Now

from console.models import Operation, OperationItem
from console.operations import sets
from console.operations.canary import held_words, returned
from console.operations.verbs import DONE, FAILED, SKIPPED, VERBS, Outcomes
from kernel.correlation import bind
from kernel.live_hints import touched

CHUNK = 1_000
LEASE = timedelta(seconds=60)
BUDGET_SECONDS = 20.0
State = Operation.State

log = structlog.get_logger(__name__)
Sleep = Callable[[float], None]


def run_due(budget_seconds: float = BUDGET_SECONDS, sleep: Sleep = time.sleep) -> int:
    """Advance every running operation that nobody else advances. Returns how many were advanced."""
    deadline = time.monotonic() + budget_seconds
    ids = list(Operation.objects.filter(state=State.RUNNING).order_by("pk").values_list("pk", flat=True))
    advanced = 0
    for pk in ids:
        if time.monotonic() >= deadline:
            break
        runner = _lease(pk)
        if runner is not None:
            with bind(f"operation_{pk}"):
                _run(runner, deadline, sleep)
            advanced += 1
    return advanced


def _run(runner: "Runner", deadline: float, sleep: Sleep) -> None:
    """What the database breaks off (a deadlock, a timeout) is done next time, and holds up no other operation."""
    try:
        runner.run(deadline, sleep)
    except (OperationalError, InterfaceError) as error:
        log.warning("operation_broken_off", operation=runner.operation.pk, error=type(error).__name__)


def _lease(pk: int) -> "Runner | None":
    token = uuid.uuid4()
    free = Q(leased_until__isnull=True) | Q(leased_until__lt=Now())
    rows = Operation.objects.filter(free, pk=pk, state=State.RUNNING)
    if not rows.update(lease_token=token, leased_until=Now() + LEASE):
        return None
    return Runner(Operation.objects.get(pk=pk), token)


def _freeze(row: Operation) -> None:
    """For an operation that was begun before sets were written down: what its filter still names is its set."""
    rows = VERBS[row.verb].rows(row.filter, row.subscriber or None)
    handled = row.done_count + row.skipped_count + row.failed_count
    count, _ = sets.freeze(row.pk, rows.filter(pk__gt=row.cursor, pk__lte=row.watermark))
    row.target_count, row.is_frozen = handled + count, True
    row.save(update_fields=["target_count", "is_frozen"])


class LeaseLost(Exception):
    """Somebody paused or cancelled it, or another runner took over."""


class Runner:
    """One run of one operation under its lease."""

    def __init__(self, operation: Operation, token: uuid.UUID) -> None:
        self.operation, self.token = operation, token
        self.verb = VERBS[operation.verb]

    def run(self, deadline: float, sleep: Sleep) -> None:
        try:
            while time.monotonic() < deadline and self._canary_allows():
                began = time.monotonic()
                handled = self._chunk()
                if not handled:
                    self._end(State.COMPLETED, finished_at=Now())
                    break
                self._pace(handled, began, deadline, sleep)
        except LeaseLost:
            log.info("operation_handed_over", operation=self.operation.pk)
        finally:
            Operation.objects.filter(pk=self.operation.pk, lease_token=self.token).update(
                lease_token=None, leased_until=None
            )

    def _chunk(self) -> int:
        """Do the next rows: effect, outcomes, counts and cursor in one transaction. Returns how many they were."""
        with transaction.atomic():
            row = self._mine()
            ids = sets.next_ids(row.pk, row.cursor, self._chunk_size(row))
            if ids:
                outcomes = self._act(ids)
                sets.write_items(row.pk, outcomes)
                self._move_on(row, ids[-1], Counter(word for word, _ in outcomes.values()))
        return len(ids)

    def _mine(self) -> Operation:
        """The row, locked: nobody else advances, pauses or cancels it until the chunk is committed."""
        rows = Operation.objects.select_for_update(no_key=True)
        found = rows.filter(pk=self.operation.pk, lease_token=self.token, state=State.RUNNING).first()
        if found is None:
            raise LeaseLost
        if not found.is_frozen:
            _freeze(found)
        return found

    def _chunk_size(self, row: Operation) -> int:
        size = min(CHUNK, self.verb.at_most, row.rate_per_second or CHUNK)
        if row.canary_size and row.canary_state == "":
            return min(size, row.canary_size)
        return max(1, size)

    def _act(self, ids: Sequence[int]) -> Outcomes:
        try:
            with transaction.atomic():
                return self.verb.act(ids, self.operation)
        except (OperationalError, InterfaceError):
            raise  # a deadlock, a database that goes down: nothing is done, and the next run takes the same rows
        except Exception as error:  # noqa: BLE001 - one chunk that cannot be done is an outcome of its rows, not of all
            log.error("operation_chunk_failed", operation=self.operation.pk, error=type(error).__name__, first=ids[0])
            words = getattr(error, "detail", "") or "see the log"  # a database's own text may quote a payload
            return dict.fromkeys(ids, (FAILED, f"{type(error).__name__}: {words}"[:200]))

    def _move_on(self, row: Operation, last_id: int, counts: Counter[str]) -> None:
        is_canary = bool(row.canary_size) and row.canary_state == ""
        Operation.objects.filter(pk=row.pk).update(
            cursor=last_id,
            leased_until=Now() + LEASE,
            canary_state="watching" if is_canary else row.canary_state,
            done_count=F("done_count") + counts[DONE],
            skipped_count=F("skipped_count") + counts[SKIPPED],
            failed_count=F("failed_count") + counts[FAILED],
        )
        sets.forget(row.pk, up_to=last_id)
        touched(f"operation:{row.pk}")

    def _canary_allows(self) -> bool:
        """Whether the rest may go: not while the first few are out, and not if the same failure came back."""
        row = Operation.objects.get(pk=self.operation.pk)
        if row.canary_state != "watching":
            return True
        first = OperationItem.objects.filter(operation=row, outcome=DONE).order_by("object_id")[: row.canary_size]
        before = {item.object_id: item.detail for item in first}
        again, undecided = returned(row.verb, before)
        if again:
            words = f"The same failure came back for {len(again)} of the first {len(before)}. Nothing else was touched."
            self._end(State.STOPPED, detail=words)
            return False
        mine = Operation.objects.filter(pk=row.pk, lease_token=self.token)
        if undecided:
            words = f"The first {len(before)} are out; the rest waits until it is known what became of them."
            words += held_words(row.verb, before)
            if words != row.detail and mine.update(detail=words):
                touched(f"operation:{row.pk}")
            return False
        mine.update(canary_state="passed", detail="")
        return True

    def _end(self, state: str, **changes: Any) -> None:
        rows = Operation.objects.filter(pk=self.operation.pk, lease_token=self.token, state=State.RUNNING)
        if rows.update(state=state, **changes):
            log.info("operation_" + state, operation=self.operation.pk, verb=self.operation.verb)
            touched(f"operation:{self.operation.pk}", "stats")

    def _pace(self, handled: int, began: float, deadline: float, sleep: Sleep) -> None:
        """Keep to the rate: so many rows take so long."""
        if self.operation.rate_per_second:
            rest = handled / self.operation.rate_per_second - (time.monotonic() - began)
            sleep(max(0.0, min(rest, deadline - time.monotonic())))
