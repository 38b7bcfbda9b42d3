"""Console sessions that have ended are forgotten, a bounded number at a time."""

from django.contrib.sessions.models import Session
from django.db.models.functions import Now

CHUNK = 1_000


def sweep() -> int:
    """Delete up to 1,000 expired sessions; returns how many went."""
    ended = list(Session.objects.filter(expire_date__lt=Now()).values_list("pk", flat=True)[:CHUNK])
    return Session.objects.filter(pk__in=ended, expire_date__lt=Now()).delete()[0] if ended else 0
