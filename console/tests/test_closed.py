"""Every address is closed to a stranger, except the few that must be open. New addresses are found by themselves."""

import re

import pytest
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver

from console.tests.conftest import allow, make_batch

pytestmark = pytest.mark.django_db

OPEN = {
    "healthz": 200,
    "readyz": (200, 503),
    "api/v1/schema": 200,
    "api/v1/docs": 200,
    "admin/login": 200,
    "admin/logout": (302, 405),
    "admin/jsi18n": (200, 302),
}
# Senders prove themselves by signature; an unsigned call is refused there, see webhooks/tests.
SIGNED = "webhooks/"
CLOSED = {302, 401, 403, 404, 405}


def addresses(patterns=None, prefix=""):
    for one in get_resolver().url_patterns if patterns is None else patterns:
        route = prefix + str(one.pattern)
        if isinstance(one, URLResolver):
            yield from addresses(one.url_patterns, route)
        elif isinstance(one, URLPattern):
            yield route


def concrete(route):
    path = re.sub(r"\(\?P<[^>]+>(?:[^()]|\([^()]*\))*\)", "1", route)
    path = re.sub(r"<(?:int|path):[^>]+>", "1", path)
    path = re.sub(r"<[^>]+>", "acknowledge", path)
    return path.replace("/?", "/").replace("\\Z", "").replace("\\", "").strip("^$").replace("^", "").replace("$", "")


ALL = sorted({concrete(route) for route in addresses()})


def test_the_addresses_are_found():
    assert len(ALL) > 80
    for known in (
        "",
        "batches/1/",
        "api/v1/operations/1/items/",
        "api/v1/live-tokens/",
        "metrics/",
        "journeys/acknowledge/",
    ):
        assert known in ALL


@pytest.mark.parametrize("method", ["get", "post"])
def test_a_stranger_gets_in_nowhere(method):
    client = Client()
    leaks = []
    for path in ALL:
        expected = OPEN.get(path.rstrip("/"))
        if path.startswith(SIGNED) or (expected is not None):
            continue
        response = getattr(client, method)(f"/{path}")
        to_login = response.status_code != 302 or "/login/" in response["Location"] or response["Location"] == "/admin/"
        if response.status_code not in CLOSED or not to_login:
            leaks.append((path, response.status_code))
    assert leaks == []


def test_the_open_ones_are_open():
    for path, expected in OPEN.items():
        status = Client().get(f"/{path}/").status_code
        assert status in (expected if isinstance(expected, tuple) else (expected,)), path


def test_with_and_without_the_slash_is_the_same(operator):
    client = Client()
    client.force_login(operator)
    for path in ("healthz", "batches", "dead-letters", "metrics", "api/v1/stats", "api/v1/alerts", "api/v1/operations"):
        assert client.get(f"/{path}").status_code == client.get(f"/{path}/").status_code == 200, path


PAGES = {
    "/batches/": "tasks.view_task",
    "/batches/{batch}/": "tasks.view_task",
    "/operations/1/": "console.view_operation",
}
API = {
    ("get", "stats"): "deliveries:read",
    ("get", "alerts"): "deliveries:read",
    ("post", "alerts/1/acknowledge"): "operations:write",
    ("post", "alerts/1/resolve"): "operations:write",
    ("get", "operations"): "operations:write",
    ("post", "operations"): "operations:write",
    ("get", "operations/1/items"): "operations:write",
    ("post", "operations/1/cancel"): "operations:write",
}


def test_pages_need_their_permission(staff):
    batch = make_batch(["running"])
    client = Client()
    client.force_login(staff)
    assert client.get("/").status_code == 200  # the frame only
    assert b"Needs you" not in client.get("/").content
    assert b"data-live-topic" not in client.get("/").content
    for path in PAGES:
        assert client.get(path.format(batch=batch.pk)).status_code == 403, path
    client.force_login(allow(staff, *PAGES.values()))
    for path in PAGES:
        assert client.get(path.format(batch=batch.pk)).status_code in (200, 404), path


def test_api_needs_its_scope():
    from kernel.auth import Scope, create_key

    for (method, path), scope in API.items():
        others = create_key("others", [one for one in Scope.values if one != scope])[1]
        right = create_key("right", [scope])[1]
        for token, is_closed in ((others, True), (right, False)):
            call = getattr(Client(headers={"authorization": f"Bearer {token}"}), method)
            status = call(f"/api/v1/{path}/", content_type="application/json").status_code
            assert (status == 403) is is_closed, (method, path, scope, status)


def test_buttons_that_are_hidden_are_closed_too(staff):
    user = allow(staff, "console.view_alert", "console.view_operation", "tasks.view_task", "delivery.view_delivery")
    client = Client()
    client.force_login(user)
    for path in ("/alerts/1/resolve/", "/operations/new/", "/operations/1/steer/"):
        assert client.post(path, {"verb": "cancel"}).status_code == 403, path
    assert b"Redrive" not in client.get("/dead-letters/").content
