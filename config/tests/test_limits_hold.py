"""What docs/limits.md says happens beyond a limit happens: each door is tried with one more than it takes."""

import ast
import io
import json
import re
import sys
from http import HTTPStatus
from pathlib import Path
from types import SimpleNamespace

import pytest
from django.conf import settings
from django.core.management import CommandError, call_command
from django.test import Client

from config import limits
from delivery import endpoint_rules, endpoint_secrets
from delivery.models import Delivery, Endpoint, Event
from delivery.policy import headers, quotas
from kernel import exact_numbers, parsing
from kernel import models as kernel_models
from kernel.api import pages, problems
from kernel.auth import Scope, create_key
from tasks.models import MAX_BATCH, Batch, Task
from tasks.submit import MAX_REFERENCE, MAX_SUBSCRIBER
from webhooks import schemes

pytestmark = pytest.mark.django_db
SEARCH = {"trade": "bakery", "place": "Łódź"}
URL = "https://hooks.example/in"


@pytest.fixture(autouse=True)
def provider(settings):
    settings.SANDBOX_PROVIDER_URL = "http://127.0.0.1:9"
    settings.SANDBOX_PROVIDER_KEY = "key"
    settings.SANDBOX_WEBHOOK_SECRET = "whsec_a2tra2tra2tra2tra2tra2tra2tra2tr"
    settings.CELERY_BROKER_URL = ""
    settings.ENDPOINTS_PER_SUBSCRIBER = 3


@pytest.fixture
def api():
    """Calls the API with every scope; `raw` is the body as it is."""
    bearer = f"Bearer {create_key('test', list(Scope.values))[1]}"

    def call(path, body=None, *, raw=None, method="POST", **headers):
        text = raw if raw is not None else json.dumps(body) if body is not None else ""
        return Client().generic(
            method, f"/api/v1{path}", text, "application/json", headers={"authorization": bearer, **headers}
        )

    return call


def beyond(what):
    """(status codes, reason words) that the row of the table says."""
    (row,) = [row for section in limits.SECTIONS for row in section.limits if row.what == what]
    return set(map(int, re.findall(r"\b[45]\d\d\b", row.beyond))), set(re.findall(r"`([a-z_]+)`", row.beyond))


def refused(answer, what):
    """The answer is what the table says, and nothing was stored."""
    statuses, words = beyond(what)
    assert answer.status_code in statuses, (what, answer.content[:300])
    said = answer.json()
    codes = {said.get("code"), said.get("reason"), *(error["code"] for error in said.get("errors") or [])}
    assert not words or codes & words, (what, said)
    assert (Event.objects.count(), Task.objects.count(), Batch.objects.count()) == (0, 0, 0)


CAPPED = [path for path in settings.BODY_CAPS if path.startswith("/api/")]


@pytest.mark.parametrize("path", CAPPED)
def test_a_body_above_its_doors_cap(api, path):
    door = {"/api/v1/tasks": "/tasks/", "/api/": "/operations/"}.get(path, f"{path.removeprefix('/api/v1')}/")
    refused(api(door, raw=" " * (settings.BODY_CAPS[path] + 1)), f"body of a request below `{path}`")


QUERIES = {
    "fields of a form, names in a query": "&".join(["a"] * (settings.DATA_UPLOAD_MAX_NUMBER_FIELDS + 1)),
    "rows of a page, of every list that has pages": f"limit={pages.CursorPages.max_page_size + 1}",
}


@pytest.mark.parametrize("what", QUERIES)
@pytest.mark.parametrize("path", ["/tasks/", "/events/", "/deliveries/", "/dead-letters/", "/alerts/", "/operations/"])
def test_a_query_that_asks_for_too_much(api, what, path):
    assert api(f"{path}?{QUERIES[what]}", method="GET").status_code in beyond(what)[0]


@pytest.mark.parametrize(
    ("query", "code"),
    [("nonsense=1", "unknown_filter"), ("kind=map_search&kind=scoring", "doubled_filter"), ("limit=", "")],
)
def test_a_filter_that_is_none(api, query, code):
    answer = api(f"/tasks/?{query}", method="GET")
    assert answer.status_code == HTTPStatus.BAD_REQUEST
    assert code in answer.json()["code"]
    assert code == "" or code in beyond("a filter of a list")[1]


def nested(depth):
    return '{"type": "a.b", "data": ' + '{"a":' * (depth - 1) + "1" + "}" * (depth - 1) + "}"


