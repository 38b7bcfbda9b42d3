"""What a person does with a follow-up that was not made."""

from collections.abc import Iterable

import structlog
from django.db import transaction

from kernel import audit
from tasks.engine import wake
from tasks.models import FollowUp
from tasks.states import FollowUpState

REDRIVEN = (FollowUpState.REFUSED.value, FollowUpState.UNMET.value)

log = structlog.get_logger(__name__)


def redrive(ids: Iterable[int], *, actor: str, reason: str) -> list[int]:
    """Make them after all: refused ones from where they stopped, unmet ones from what succeeded. Answers which."""
    with transaction.atomic():
        rows = FollowUp.objects.select_for_update(no_key=True, of=("self",)).filter(pk__in=set(ids), state__in=REDRIVEN)
        moved = [row.pk for row in rows.order_by("pk")]
        FollowUp.objects.filter(pk__in=moved).update(
            state=FollowUpState.WAITING, reason="", detail="", finished_at=None
        )
        if moved:
            audit.record(actor, "redrive", "follow_up", moved, reason)
            log.info("operator_verb", verb="follow_up.redrive", follow_ups=len(moved), actor=actor, reason=reason)
            wake.after_commit(wake.FOLLOW_UP)
    return moved
