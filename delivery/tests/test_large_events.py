"""Events that were recorded when they could be large: shown, listed and replayed without being read whole."""

import asyncio
import re

import pytest
from asgiref.sync import sync_to_async
from django.contrib.auth.models import Permission
from django.db import connection, connections
from django.test import AsyncClient
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from delivery import events, previews, replays
from delivery.api import payloads
from delivery.models import Delivery, Event
from delivery.policy import postback
from delivery.tests import factories
from kernel.auth import create_key
from kernel.database import spools

pytestmark = pytest.mark.django_db
LARGE = 2 * 1024 * 1024
# The column itself in the list of what is selected; its length, or a part of it, is not the column.
READS_PAYLOAD = re.compile(r'SELECT [^;]*?(?<!OCTET_LENGTH\()"delivery_event"\."payload"[^;]*? FROM', re.I)


@pytest.fixture
def admin_client(client, django_user_model):
    client.force_login(django_user_model.objects.create(username="root", is_staff=True, is_superuser=True))
    return client


def large(key="1.50", **values):
    """Written as its bytes: no door of today takes it in."""
    row = factories.event(**values)
    payload = b'{"type":"order.paid","timestamp":"2026-11-29T12:00:00Z","data":{"k":%b,"x":"%b"}}'
    Event.objects.filter(pk=row.pk).update(payload=payload % (key.encode(), b"y" * LARGE))
    return row


def reads_of(act):
    """The queries of `act` that fetch whole payloads."""
    with CaptureQueriesContext(
        connection,
    ) as seen:
        answer = act()
    assert seen.captured_queries
    return answer, [one["sql"] for one in seen.captured_queries if READS_PAYLOAD.search(one["sql"])]


def test_the_check_knows_a_query_that_reads_payloads():
    large()
    _, reads = reads_of(lambda: list(Event.objects.all()))
    assert len(reads) == 1


@pytest.mark.parametrize("path", ["order.data", "data.k", "data.k.z", "data.x.0", "type"])
@pytest.mark.parametrize("key", ["1.50", '"a\\u00e9\\"b"', '{"z":1e2,"a":null}', "[1,2]", "null", '""', "-0"])
def test_the_ordering_key_of_a_large_event_is_the_one_it_would_have_were_it_read(path, key):
    event = large(key)
    if path == "data.x.0":
        path = "data.k.0"  # a number finds nothing in a list
    endpoint = factories.endpoint(ordering_key=path)
    made, reads = reads_of(lambda: replays.owe(endpoint.pk, [event.pk], actor="ada", reason=""))
    assert not reads
    value = Delivery.objects.get(pk=made[event.pk]).ordering_key
    assert value == events.ordering_value(Event.objects.get(pk=event.pk), path)


def test_replaying_many_large_events_reads_none_of_them(api):
    endpoint = factories.endpoint(ordering_key="data.k")
    for number in range(3):
        large(str(number))
    small = factories.event(data={"k": "s"})
    since = (timezone.now() - timezone.timedelta(hours=1)).isoformat()

    def ask(dry_run):
        body = {"since": since, "dry_run": dry_run}
        return reads_of(lambda: api.post(f"/api/v1/endpoints/{endpoint.pk}/replay/", body, format="json"))

    answer, reads = ask(dry_run=True)
    assert (answer.json()["deliveries"], reads) == (4, [])
    answer, reads = ask(dry_run=False)
    assert answer.json()["deliveries"] == 4
    # the small one is read, by its id and no other
    assert len(reads) == 1 and f'"id" IN ({small.pk})' in reads[0]
    assert list(Delivery.objects.order_by("id").values_list("ordering_key", flat=True)) == ["0", "1", "2", "s"]


@pytest.mark.parametrize(
    "address", ["/api/v1/events/", "/api/v1/deliveries/", "/api/v1/dead-letters/", "/api/v1/dead-letters/groups/"]
)
def test_lists_of_the_api_read_no_payload(api, address):
    factories.delivery(factories.endpoint(), large(), state="dead_letter")
    answer, reads = reads_of(lambda: api.get(address))
    assert (answer.status_code, len(answer.json()["results"]), reads) == (200, 1, [])


@pytest.mark.parametrize("kind", ["event", "delivery", "endpoint"])
def test_lists_of_the_admin_read_no_payload(admin_client, kind):
    factories.delivery(factories.endpoint(), large(), state="dead_letter")
    answer, reads = reads_of(lambda: admin_client.get(reverse(f"admin:delivery_{kind}_changelist")))
    assert (answer.status_code, reads) == (200, [])


