"""The words of the delivery side, each list once. Documents and the OpenAPI are made from these."""

from datetime import UTC, datetime

from django.db import models
from django.db.models import Q

# `next_attempt_at` of a delivery that stands behind an earlier one with its ordering key; never a time to show.
AWAITS_TURN = datetime(9000, 1, 1, tzinfo=UTC)


class State(models.TextChoices):
    """States of a delivery."""

    PENDING = "pending", "pending"
    IN_FLIGHT = "in_flight", "in flight"
    FAILED = "failed", "waiting to retry"
    DELIVERED = "delivered", "delivered"
    DEAD_LETTER = "dead_letter", "dead letter"
    CANCELLED = "cancelled", "cancelled"


WAITING_STATES = (State.PENDING.value, State.FAILED.value)
FINAL_STATES = (State.DELIVERED.value, State.DEAD_LETTER.value, State.CANCELLED.value)


class EndpointState(models.TextChoices):
    """The one word for an endpoint. Several switches may be set at once; the first of `SWITCHES` is told."""

    ACTIVE = "active", "active"
    PAUSED = "paused", "paused"
    NEEDS_ATTENTION = "needs_attention", "needs attention"
    DISABLED = "disabled", "disabled"
    DELETED = "deleted", "deleted"


SWITCHES: tuple[tuple[str, EndpointState], ...] = (  # the column that is set, and the word; strongest first
    ("deleted_at", EndpointState.DELETED),
    ("disabled_at", EndpointState.DISABLED),
    ("attention_at", EndpointState.NEEDS_ATTENTION),
    ("paused_at", EndpointState.PAUSED),
)


def in_endpoint_state(word: str) -> Q:
    """Endpoints that are shown with this word: its switch is set, and none that is stronger."""
    condition = Q()
    for column, state in SWITCHES:
        if state == word:
            return condition & Q(**{f"{column}__isnull": False})
        condition &= Q(**{f"{column}__isnull": True})
    return condition


class DeadLetters(models.TextChoices):
    """What becomes of an endpoint's dead letters once it is deleted."""

    KEEP = "keep", "keep them"
    DISCARD = "discard", "discard them"
    MOVE = "move", "move them to another endpoint"


class BreakerState(models.TextChoices):
    CLOSED = "closed", "closed"
    OPEN = "open", "open"
    HALF_OPEN = "half_open", "half open"


class WaitReason(models.TextChoices):
    """Why nothing is sent to an endpoint before `throttled_until`."""

    THROTTLED = "throttled", "the receiver asked us to wait"
    UNUSABLE = "unusable", "its settings cannot be used"
    OWN_FAULT = "own_fault", "a fault on our side"


class RequestForm(models.TextChoices):
    EVENT = "event", "signed event (POST)"
    POSTBACK = "postback", "postback (URL template)"


class MissingField(models.TextChoices):
    """What a postback does where the event lacks a field of its template."""

    REFUSE = "refuse", "refuse: dead letter"
    EMPTY = "empty", "send it empty"
    DEFAULT = "default", "send the default"


class RetryProfile(models.TextChoices):
    SPEC = "spec", "spec: 30 s doubling to 1 h, full jitter"
    STANDARD = "standard", "standard: 5 s to 24 h, about three days"
    CUSTOM = "custom", "custom delays"


class SignatureScheme(models.TextChoices):
    V1 = "v1", "v1: HMAC-SHA256"
    V1A = "v1a", "v1a: Ed25519"
