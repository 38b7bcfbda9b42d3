"""The streaming loop of a delivery worker: claim what fits, keep it in the air, settle what has ended, again.

There is no barrier: a transfer that hangs holds its own slot and nothing else. The loop ends when nothing is due, when
its budget is used up, or when the worker is told to stop; then it finishes or gives back what is in the air, so that no
row stays in flight. A lost database connection costs nobody an attempt: results wait here until they can be written.
It never holds a transaction while it sends.
"""

from __future__ import annotations

import os
import random
import socket
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from uuid import UUID

import structlog
from django.db import DatabaseError, InterfaceError, OperationalError, connection

from delivery.engine import ahead, claims, settle
from delivery.engine.accusing import verdicts_on
from delivery.engine.claiming import Claimer, large_bytes_of
from delivery.engine.requests import Claimed, build
from delivery.engine.transport.transfer import Transfers
from delivery.engine.verdicts import UNBUILT, UNJUDGED, Verdict, judge, refused_by_template
from delivery.latency import Recorder
from delivery.policy.postback import FieldRefused
from delivery.policy.process_faults import SLOTS_OF_A_TRY, Stage

BUDGET_SECONDS = 300.0
OVERTIME_SECONDS = 600.0  # beyond the budget, for what is slow; a broker takes a message back after 30 minutes
GRACE_SECONDS = 10.0
LINGER_SECONDS = 2.0
LOOK_SECONDS = 0.04  # between claims that found nothing, while something is in the air or will soon be due
SMALL_CLAIM_SECONDS = 0.02  # between claims for less than a quarter of the slots
SETTLE_ROWS, SETTLE_SECONDS, SETTLE_MOST = 64, 0.005, 500
FLUSH_SECONDS = 2.0
DATABASE_PAUSES = (0.05, 0.2, 0.5, 1.0, 2.0)
DATABASE_GONE = (OperationalError, InterfaceError)

log = structlog.get_logger(__name__)


@dataclass(slots=True)
class DrainReport:
    """What a drain did; `more` says that something is still due."""

    claimed: int = 0
    settled: int = 0
    more: bool = False


