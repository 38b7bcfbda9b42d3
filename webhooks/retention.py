"""Old inbound events, refused calls and their counts go, a few at a time, so that no delete ever holds the table up."""

from datetime import datetime, timedelta

from django.conf import settings
from django.db.models import QuerySet

from webhooks.models import TURNED_AWAY, InboundEvent, RefusedCall, RefusedDay

CHUNK = 500


def prune(now: datetime) -> int:
    """Delete up to 500 of the oldest events past EVENT_RETENTION_DAYS, and as many refused calls past their own time.

    Looks only at the lowest ids: a filter by time alone would read the whole table where nothing is old enough.
    Returns how many went.
    """
    cutoff = now - timedelta(days=settings.EVENT_RETENTION_DAYS)
    gone = _prune(InboundEvent.objects.all(), cutoff)
    gone += _prune(
        InboundEvent.objects.filter(TURNED_AWAY), now - timedelta(days=settings.INBOUND_REFUSED_RETENTION_DAYS)
    )
    if gone:
        RefusedCall.objects.filter(hour__lt=cutoff).delete()
        RefusedDay.objects.filter(day__lt=cutoff.date()).delete()
    return gone


def _prune(events: QuerySet[InboundEvent], cutoff: datetime) -> int:
    oldest = events.order_by("id").values_list("id", "received_at", "parked_until")[:CHUNK]
    gone = [pk for pk, received_at, parked_until in oldest if received_at < cutoff and parked_until is None]
    # The condition once more: a replay may have parked one of them in the meantime.
    return events.filter(pk__in=gone, received_at__lt=cutoff, parked_until=None).delete()[0] if gone else 0
