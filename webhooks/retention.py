"""Old inbound events and refusal counts go, a few at a time, so that no delete ever holds the table up."""

from datetime import datetime, timedelta

from django.conf import settings

from webhooks.models import InboundEvent, RefusedCall

CHUNK = 500


def prune(now: datetime) -> int:
    """Delete up to 500 of the oldest events if they are past EVENT_RETENTION_DAYS; returns how many went.

    Looks only at the lowest ids: a filter by time alone would read the whole table where nothing is old enough.
    """
    cutoff = now - timedelta(days=settings.EVENT_RETENTION_DAYS)
    oldest = InboundEvent.objects.order_by("id").values_list("id", "received_at", "parked_until")[:CHUNK]
    gone = [pk for pk, received_at, parked_until in oldest if received_at < cutoff and parked_until is None]
    if not gone:
        return 0
    RefusedCall.objects.filter(hour__lt=cutoff).delete()
    # The condition once more: a replay may have parked one of them in the meantime.
    return InboundEvent.objects.filter(pk__in=gone, received_at__lt=cutoff, parked_until=None).delete()[0]
