"""A button pressed on a page that was loaded earlier: the state in words for whoever has the right, 403 for others.

Every verb of every page is in the table, so that a new one is not forgotten.
"""

import html

import pytest
from django.contrib import admin
from django.contrib.auth.models import Permission
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from console.models import Alert
from console.operations import plan
from console.tests.conftest import make_batch, make_delivery, make_endpoint
from delivery.models import Delivery, Endpoint
from kernel.admin.confirm import OneRowVerbs
from kernel.auth import create_key
from kernel.models import ApiKey
from tasks.models import Batch, KindPolicy, Task
from webhooks.models import InboundEvent

pytestmark = pytest.mark.django_db


def delivered():
    return make_delivery(make_endpoint(), "delivered")


def of_deleted_endpoint():
    row = make_delivery(make_endpoint(), "dead_letter")
    Endpoint.objects.update(deleted_at=timezone.now())
    return row


def endpoint(**values):
    row = make_endpoint()
    Endpoint.objects.filter(pk=row.pk).update(**{name: timezone.now() for name in values})
    return row


def task(state):
    make_batch([state])
    return Task.objects.get()


def finished_batch():
    return make_batch(["succeeded"], completed=True)


def policy(**values):
    return KindPolicy.objects.update_or_create(kind="map_search", defaults=values)[0]


def refused():
    return InboundEvent.objects.create(source="map_search", verdict="refused", body=b"{}", headers={})


def revoked_key():
    key, _token = create_key("old", ["tasks:read"])
    ApiKey.objects.update(revoked_at=timezone.now())
    return key


STALE = [
    (Delivery, "redrive", delivered, "It is delivered by now."),
    (Delivery, "redrive", of_deleted_endpoint, "Its endpoint was deleted, so it can be discarded, or moved"),
    (Delivery, "discard", delivered, "It is delivered by now."),
    (Endpoint, "pause", lambda: endpoint(paused_at=1), "It is paused by now."),
    (Endpoint, "resume", endpoint, "It is active by now."),
    (Endpoint, "resume", lambda: endpoint(disabled_at=1), "It is disabled by now; enable it instead."),
    (Endpoint, "enable", endpoint, "It is enabled by now."),
    *(
        (Endpoint, verb, lambda: endpoint(deleted_at=1), "It is deleted by now.")
        for verb in ("test", "rotate", "remove", "fix-rate", "lift-throttle", "end-secret")
    ),
    (Endpoint, "fix-rate", endpoint, "No pace is learned by now"),
    (Endpoint, "lift-throttle", endpoint, "Nothing throttles it by now."),
    (Endpoint, "end-secret", endpoint, "No earlier secret signs by now"),
    (Endpoint, "settle", endpoint, "It is not deleted: redrive or discard its dead letters."),
    (Endpoint, "settle", lambda: endpoint(deleted_at=1), "It has no dead letters by now."),
    (Delivery, "send-now", delivered, "It is delivered by now."),
    (Task, "redrive", lambda: task("queued"), "It is queued by now."),
    (Task, "cancel", lambda: task("succeeded"), "It is succeeded by now."),
    (Task, "discard", lambda: task("cancelled"), "It is cancelled by now."),
    (Batch, "cancel", finished_batch, "It is completed by now."),
    (KindPolicy, "pause", lambda: policy(is_paused=True), "It is paused by now."),
    (KindPolicy, "resume", lambda: policy(is_paused=False), "It runs by now."),
    (InboundEvent, "replay", refused, "Its signature was refused"),
    (ApiKey, "revoke", revoked_key, "old is revoked by now."),
]
READS_ONLY = {("batch", "watch")}  # a link, no verb


def address(row, verb="change"):
    page = reverse(f"admin:{row._meta.app_label}_{row._meta.model_name}_change", args=[row.pk])
    return page if verb == "change" else page.replace("/change/", f"/{verb}/")


def visitor(user):
    client = Client()
    client.force_login(user)
    return client


def test_every_verb_of_every_page_is_in_the_table():
    verbs = set()
    for model, page in admin.site._registry.items():
        if isinstance(page, OneRowVerbs):
            paths = [one.path for one in page._get_base_actions_detail()]
            verbs |= {(model._meta.model_name, path.rstrip("/").rpartition("/")[2]) for path in paths}
    assert verbs - READS_ONLY == {(model._meta.model_name, verb) for model, verb, _row, _words in STALE}


@pytest.mark.parametrize(("model", "verb", "row", "words"), STALE)
def test_a_stale_button_says_the_state_in_words_and_does_nothing(operator, model, verb, row, words):
    obj, client = row(), visitor(operator)
    before = model.objects.filter(pk=obj.pk).values().get()
    for answer in (
        client.get(address(obj, verb), follow=True),
        client.post(address(obj, verb), {"reason": "r", "confirmed": "yes"}, follow=True),
    ):
        assert answer.redirect_chain[0][0] == address(obj)
        assert words in html.unescape(answer.content.decode())
    assert model.objects.filter(pk=obj.pk).values().get() == before
    assert f"/{verb}/" not in client.get(address(obj)).content.decode()


@pytest.mark.parametrize(("model", "verb", "row", "words"), STALE)
def test_without_the_right_it_is_a_403_in_that_state_too(staff, model, verb, row, words):
    staff.user_permissions.set(Permission.objects.filter(codename=f"view_{model._meta.model_name}"))
    answer = visitor(staff).post(address(row(), verb), {"reason": "r", "confirmed": "yes"})
    assert answer.status_code == 403


def test_an_alert_that_somebody_settled_already_says_so(operator, staff):
    now = timezone.now()
    alert = Alert.objects.create(rule="r", title="t", opened_at=now, last_seen_at=now, state="resolved")
    for verb in ("acknowledge", "resolve"):
        path = reverse("alert-verb", args=[alert.pk, verb])
        answer = visitor(operator).post(path, follow=True)
        assert "Somebody settled this alert already." in answer.content.decode()
        assert visitor(staff).post(path).status_code == 403


def test_an_operation_that_is_over_says_so(operator, staff):
    operation = plan.create("redrive_deliveries", {"all": True}, actor="a", reason="r")
    plan.cancel(operation, actor="a")
    for verb in ("pause", "resume", "cancel"):
        path = f"/operations/{operation.pk}/steer/"
        answer = visitor(operator).post(path, {"verb": verb}, follow=True)
        assert "This operation is cancelled." in answer.content.decode()
        assert visitor(staff).post(path, {"verb": verb}).status_code == 403