def test_json_that_is_nested_too_deep_or_whose_number_is_too_long(api):
    assert api("/events/", raw=nested(parsing.MAX_DEPTH)).status_code < HTTPStatus.BAD_REQUEST
    Event.objects.all().delete()
    deep = "objects and lists inside one another, in all JSON that comes in"
    refused(api("/events/", raw=nested(parsing.MAX_DEPTH + 1)), deep)
    digits = "9" * (exact_numbers.MAX_INT_DIGITS + 1)
    refused(
        api("/operations/", raw=f'{{"verb": "redrive_tasks", "filter": {{"batch": {digits}}}}}'),
        "digits of a whole number",
    )


def test_errors_are_counted_and_not_listed(api):
    answer = api("/batches/", {"kind": "map_search", "tasks": [{"input": {}}] * (problems.ERRORS_SHOWN + 1)})
    refused(answer, "tasks of a batch")
    assert len(answer.json()["errors"]) == problems.ERRORS_SHOWN


def test_an_idempotency_key_that_is_too_long(api):
    most = kernel_models.IdempotencyRecord._meta.get_field("key").max_length
    answer = api("/events/", {"type": "a.b", "data": {}}, **{"idempotency-key": "k" * (most + 1)})
    refused(answer, "Idempotency-Key")


def test_a_correlation_id_that_cannot_be_kept_is_replaced_by_ours(api):
    given = "x" * 65
    answer = api("/events/", {"type": "a.b", "data": {}}, **{"x-correlation-id": given})
    assert answer.status_code == HTTPStatus.ACCEPTED
    assert re.fullmatch(r"[A-Za-z0-9_\-]{8,64}", Event.objects.get().correlation_id)


EVENT = {"type": "a.b", "data": {}}
EVENTS = {
    "type": ("/events/", {**EVENT, "type": "a" * 101}),
    "uid": ("/events/", {**EVENT, "uid": "u" * 65}),
    "bytes of an event, as it is sent": ("/events/", {**EVENT, "data": {"a": "x" * settings.EVENT_MAX_BYTES}}),
    "events of one call": ("/events/bulk/", {"events": [EVENT] * (quotas.EVENTS_PER_CALL + 1)}),
}


@pytest.mark.parametrize("what", EVENTS)
def test_an_event_that_is_too_much(api, what):
    refused(api(*EVENTS[what]), what)


TASKS = {
    "tasks of a batch": ("/batches/", {"kind": "map_search", "tasks": [{"input": SEARCH}] * (MAX_BATCH + 1)}),
    "reference": ("/tasks/", {"kind": "map_search", "input": SEARCH, "reference": "r" * (MAX_REFERENCE + 1)}),
    "subscriber": ("/tasks/", {"kind": "map_search", "input": SEARCH, "subscriber": "s" * (MAX_SUBSCRIBER + 1)}),
}


@pytest.mark.parametrize("what", TASKS)
def test_work_that_is_too_much(api, what):
    refused(api(*TASKS[what]), what)


ENDPOINTS = {
    "name": {"name": "n" * 101},
    "URL, rendered or not": {"url": f"https://hooks.example/{'a' * quotas.MAX_URL}"},
    "event types, each": {"event_types": [f"a{n}" for n in range(quotas.MAX_EVENT_TYPES + 1)]},
    "own delays; own codes to retry": {"retry_profile": "custom", "retry_delays": [1] * (quotas.MAX_DELAYS + 1)},
    "CA or client certificate, each": {"client_certificate": "c" * (quotas.MAX_PEM + 1)},
    "phrases of a body rule": {"body_rule": {"success": "|".join(["a"] * (endpoint_rules.MAX_PHRASES + 1))}},
    "body rule, and one of its texts": {"body_rule": {"success": "a" * (quotas.MAX_RULE_TEXT + 1)}},
    "template of a postback's body": {"request_form": "postback", "body_template": "t" * (quotas.MAX_TEMPLATE + 1)},
    "own headers": {"headers": {f"x-own-{n}": "1" for n in range(headers.MAX_HEADERS + 1)}},
    **{f"`{field}`": {field: most + 1} for field, (_least, most, _unit) in endpoint_rules._LIMITS.items()},
}


@pytest.mark.parametrize("what", ENDPOINTS)
def test_an_endpoint_that_is_too_much(api, what):
    body = {"name": "Shop", "url": URL, "event_types": ["*"], "subscriber": "acme", **ENDPOINTS[what]}
    refused(api("/endpoints/", body), what)
    assert not Endpoint.objects.exists()


