"""What is parked again in the moment in which it would be pruned stays."""

import threading
from datetime import timedelta

import pytest
from django.db import connection, transaction
from django.utils import timezone

from webhooks import retention
from webhooks.models import InboundEvent

pytestmark = pytest.mark.django_db(transaction=True)
LONG_AGO = timezone.now() - timedelta(days=400)


def test_an_event_parked_in_the_same_moment_stays():
    row, gone = (
        InboundEvent.objects.create(source="s", provider="p", dedupe_key=key, body=b"{}", body_bytes=2, headers={})
        for key in ("parked", "gone")
    )
    InboundEvent.objects.update(received_at=LONG_AGO)
    pruned: list[int] = []

    def prune() -> None:
        try:
            pruned.append(retention.prune(timezone.now()))
        finally:
            connection.close()

    thread = threading.Thread(target=prune)
    with transaction.atomic():
        InboundEvent.objects.filter(pk=row.pk).update(parked_until=timezone.now() + timedelta(hours=1))
        thread.start()
        ends = timezone.now() + timedelta(seconds=20)
        while not _waits() and thread.is_alive() and timezone.now() < ends:
            pass
    thread.join()
    assert pruned == [1]
    assert list(InboundEvent.objects.values_list("pk", flat=True)) == [row.pk] != [gone.pk]


def _waits() -> bool:
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_locks WHERE NOT granted")
        return cursor.fetchone()[0] > 0
