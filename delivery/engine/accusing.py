"""Our own code failed on rows of one batch: who is charged for it, and what the log is told."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence

import structlog

from delivery.engine.requests import Claimed, Unsigned
from delivery.engine.tracebacks import told, way
from delivery.engine.verdicts import Verdict, faulty_here, unbuildable
from delivery.policy.process_faults import Blame, Stage

log = structlog.get_logger(__name__)


def verdicts_on(
    suspects: Sequence[tuple[Claimed, Exception]], stage: Stage, what: str, rng: random.Random, *, others_passed: bool
) -> list[Verdict]:
    """What becomes of the rows that failed. `what` failed, in words: "The request could not be built"."""
    now = time.monotonic()
    blames = []
    for row, error in suspects:
        log.error("our_code_failed", what=what, delivery=row.id, endpoint=row.config.id, **told(error))
        is_its_own = others_passed or isinstance(error, Unsigned)  # a missing secret is its endpoint's
        blames.append(stage.failed(way(error), row.config.id, row.uid, now, others_passed=is_its_own))
    if Blame.PROCESS in blames:  # those met before it was clear are not charged either
        blames = [Blame.PROCESS if not isinstance(error, Unsigned) else Blame.ROW for _, error in suspects]
        log.error("claiming_stopped", seconds=round(stage.until - now, 1))
    verdicts: list[Verdict] = []
    noted: set[int] = set()
    for (row, error), blame in zip(suspects, blames, strict=True):
        if blame is Blame.ROW:
            verdicts.append(unbuildable(row, error, rng, what))
        else:  # each endpoint's health notes it once a batch
            verdicts.append(faulty_here(row, error, rng, what, is_noted=row.config.id not in noted))
            noted.add(row.config.id)
    return verdicts
