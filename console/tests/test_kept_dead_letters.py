"""Dead letters kept when their endpoint was deleted: shown as such; no alert, no badge, no redrive of nothing."""

import pytest
from django.utils import timezone

from console.alerts import evaluate
from console.models import Alert, Operation
from console.operations import plan
from console.pages import badges
from console.tests.conftest import make_delivery, make_endpoint
from delivery import endpoints
from delivery.models import Delivery
from kernel.api.problems import Conflict

pytestmark = pytest.mark.django_db
WHO = {"actor": "ada", "reason": "r"}


@pytest.fixture
def kept():
    row = make_delivery(make_endpoint(), "dead_letter")
    endpoints.delete(row.endpoint_id, actor="ada")
    return row


def _alerts():
    evaluate.evaluate(timezone.now())
    return list(Alert.objects.filter(rule="dead_letters").exclude(state="resolved").values_list("title", flat=True))


def test_deleting_the_endpoint_ends_the_alert_of_its_dead_letters():
    row, live = make_delivery(make_endpoint(), "dead_letter"), make_delivery(make_endpoint(), "dead_letter")
    assert _alerts() == ["2 dead deliveries"]
    endpoints.delete(row.endpoint_id, actor="ada")
    assert _alerts() == ["1 dead delivery"]
    endpoints.delete(live.endpoint_id, actor="ada")
    assert _alerts() == []


def test_they_raise_no_badge(kept, operator):
    badges._kept.clear()
    assert badges.dead_letters(operator) is None


@pytest.mark.parametrize("asked", [{"all": True}, {"endpoint": None}])
def test_a_redrive_of_nothing_else_is_refused_with_the_reason_and_begins_nothing(kept, asked):
    asked = {"endpoint": kept.endpoint_id} if "endpoint" in asked else asked
    seen = plan.preview("redrive_deliveries", asked, None, timezone.now())
    assert (seen.target_count, len(seen.warnings)) == (0, 1)
    with pytest.raises(Conflict, match="1 dead letter is left out: its endpoint was deleted") as caught:
        plan.create("redrive_deliveries", asked, **WHO)
    assert caught.value.code == "nothing_to_do"
    assert not Operation.objects.exists()
    assert plan.create("discard_deliveries", asked, **WHO).target_count == 1


def test_a_redrive_that_finds_no_dead_letter_at_all_is_an_empty_operation_as_before():
    assert plan.create("redrive_deliveries", {"all": True}, **WHO).target_count == 0


def test_their_group_is_shown_as_kept_without_a_redrive(client, operator, kept):
    client.force_login(operator)
    page = client.get("/dead-letters/").content.decode()
    assert "(deleted; kept)" in page and "it is kept and asks for nothing" in page
    assert 'value="redrive_deliveries"' not in page and 'value="discard_deliveries"' in page
    make_delivery(make_endpoint(), "dead_letter")
    assert 'value="redrive_deliveries"' in client.get("/dead-letters/").content.decode()


def test_the_lists_of_the_api_say_which_are_kept(client, operator, kept):
    client.force_login(operator)
    assert [row["is_kept"] for row in client.get("/api/v1/dead-letters/").json()["results"]] == [True]
    assert [row["is_kept"] for row in client.get("/api/v1/dead-letters/groups/").json()["results"]] == [True]
    assert Delivery.objects.get().state == "dead_letter"