class Drain:
    """One run of the loop in one thread. `transfers` and `claimer` outlive it, with their connections and settings."""

    def __init__(
        self,
        transfers: Transfers,
        claimer: Claimer,
        *,
        should_stop: Callable[[], bool] = lambda: False,
        budget_seconds: float = BUDGET_SECONDS,
        grace_seconds: float = GRACE_SECONDS,
        linger_seconds: float = LINGER_SECONDS,
        rng: random.Random | None = None,
    ) -> None:
        self._transfers = transfers
        self._claimer = claimer
        self._shares = claimer.shares
        self._faults = claimer.faults
        self._shares.begin(transfers.config.max_in_flight, transfers.config.max_waiting)
        self._slow_too = True
        self._claimed_at = 0.0
        self._should_stop = should_stop
        self._budget = budget_seconds
        self._grace = grace_seconds
        self._linger = linger_seconds
        self._rng = rng or random.Random()  # noqa: S311 - jitter, not secrets
        self._worker = f"{socket.gethostname()[:40]}:{os.getpid()}:{uuid.uuid4().hex[:6]}"
        self._verdicts: list[Verdict] = []
        self._oldest_verdict = 0.0
        self._look_at = 0.0
        self._linger_until = 0.0
        self._idle = False
        self._large_bytes = 0  # payloads in memory that count; see Claimer
        self._lost_tokens: list[UUID] = []
        self._database_at = 0.0
        self._database_failures = 0
        self._flush_at = time.monotonic() + FLUSH_SECONDS
        self._recorder = Recorder()
        self.report = DrainReport()

    def run(self) -> DrainReport:
        """Drain until there is nothing left to do here. Raises nothing that a receiver or the database caused."""
        ends = time.monotonic() + self._budget
        try:
            while not self._should_stop() and self._goes_on(ends):
                if not self._step():
                    break
            else:
                self.report.more = True
                self._wind_down(self._grace if self._should_stop() else 3600.0)
        finally:
            self._abort()
            self._flush()
        return self.report

    def _goes_on(self, ends: float) -> bool:
        """Within the budget; and beyond it while slow transfers are in the air, so that the quick need not wait for
        them: no further slow ones are taken then.
        """
        now = time.monotonic()
        self._slow_too = now < ends
        return self._slow_too or (self._shares.waiting > 0 and now < ends + OVERTIME_SECONDS)

    def _step(self) -> bool:
        """One turn of the loop; False when there is nothing left to do."""
        self._settle_if_ripe()
        self._claim_if_room()
        if not (len(self._transfers) or self._verdicts or self._lost_tokens) and self._idle:
            now = time.monotonic()
            if now < self._faults.until:
                return False  # the beat comes again
            if now >= self._linger_until:
                wait = self._next_due()
                if wait is None:
                    return False
                self._linger_until = now + wait
            # Not asleep until then: what is recorded meanwhile must not wait for it.
            self._look_at = min(self._linger_until, now + LOOK_SECONDS)
        self._collect(self._patience())
        if time.monotonic() >= self._flush_at:
            self._flush()
        return True

    def _wind_down(self, grace_seconds: float) -> None:
        """No new claims; wait for what is in the air, for as long as the grace time lasts."""
        ends = time.monotonic() + grace_seconds
        stopping = self._should_stop()
        while (len(self._transfers) or self._verdicts) and time.monotonic() < ends:
            self._settle_if_ripe()
            self._collect(min(self._patience(), 0.1))
            if not stopping and self._should_stop():
                stopping, ends = True, time.monotonic() + self._grace

    def _abort(self) -> None:
        """Give back what is still in the air, and settle what is not settled, as far as the database lets us."""
        self._judge(self._transfers.abort_all())
        for _ in range(len(DATABASE_PAUSES)):
            self._settle_all()
            if not self._verdicts and not self._lost_tokens:
                return
            time.sleep(max(0.0, self._database_at - time.monotonic()))
        log.error("results_left_to_their_leases", count=len(self._verdicts))

    # --- claiming ---------------------------------------------------------------------------------------------------

    def _claim_if_room(self) -> None:
        now = time.monotonic()
        self._shares.look()
        free = self._shares.free
        if now < max(self._look_at, self._database_at, self._room_at(), self._faults.until) or free <= 0:
            self._idle = self._idle or now < self._faults.until
            return
        if self._faults.is_trying:
            free = min(free, SLOTS_OF_A_TRY)
        self._claimed_at = now
        token = uuid.uuid4()
        try:
            claimed, is_worth_more = self._claimer.claim(free, token, self._large_bytes, slow_too=self._slow_too)
        except DATABASE_GONE as error:
            self._lost_tokens.append(token)  # it may have been committed all the same
            self._database_gone(error)
            return
        self._database_failures = 0
        self._idle = not is_worth_more
        self._look_at = now + LOOK_SECONDS if self._idle else 0.0
        self.report.claimed += len(claimed)
        self._large_bytes += sum([large_bytes_of(row.payload) for row in claimed])
        suspects = [(row, fault) for row in claimed if (fault := self._send(row)) is not None]
        if claimed:
            self._accuse(suspects, len(claimed), self._faults.building, UNBUILT)

    def _room_at(self) -> float:
        """When to claim for the room there is: at once for a quarter of all, else not too often."""
        is_enough = self._shares.free >= max(1, self._transfers.config.max_in_flight // 4)
        return 0.0 if is_enough else self._claimed_at + SMALL_CLAIM_SECONDS

    def _send(self, claimed: Claimed) -> Exception | None:
        """Start one transfer. Whatever goes wrong in building it is returned: one row must not take others along."""
        try:
            request = build(claimed)
            if request.body is not claimed.payload:  # rendered: its payload is let go, and counts no more
                self._large_bytes += large_bytes_of(request.body) - large_bytes_of(claimed.payload)
                claimed.payload = request.body
            self._transfers.add(request)
            self._shares.started(claimed.id, claimed.config.owner, claimed.config.id)
        except FieldRefused as refusal:
            self._keep(refused_by_template(claimed, refusal.stored))
        except Exception as error:  # noqa: BLE001 - see above
            return error
        return None

    def _accuse(self, suspects: list[tuple[Claimed, Exception]], count: int, stage: Stage, what: str) -> None:
        """Of so many rows, our code failed on these."""
        others_passed = len(suspects) < count
        if others_passed:
            stage.passed()
        if suspects:
            for verdict in verdicts_on(suspects, stage, what, self._rng, others_passed=others_passed):
                self._keep(verdict)

    def _next_due(self) -> float | None:
        """Seconds until it is worth looking again, or None where the beat's next look is soon enough."""
        if time.monotonic() < self._database_at:
            return self._database_at - time.monotonic()
        try:
            seconds = ahead.next_due_in(self._linger)
        except DATABASE_GONE as error:
            self._database_gone(error)
            return None
        # Due, and yet nothing could be claimed: another worker holds those rows or their endpoints.
        return None if seconds is None else max(seconds, LOOK_SECONDS)

    # --- collecting and settling ------------------------------------------------------------------------------------

    def _patience(self) -> float:
        now = time.monotonic()
        if self._verdicts and now >= self._database_at:
            return max(0.0, self._oldest_verdict + SETTLE_SECONDS - now)
        until = max(self._look_at, self._database_at, self._room_at())
        return min(1.0, max(0.001, until - now)) if self._shares.free > 0 else LOOK_SECONDS

    def _collect(self, timeout: float) -> None:
        self._judge(self._transfers.poll(timeout))

    def _judge(self, results: list) -> None:
        suspects: list[tuple[Claimed, Exception]] = []
        for result in results:
            claimed: Claimed = result.request.key
            self._shares.ended(claimed.id)
            try:
                self._keep(judge(claimed, result, self._rng))
            except Exception as error:  # noqa: BLE001 - see _send
                suspects.append((claimed, error))
        if results:
            self._accuse(suspects, len(results), self._faults.judging, UNJUDGED)

    def _keep(self, verdict: Verdict) -> None:
        """It waits to be written; without its payload, which nobody needs any more."""
        self._large_bytes -= large_bytes_of(verdict.claimed.payload)
        verdict.claimed.payload = b""
        if verdict.result is not None:
            verdict.result.request.body = b""
        if not self._verdicts:
            self._oldest_verdict = time.monotonic()
        self._verdicts.append(verdict)

    def _settle_if_ripe(self) -> None:
        if not self._verdicts and not self._lost_tokens:
            return
        now = time.monotonic()
        ripe = len(self._verdicts) >= SETTLE_ROWS or now - self._oldest_verdict >= SETTLE_SECONDS
        if now >= self._database_at and (ripe or not len(self._transfers)):
            self._settle_all()

    def _settle_all(self) -> None:
        try:
            if self._lost_tokens:
                claims.release(self._lost_tokens)
                self._lost_tokens.clear()
            while self._verdicts:
                batch = self._verdicts[:SETTLE_MOST]
                self._settle(batch)
                del self._verdicts[: len(batch)]
                self._look_at = 0.0  # there is room again at the endpoints' caps
            self._database_failures = 0
        except DATABASE_GONE as error:
            self._database_gone(error)

    def _settle(self, batch: list[Verdict]) -> None:
        try:
            self.report.settled += settle.settle(batch, self._recorder, self._worker)
        except DATABASE_GONE:
            raise
        except (DatabaseError, ValueError) as error:
            if len(batch) == 1:
                log.error("result_not_settled_whole", delivery=batch[0].claimed.id, error=type(error).__name__)
                self._settle_plainly(batch[0])
                return
            for verdict in batch:  # one of them cannot be written: find it, and lose no other
                self._settle([verdict])

    def _settle_plainly(self, verdict: Verdict) -> None:
        try:
            self.report.settled += settle.settle_plainly(verdict, self._recorder, self._worker)
        except DATABASE_GONE:
            raise
        except (DatabaseError, ValueError) as error:
            # Its lease ends, the rescue counts, and five times make it a dead letter.
            log.error("result_not_settled", delivery=verdict.claimed.id, error=type(error).__name__)

    def _flush(self) -> None:
        self._flush_at = time.monotonic() + FLUSH_SECONDS
        try:
            self._recorder.flush()
        except DatabaseError as error:
            self._database_gone(error)

    def _database_gone(self, error: Exception) -> None:
        """Leave the broken connection and try again in a moment; what is in the air goes on."""
        pause = DATABASE_PAUSES[min(self._database_failures, len(DATABASE_PAUSES) - 1)]
        self._database_failures += 1
        self._database_at = time.monotonic() + pause
        log.warning("database_unreachable", error=type(error).__name__, again_in_seconds=pause)
        connection.close()
