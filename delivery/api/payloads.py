"""Payloads of events: short ones with their event, those of times with larger bounds in parts through a file. SQL."""

from typing import IO

from django.db.models import Case, F, QuerySet, When

from delivery.models import Event
from kernel.counting import OctetLength
from kernel.database import spools

INLINE_BYTES = 1024 * 1024  # read as JSON it takes ten times as much; a longer one has an address of its own
_SOURCE = "SELECT payload || ''::bytea AS body FROM delivery_event WHERE id = %s"


def with_sizes(rows: QuerySet[Event]) -> QuerySet[Event]:
    """The same events with `payload_bytes`, and without their payloads."""
    return rows.defer("payload").annotate(payload_bytes=OctetLength("payload"))


def with_short_payloads(rows: QuerySet[Event]) -> QuerySet[Event]:
    """The same, with `short_payload`: the payload, or None where it is longer than `INLINE_BYTES`."""
    return with_sizes(rows).annotate(short_payload=Case(When(payload_bytes__lte=INLINE_BYTES, then=F("payload"))))


def spooled(event_id: int) -> tuple[IO[bytes], int]:
    """The exact bytes that are signed and sent, as a file at its beginning, and how many they are."""
    return spools.spooled(_SOURCE, event_id)
