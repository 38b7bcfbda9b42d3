"""What a person does with an account. Each verb is one transaction, guarded, on record, and asked twice changes nothing
the second time."""

import structlog
from django.db import transaction
from django.db.models import Q

from kernel import audit, clock
from kernel.live_hints import touched
from tasks.engine import wake
from tasks.models import ProviderAccount

FREE = {
    "failure_count": 0,
    "failing_since": None,
    "held_since": None,
    "held_until": None,
    "hold_reason": "",
    "hold_text": "",
}
log = structlog.get_logger(__name__)


def pause(name: str, *, actor: str, reason: str = "") -> bool:
    """Nothing new starts there; running jobs go on. False where it was paused already."""
    return _switch(name, Q(is_paused=False), "pause", actor, reason, is_paused=True)


def resume(name: str, *, actor: str, reason: str = "") -> bool:
    """Waiting tasks start at once; a hold ends too. False where nothing held it."""
    held = Q(is_paused=True) | Q(held_until__gt=clock.now())
    with transaction.atomic():
        is_free = _switch(name, held, "resume", actor, reason, is_paused=False, **FREE)
        if is_free:
            wake.after_commit(wake.START)
    return is_free


def _switch(name: str, condition: Q, verb: str, actor: str, reason: str, **changes: object) -> bool:
    with transaction.atomic():
        account = ProviderAccount.objects.select_for_update(no_key=True).filter(condition, name=name).first()
        if account is None:
            return False
        ProviderAccount.objects.filter(pk=account.pk).update(**changes, updated_at=clock.now())
        audit.record(actor, verb, "provider_account", [account.pk], reason, detail={"name": name})
        log.info("operator_verb", verb=f"provider_account.{verb}", account=name, actor=actor, reason=reason)
        touched("stats")
    return True
