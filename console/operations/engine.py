"""Runs operations: chunk by chunk along the ids, under a lease, so that a crash resumes where it stopped.

Each chunk is three steps: note its items as planned and move the cursor (one transaction, guarded by the lease); let
the lifecycle act (its own transaction); write what became of each item. A crash between them leaves planned items,
which the next runner takes up first: the lifecycle's guards make a second try harmless.
"""

import time
import uuid
from collections.abc import Callable, Sequence
from datetime import timedelta

import structlog
from django.db import transaction
from django.db.models import F, Q
from django.db.models.functions import Now

from console.models import Operation, OperationItem
from console.operations.verbs import DONE, FAILED, PLANNED, SKIPPED, VERBS, Outcomes, held_words, returned
from kernel.correlation import bind
from kernel.live_hints import touched

CHUNK = 500
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
                runner.run(deadline, sleep)
            advanced += 1
    return advanced


def _lease(pk: int) -> "Runner | None":
    token = uuid.uuid4()
    free = Q(leased_until__isnull=True) | Q(leased_until__lt=Now())
    rows = Operation.objects.filter(free, pk=pk, state=State.RUNNING)
    if not rows.update(lease_token=token, leased_until=Now() + LEASE):
        return None
    return Runner(Operation.objects.get(pk=pk), token)


class LeaseLost(Exception):
    """Somebody paused or cancelled it, or another runner took over."""


class Runner:
    """One run of one operation under its lease."""

    def __init__(self, operation: Operation, token: uuid.UUID) -> None:
        self.operation, self.token = operation, token
        self.verb = VERBS[operation.verb]

    def run(self, deadline: float, sleep: Sleep) -> None:
        try:
            self._finish_planned()
            while time.monotonic() < deadline:
                if not self._canary_allows():
                    break
                began = time.monotonic()
                ids = self._plan_chunk()
                if not ids:
                    self._end(State.COMPLETED)
                    break
                self._act(ids)
                self._pace(len(ids), began, deadline, sleep)
        except LeaseLost:
            log.info("operation_handed_over", operation=self.operation.pk)
        finally:
            Operation.objects.filter(pk=self.operation.pk, lease_token=self.token).update(
                lease_token=None, leased_until=None
            )

    def _mine(self) -> "Operation":
        row = Operation.objects.select_for_update().filter(
            pk=self.operation.pk, lease_token=self.token, state=State.RUNNING
        )
        found = row.first()
        if found is None:
            raise LeaseLost
        return found

    def _plan_chunk(self) -> list[int]:
        with transaction.atomic():
            row = self._mine()
            subscriber = row.subscriber or None
            rows = self.verb.rows(row.filter, subscriber).filter(pk__gt=row.cursor, pk__lte=row.watermark)
            ids = list(rows.order_by("pk").values_list("pk", flat=True)[: self._chunk_size(row)])
            if ids:
                items = [OperationItem(operation=row, object_id=pk, outcome=PLANNED) for pk in ids]
                OperationItem.objects.bulk_create(items, ignore_conflicts=True)
                row.cursor, row.leased_until = ids[-1], Now() + LEASE
                row.save(update_fields=["cursor", "leased_until"])
        return ids

    def _chunk_size(self, row: Operation) -> int:
        size = min(CHUNK, row.rate_per_second or CHUNK)
        if row.canary_size and row.canary_state == "":
            return min(size, row.canary_size)
        return max(1, size)

    def _finish_planned(self) -> None:
        """What a crash left between plan and outcome."""
        while True:
            left = OperationItem.objects.filter(operation=self.operation, outcome=PLANNED).order_by("object_id")
            ids = list(left.values_list("object_id", flat=True)[:CHUNK])
            if not ids:
                return
            self._mine_now()
            self._act(ids)

    def _mine_now(self) -> None:
        with transaction.atomic():
            self._mine()

    def _act(self, ids: Sequence[int]) -> None:
        try:
            outcomes = self.verb.act(ids, self.operation)
        except Exception as error:  # noqa: BLE001 - one chunk that cannot be done is an outcome of its rows, not of all
            log.error("operation_chunk_failed", operation=self.operation.pk, error=type(error).__name__, first=ids[0])
            words = getattr(error, "detail", "") or "see the log"  # a database's own text may quote a payload
            outcomes = {pk: (FAILED, f"{type(error).__name__}: {words}"[:200]) for pk in ids}
        self._write(outcomes)

    def _write(self, outcomes: Outcomes) -> None:
        with transaction.atomic():
            items = list(
                OperationItem.objects.select_for_update().filter(
                    operation=self.operation, object_id__in=outcomes, outcome=PLANNED
                )
            )
            counts = dict.fromkeys((DONE, SKIPPED, FAILED), 0)
            for item in items:
                item.outcome, item.detail = outcomes[item.object_id]
                counts[item.outcome] += 1
            OperationItem.objects.bulk_update(items, ["outcome", "detail"], batch_size=CHUNK)
            is_canary = Q(pk=self.operation.pk, canary_size__gt=0, canary_state="")
            Operation.objects.filter(is_canary).update(canary_state="watching")
            Operation.objects.filter(pk=self.operation.pk).update(
                done_count=F("done_count") + counts[DONE],
                skipped_count=F("skipped_count") + counts[SKIPPED],
                failed_count=F("failed_count") + counts[FAILED],
            )
            touched(f"operation:{self.operation.pk}")

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

    def _end(self, state: str, detail: str = "") -> None:
        rows = Operation.objects.filter(pk=self.operation.pk, lease_token=self.token, state=State.RUNNING)
        finished_at = Now() if state == State.COMPLETED else None
        if rows.update(state=state, detail=detail, finished_at=finished_at):
            log.info("operation_" + state, operation=self.operation.pk, verb=self.operation.verb)
            touched(f"operation:{self.operation.pk}", "stats")

    def _pace(self, handled: int, began: float, deadline: float, sleep: Sleep) -> None:
        """Keep to the rate: so many rows take so long."""
        if self.operation.rate_per_second:
            rest = handled / self.operation.rate_per_second - (time.monotonic() - began)
            sleep(max(0.0, min(rest, deadline - time.monotonic())))
