"""The switch of a kind: pause and resume, by admin and API alike.

A pause is a person's and lasts until a person ends it. What holds a provider's account is the account's
(`tasks.accounting`). Each verb is one transaction and a guarded UPDATE, and asked twice it changes nothing the second
time. The app of a kind may be gone: its tasks are held all the same.
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
    """Waiting tasks start at once. False where it was not paused."""
    with transaction.atomic():
        is_free = _switch(kind, Q(is_paused=True), "resume", actor, reason, is_paused=False)
        if is_free:
            wake.after_commit(wake.START, wake.RUN_INTERNAL)
    return is_free


def _switch(kind: str, condition: Q, verb: str, actor: str, reason: str, **changes: object) -> bool:
    """Raises UnknownKind."""
    policy = KindPolicy.objects.filter(kind=kind).first() or kinds.policy_for(kinds.get(kind).name)
    with transaction.atomic():
        rows: QuerySet[KindPolicy] = KindPolicy.objects.filter(condition, pk=policy.pk)
        if not rows.update(**changes, updated_at=clock.now()):
            return False
        audit.record(actor, verb, "kind", [policy.pk], reason, detail={"kind": policy.kind})
        log.info("operator_verb", verb=f"kind.{verb}", kind=policy.kind, actor=actor, reason=reason)
        touched("stats")
    return True
