"""What the console reads of many rows: no payload, and of endpoints none of the wide or encrypted columns."""

import re

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from console import figures, journeys
from console.alerts import rules
from console.live import snapshots
from console.live.topics import Topic
from console.operations import plan
from console.tests.conftest import make_delivery, make_endpoint
from delivery.models import Endpoint, EndpointHealth, Event
from delivery.models.endpoints import WIDE
from delivery.tests import factories

pytestmark = pytest.mark.django_db
WIDE_READ = re.compile(
    rf'SELECT [^;]*?"delivery_(?:endpoint"\."(?:{"|".join(WIDE)})|event"\."payload)"[^;]*? FROM', re.I
)


def wide_reads(act):
    with CaptureQueriesContext(connection) as seen:
        found = act()
    return found, [one["sql"][:400] for one in seen.captured_queries if WIDE_READ.search(one["sql"])]


@pytest.fixture
def house():
    """One endpoint in need of attention with a dead letter and one that waits, and an attempt."""
    endpoint = make_endpoint()
    dead, waits = make_delivery(endpoint, "dead_letter"), make_delivery(endpoint, "pending")
    factories.attempt(dead)
    Event.objects.update(correlation_id="j1")
    Endpoint.objects.update(attention_at=timezone.now())
    EndpointHealth.objects.update(breaker_state="open")
    return endpoint, dead, waits


def test_the_check_knows_a_query_that_reads_wide_columns(house):
    assert len(wide_reads(lambda: list(Endpoint.objects.all()))[1]) == 1
    assert len(wide_reads(lambda: list(Event.objects.all()))[1]) == 1


@pytest.mark.parametrize("kind", ["deliveries", "delivery", "endpoint", "stats"])
def test_a_snapshot_reads_none(house, kind):
    pk = {"delivery": house[1].pk, "endpoint": house[0].pk}.get(kind)
    found, reads = wide_reads(lambda: snapshots.read(Topic(kind, pk) if pk else Topic(kind)))
    assert found is not None and reads == []


def test_a_journey_reads_none(house):
    found, reads = wide_reads(lambda: journeys.journey("j1"))
    assert {entry.kind for entry in found.entries} == {"event", "delivery"}
    assert reads == []


def test_alert_rules_and_figures_read_none(house):
    now = timezone.now()
    for look in (rules.endpoints_in_need, rules.open_breakers):
        found, reads = wide_reads(lambda look=look: look(now))
        assert len(found) == 1 and reads == []
    Endpoint.objects.update(attention_at=None)
    EndpointHealth.objects.update(breaker_state="closed")
    _, reads = wide_reads(lambda: rules.waiting_deliveries(now + timezone.timedelta(days=1)))
    assert reads == []
    _, reads = wide_reads(figures.worst_endpoints)
    assert reads == []


@pytest.mark.parametrize("verb", ["replay_events", "redrive_deliveries", "discard_deliveries"])
def test_the_preview_and_the_beginning_of_an_operation_read_none(house, verb):
    asked = {"endpoint": house[0].pk, "since": "24h"}
    seen, reads = wide_reads(lambda: plan.preview(verb, asked, None, timezone.now()))
    assert seen.target_count and reads == []
    made, reads = wide_reads(lambda: plan.create(verb, asked, actor="ada", reason="test"))
    assert made.target_count == seen.target_count and reads == []
