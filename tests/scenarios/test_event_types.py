"""Each type of event of our own, made to happen by what makes it happen, has the fields that the catalogue tells."""

import json
from collections import defaultdict
from typing import Any

import pytest
from django.utils import timezone
from jsonschema import Draft202012Validator

from console.alerts import evaluate
from delivery import endpoints, events
from delivery.events import OUR_TYPES
from delivery.models import Event
from delivery.policy.catalogue import CATALOGUE
from delivery.policy.holds import REFUSALS_TO_HOLD
from tasks import workers
from tasks.engine import lifecycle
from tasks.models import Task
from tasks.states import BATCH_OUTCOMES, State
from tasks.submit import submit, submit_batch

pytestmark = pytest.mark.django_db(transaction=True)


def work_ends() -> None:
    """One task each way, and a batch."""
    reports = submit_batch("batch_report", [{"input": {"batch": "99"}}], caller="test", reference="nothing there")
    submit("batch_report", {"batch": str(reports.pk)}, caller="test", reference="there")
    workers.run_due()
    left = submit("batch_report", {"batch": "99"}, caller="test")
    lifecycle.cancel([left.pk], actor="test", reason="not wanted")
    assert set(Task.objects.values_list("state", flat=True)) == {"succeeded", "dead_letter", "cancelled"}


def endpoints_are_held(make_endpoint, sink, drain) -> None:
    sink.answer("/gone", 410)
    sink.answer("/closed", 401)
    make_endpoint(sink.url + "/gone", subscriber="gone")
    make_endpoint(sink.url + "/closed", subscriber="closed")
    events.record("order.paid", {}, subscriber="gone")
    for _ in range(REFUSALS_TO_HOLD):
        events.record("order.paid", {}, subscriber="closed")
    drain()


def test_every_type_is_sent_with_exactly_the_fields_that_are_told_and_no_other_is(make_endpoint, sink, drain):
    work_ends()
    endpoints_are_held(make_endpoint, sink, drain)
    endpoints.send_test(make_endpoint(sink.url + "/ok"), actor="test")
    evaluate.evaluate(timezone.now())

    sent: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for event in Event.objects.exclude(type="order.paid"):
        sent[event.type].append(json.loads(bytes(event.payload)))
    assert set(sent) == set(CATALOGUE)
    assert all(name.startswith(OUR_TYPES) for name in sent)
    for name, payloads in sent.items():
        checks = Draft202012Validator(CATALOGUE[name].schema, format_checker=Draft202012Validator.FORMAT_CHECKER)
        for payload in payloads:
            assert [error.message for error in checks.iter_errors(payload)] == [], name
            assert payload["data"].keys() == CATALOGUE[name].fields.keys() == CATALOGUE[name].example.keys()


def test_the_words_of_states_and_outcomes_are_the_tasks_own():
    """The catalogue may not import them: they are told on a floor above it."""
    told = {one.fields["state"]["const"] for one in CATALOGUE.values() if "state" in one.fields}
    assert told == {State.SUCCEEDED, State.DEAD_LETTER, State.CANCELLED}
    assert tuple(CATALOGUE["batch.completed"].fields["outcome"]["enum"]) == BATCH_OUTCOMES