def test_a_large_payload_is_shown_by_its_beginning_and_read_no_further(admin_client):
    delivery = factories.delivery(factories.endpoint(), large(), state="dead_letter")
    Event.objects.update(payload=b'{"data":"' + "é".encode() * LARGE + b'"}')
    for kind, pk in (("event", delivery.event_id), ("delivery", delivery.pk)):
        answer, reads = reads_of(lambda k=kind, p=pk: admin_client.get(reverse(f"admin:delivery_{k}_change", args=[p])))
        page = answer.content.decode()
        assert "é" * 19_000 in page and "é" * 20_001 not in page
        assert f"… {2 * LARGE + 11:,} bytes in all" in page
        assert not [sql for sql in reads if "octet_length" not in sql.lower()]


def test_a_page_or_answer_that_may_not_show_the_payload_does_not_read_it(client, django_user_model):
    user = django_user_model.objects.create(username="ada", is_staff=True)
    user.user_permissions.set(Permission.objects.filter(codename__in=["view_event", "view_delivery"]))
    client.force_login(user)
    delivery = factories.delivery(factories.endpoint(), large())
    addresses = [
        reverse("admin:delivery_event_change", args=[delivery.event_id]),
        reverse("admin:delivery_delivery_change", args=[delivery.pk]),
        f"/api/v1/events/{delivery.event_id}/",
    ]
    for address in addresses:
        answer, reads = reads_of(lambda a=address: client.get(a))
        assert (answer.status_code, reads) == (200, []), address
    assert f"{len(Event.objects.get().payload):,} bytes" in client.get(addresses[0]).content.decode()


def test_the_api_shows_a_large_event_with_its_size_and_address_and_reads_none_of_it(api):
    event = large()
    size = len(Event.objects.get().payload)
    answer, reads = reads_of(lambda: api.get(f"/api/v1/events/{event.pk}/"))
    shown = answer.json()
    assert (answer.status_code, shown["payload"], shown["payload_omitted"]) == (200, None, "too_large")
    assert (shown["payload_bytes"], len(answer.content) < 2_000) == (size, True)
    assert shown["payload_url"].endswith(f"/api/v1/events/{event.pk}/payload/")
    assert len(reads) == 1 and f"<= {payloads.INLINE_BYTES}" in reads[0]  # what is longer comes as null


@pytest.mark.parametrize("more", [0, 1])
def test_the_bound_of_what_is_shown_with_its_event_is_exact(api, more):
    event = factories.event()
    Event.objects.update(payload=b'{"x":"%b"}' % (b"y" * (payloads.INLINE_BYTES - len('{"x":""}') + more)))
    shown = api.get(f"/api/v1/events/{event.pk}/").json()
    assert shown["payload_bytes"] == payloads.INLINE_BYTES + more
    assert (shown["payload"] is None, shown["payload_omitted"]) == (bool(more), "too_large" if more else None)


@pytest.mark.django_db(transaction=True)
def test_the_whole_of_it_is_streamed_in_parts_with_its_length():
    event = large()
    whole = bytes(Event.objects.get().payload)
    _, token = create_key("reader", ["deliveries:read"])

    async def read():
        answer = await AsyncClient().get(
            f"/api/v1/events/{event.pk}/payload/", headers={"authorization": f"Bearer {token}"}
        )
        parts = [part async for part in answer.streaming_content]
        answer.close()
        await sync_to_async(connections.close_all)()
        return answer, parts

    answer, parts = asyncio.run(read())
    assert (b"".join(parts), int(answer["Content-Length"])) == (whole, len(whole))
    assert max(map(len, parts)) == spools.PART_BYTES and answer["Content-Type"] == "application/json"


def test_who_may_not_see_payloads_and_whose_event_it_is_not_get_no_stream(client, django_user_model, client_with):
    event = large(subscriber="acme")
    user = django_user_model.objects.create(username="ada", is_staff=True)
    user.user_permissions.set(Permission.objects.filter(codename__in=["view_event", "view_delivery"]))
    client.force_login(user)
    address = f"/api/v1/events/{event.pk}/"
    answer, reads = reads_of(lambda: client.get(f"{address}payload/"))
    assert (answer.status_code, reads) == (403, [])
    assert client.get(address).json()["payload_omitted"] == "no_right"
    answer, reads = reads_of(lambda: client_with("deliveries:read", subscriber="umbrella").get(f"{address}payload/"))
    assert (answer.status_code, reads) == (404, [])


def test_a_preview_of_one_is_refused_with_the_word_and_reads_nothing():
    event = large()

    def refused():
        with pytest.raises(postback.FieldRefused) as caught:
            previews.envelope_of(Event.objects.defer("payload").get(pk=event.pk))
        return caught.value

    answer, reads = reads_of(refused)
    assert (answer.code, reads) == ("too_large", [])
