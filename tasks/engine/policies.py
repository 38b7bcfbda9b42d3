"""The switch of a kind: pause and resume, by admin and API alike.

A pause is a person's and lasts until a person ends it; a hold is ours and ends by itself (`tasks.engine.limits`). Each
verb is one transaction and a guarded UPDATE, and asked twice it changes nothing the second time.
"""

import structlog
from django.db import transaction
from django.db.models import Q, QuerySet

from kernel import audit
from kernel.live_hints import touched
from tasks import kinds
from tasks.engine import clock, wake
from tasks.models import KindPolicy

log = structlog.get_logger(__name__)


def pause_kind(kind: str, *, actor: str, reason: str = "") -> bool:
    """Nothing new of this kind starts; running tasks go on. False where it was paused already."""
    running = Q(is_paused=False)
    return _switch(kind, running, "pause", actor, reason, is_paused=True)


def resume_kind(kind: str, *, actor: str, reason: str = "") -> bool:
    """Waiting tasks start at once; a hold ends too. False where nothing held it."""
    held = Q(is_paused=True) | Q(held_until__gt=clock.now())
    free = {"is_paused": False, "held_until": None, "hold_reason": "", "hold_text": "", "failure_count": 0}
    with transaction.atomic():
        is_free = _switch(kind, held, "resume", actor, reason, **free)
        if is_free:
            wake.after_commit(wake.START, wake.RUN_INTERNAL)
    return is_free


def _switch(kind: str, condition: Q, verb: str, actor: str, reason: str, **changes: object) -> bool:
    """Raises UnknownKind."""
    policy = kinds.policy_for(kinds.get(kind).name)
    with transaction.atomic():
        rows: QuerySet[KindPolicy] = KindPolicy.objects.filter(condition, pk=policy.pk)
        if not rows.update(**changes, updated_at=clock.now()):
            return False
        audit.record(actor, verb, "kind", [policy.pk], reason, detail={"kind": policy.kind})
        log.info("operator_verb", verb=f"kind.{verb}", kind=policy.kind, actor=actor, reason=reason)
        touched("stats")
    return True