def test_a_body_rule_that_is_too_long_as_a_whole_is_told_so():
    with pytest.raises(endpoint_rules.InvalidEndpoint) as refusal:
        endpoint_rules.clean({"url": URL, "body_rule": {"success": "a" * quotas.MAX_BODY_RULE}})
    (error,) = refusal.value.errors
    assert error["code"] in beyond("body rule, and one of its texts")[1]
    assert f"at most {quotas.MAX_BODY_RULE:,} characters" in error["detail"]


def test_endpoints_and_secrets_beyond_the_last_one(api):
    body = {"name": "Shop", "url": URL, "event_types": ["*"], "subscriber": "acme"}
    made = [api("/endpoints/", body) for _ in range(settings.ENDPOINTS_PER_SUBSCRIBER)]
    assert {answer.status_code for answer in made} == {HTTPStatus.CREATED}
    refused(api("/endpoints/", body), "endpoints of a subscriber")
    rotate = f"/endpoints/{made[0].json()['id']}/rotate-secret/"
    for _ in range(endpoint_secrets.MOST - 1):
        assert api(rotate, {}).status_code == HTTPStatus.OK
    refused(api(rotate, {}), "live secrets")
    ids = {"event_ids": [str(n + 1) for n in range(quotas.REPLAYED_IDS + 1)]}
    refused(api(f"/endpoints/{made[0].json()['id']}/replay/", ids), "ids and types of a replay")


OPERATIONS = {
    "ids of a filter": {"ids": list(range(1, limits.filters.MAX_IDS + 2))},
    "types, and a text, in an operation's filter": {"subscriber": "s" * (limits.filters.MAX_TEXT + 1)},
}


@pytest.mark.parametrize("what", OPERATIONS)
def test_an_operation_that_is_too_much(api, what):
    body = {"verb": "redrive_deliveries", "filter": OPERATIONS[what], "reason": "test"}
    refused(api("/operations/", body), what)


def inbound(body=b"{}", **headers):
    return Client().post("/webhooks/sandbox/", body, "application/json", headers=headers)


def test_a_callback_that_is_too_much():
    too_large = inbound(b" " * (settings.INBOUND_MAX_BYTES + 1))
    statuses, words = beyond("body, before and after unpacking")
    assert ({too_large.status_code}, {too_large.json()["reason"]}) == (statuses, words)
    long = {"webhook-id": "a", "webhook-timestamp": "1", "webhook-signature": "s" * (schemes.MAX_HEADER_LENGTH + 1)}
    statuses, words = beyond("each header that a signature reads")
    answer = inbound(**long)
    assert ({answer.status_code}, {answer.json()["reason"]}) == (statuses, words)


@pytest.mark.parametrize(
    ("command", "path", "row"),
    [
        (("publish", "a.b", "-"), "/api/v1/events", "an event from standard input: `publish`"),
        (("submit", "-", "--kind", "map_search"), "/api/v1/batches", "a file or standard input: `submit`"),
    ],
)
def test_a_command_reads_no_more_than_the_api_takes(monkeypatch, command, path, row):
    """One byte more is read than is taken, whatever waits behind it."""
    most = settings.BODY_CAPS[path]
    endless = io.BytesIO(b" " * (most + 1_000_000))
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=endless))
    assert beyond(row) == (set(), set())
    with pytest.raises(CommandError, match=f"more than {most:,} bytes"):
        call_command(*command)
    assert endless.closed or endless.tell() == most + 1
    assert (Event.objects.count(), Batch.objects.count(), Delivery.objects.count()) == (0, 0, 0)


def test_no_figure_of_the_table_is_written_there():
    """Every row reads its number from the code that keeps it: what stands between has no digit, and names something."""
    written = []
    for call in ast.walk(ast.parse(Path(limits.__file__).read_text())):
        if isinstance(call, ast.Call) and ast.unparse(call.func) == "Limit":
            most = call.args[1]
            keys = {id(node.slice) for node in ast.walk(most) if isinstance(node, ast.Subscript)}
            texts = [str(n.value) for n in ast.walk(most) if isinstance(n, ast.Constant) and id(n) not in keys]
            is_read = any(isinstance(node, ast.Name) for node in ast.walk(most))
            if not is_read or any(character.isdigit() for character in "".join(texts)):
                written.append(ast.unparse(most))
    assert written == ["'once, of known names; `state` several times'", "'for good'"]
