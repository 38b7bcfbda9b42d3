"""What every verb of an endpoint does: lock its row, count `version` up, and tell the audit trail, log and pages."""

from __future__ import annotations

from typing import Any

import structlog
from django.db.models import F
from django.db.models.functions import Now

from delivery.engine.wake import wake
from delivery.errors import WrongState
from delivery.models import Endpoint, EndpointHealth, endpoint_label
from delivery.states import WaitReason
from kernel import audit
from kernel.live_hints import touched

log = structlog.get_logger(__name__)


def locked(endpoint: Endpoint | int) -> Any:
    """The row as it stands, and as `read_at` the database's time, which the engine judges secrets by."""
    pk = endpoint if isinstance(endpoint, int) else endpoint.pk
    current = Endpoint.objects.select_for_update(no_key=True).annotate(read_at=Now()).get(pk=pk)
    if current.deleted_at:
        raise WrongState("This endpoint was deleted. Create a new one, and replay what it needs.")
    return current


def save(endpoint: Endpoint, *fields: str) -> None:
    endpoint.version = F("version") + 1  # type: ignore[assignment]
    endpoint.save(update_fields=[*fields, "version", "updated_at"])
    endpoint.refresh_from_db(fields=["version", "is_held"])


def changed(endpoint: Endpoint, verb: str, actor: str, reason: str, **more: Any) -> None:
    audit.record(actor, verb, "endpoint", [endpoint.pk], reason, detail=more)
    log.info("operator_verb", verb=f"endpoint.{verb}", actor=actor, reason=reason, **endpoint_label(endpoint), **more)
    touched(f"endpoint:{endpoint.pk}", "stats", "deliveries")


def look_again(endpoint: Endpoint) -> None:
    """Its settings could not be used; they were set anew, so the wait for that is over."""
    unusable = EndpointHealth.objects.filter(endpoint=endpoint, wait_reason=WaitReason.UNUSABLE)
    if unusable.update(throttled_until=None, wait_reason=""):
        wake()
