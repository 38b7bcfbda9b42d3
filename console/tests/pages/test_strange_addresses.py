"""Every address of the admin, with what a stranger may write into it: refused or not found, never a fault of ours."""

import pytest
from django.contrib import admin
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from django_celery_beat.models import ClockedSchedule, CrontabSchedule, SolarSchedule

from console.models import Alert, Heartbeat
from console.operations import plan
from console.tests.conftest import make_batch, make_delivery, make_endpoint
from kernel.auth import create_key
from kernel.models import AuditEntry
from tasks import kinds
from tasks.models import Schedule, ScheduleRun
from webhooks.models import InboundEvent

pytestmark = pytest.mark.django_db
MODELS = sorted(admin.site._registry, key=lambda model: model._meta.label)
IDS = [
    "abc",
    "0",
    "-1",
    "1.7",
    "9223372036854775808",
    "9" * 30,
    "%00",
    "%ED%A0%80",
    "_00",
    "a" * 300,
    "é",
    "1%0A",
    "%27",
]
QUERIES = [
    "p=-1", "p=abc", "p=99999999999", "o=99", "o=-1.x", "all=", "e=1", "q=%00", "q=%ED%A0%80", "q=" + "9" * 30,
    "q=" + "%27" * 50, "_facets=True", "nope=1", "id__exact=abc", "id__in=a,b", "pk__in=,", "_popup=1&_to_field=nope",
    "id__isnull=maybe", "_changelist_filters=%00",
]  # fmt: skip
VALUES = ("0", "abc", "99999999999999999999", "%ED%A0%80")


@pytest.fixture
def client(operator):
    """One row of each model, so that each list has something in it."""
    now = timezone.now()
    make_batch(["dead_letter", "succeeded"])
    make_delivery(make_endpoint(), "dead_letter")
    Alert.objects.create(rule="r", title="t", opened_at=now, last_seen_at=now)
    InboundEvent.objects.create(source="map_search", verdict="verified", outcome="accepted", body=b"{}", headers={})
    plan.create("redrive_deliveries", {"all": True}, actor="a", reason="r")
    create_key("k", ["tasks:read"])
    kinds.policy_for("scoring")
    AuditEntry.objects.create(actor="a", verb="redrive", subject="delivery", object_ids=[1], count=1)
    Heartbeat.objects.create(role="web", process="web@x", seen_at=now, started_at=now)
    schedule = Schedule.objects.create(name="s", kind="map_search", input={}, every_seconds=60, starts_at=now)
    ScheduleRun.objects.create(schedule=schedule, due_at=now)
    CrontabSchedule.objects.create(minute="-1")  # whatever stands in a row, its pages open
    SolarSchedule.objects.create(event="sunrise", latitude=1, longitude=1)
    ClockedSchedule.objects.create(clocked_time=now)
    client = Client(raise_request_exception=False)
    client.force_login(operator)
    return client


def _filters(model):
    """A wrong value for each filter that a list of this model offers, and for each date of its columns."""
    one = admin.site._registry[model]
    for item in one.list_filter:
        name = item[0] if isinstance(item, tuple) else item if isinstance(item, str) else item.parameter_name
        yield from (f"{name}={value}" for value in VALUES)
        for number, end in enumerate(("__exact", "__id__exact", "__isnull", "__year")):  # by turns: each costs a page
            yield from (f"{name}{end}={value}" for value in VALUES[number % 2 :: 2])
        for end in ("__gte", "__lt"):
            yield from (f"{name}{end}={value}" for value in ("-1", "2026-13-45", "9999-12-31T23:59:59-23:00"))
    for column in model._meta.concrete_fields:
        if column.get_internal_type() == "DateTimeField":
            yield from (f"{column.name}__year=0", f"{column.name}__day=32", f"{column.name}__gte=9999999")


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model._meta.label)
def test_no_address_of_a_model_is_a_fault_of_ours(client, model):
    base = reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_changelist")
    assert client.get(base).status_code == 200
    pages = ("change", "history", "delete")
    addresses = [f"{base}{pk}/{pages[number % 3]}/" for number, pk in enumerate(IDS)]
    addresses += [f"{base}{row.pk}/change/" for row in model._base_manager.all()[:1]]
    addresses += [f"{base}?{query}" for query in [*QUERIES, *_filters(model)]]
    addresses += [f"{base}add/?{query}" for query in ("name=%00", "id=abc", "_to_field=nope", "_popup=x")]
    verbs = [name.removesuffix("_verb") for name in dir(admin.site._registry[model]) if name.endswith("_verb")]
    for number, verb in enumerate(verbs):
        addresses += [f"{base}{pk}/{verb.replace('_', '-')}/" for pk in IDS[number % 3 :: 3]]
    faults = {address: status for address in addresses if (status := client.get(address).status_code) >= 500}
    assert faults == {}
