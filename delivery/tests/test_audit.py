"""Who did what to endpoints and deliveries stands in the audit trail, whichever door it came through."""

import pytest

from delivery import endpoint_changes, endpoints, lifecycle
from delivery.replays import replay
from delivery.tests import factories
from kernel.models import AuditEntry

pytestmark = pytest.mark.django_db
WHO = {"actor": "user:1:ada", "reason": "ticket 4711"}
URL = "https://hooks.example.com/in?token=s3cret"


def trail():
    rows = AuditEntry.objects.order_by("id")
    return [(row.verb, row.subject, row.object_ids, row.actor, row.reason) for row in rows]


def test_every_verb_of_an_endpoint_leaves_one_line():
    endpoint = endpoints.create(url=URL, **WHO)
    endpoints.update(endpoint, {"name": "shop"}, **WHO)
    endpoints.pause(endpoint, **WHO)
    endpoints.resume(endpoint, **WHO)
    endpoints.enable(endpoint, **WHO)
    endpoints.rotate_secret(endpoint, **WHO)
    replay(endpoint, event_ids=[], **WHO)
    endpoints.delete(endpoint, **WHO)
    verbs = ["create", "update", "pause", "resume", "enable", "rotate_secret", "replay", "delete"]
    assert trail() == [(verb, "endpoint", [endpoint.pk], WHO["actor"], WHO["reason"]) for verb in verbs]


def test_no_line_holds_a_secret_or_an_address():
    endpoint = endpoints.create(url=URL, **WHO)
    endpoints.update(endpoint, {"url": f"{URL}&more=1", "headers": {"X-Key": "s3cret"}}, **WHO)
    endpoints.rotate_secret(endpoint, **WHO)
    said = repr(list(AuditEntry.objects.values()))
    assert "s3cret" not in said and "whsec_" not in said and "hooks.example.com" not in said


def test_redrive_and_discard_name_the_rows_they_moved_and_no_others():
    endpoint = factories.endpoint()
    dead, other = factories.delivery(endpoint, state="dead_letter"), factories.delivery(endpoint, state="delivered")
    lifecycle.redrive([dead.pk, other.pk], **WHO)
    lifecycle.discard([dead.pk, other.pk], **WHO)
    lifecycle.discard([dead.pk, other.pk], **WHO)
    assert [(verb, subject, ids) for verb, subject, ids, *_ in trail()] == [
        ("redrive", "delivery", [dead.pk]),
        ("discard", "delivery", [dead.pk]),
    ]


def test_a_verb_that_is_rolled_back_leaves_no_line(monkeypatch):
    endpoint = factories.endpoint()
    monkeypatch.setattr(endpoint_changes, "touched", lambda *_topics: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        endpoints.pause(endpoint, **WHO)
    assert trail() == []
