"""Who gets in and how long they stay: odd tokens and addresses, live tokens and the login they were issued in."""

import asyncio

import pytest
from asgiref.sync import async_to_sync, sync_to_async
from django.contrib.auth import get_user_model
from django.test import Client
from structlog.testing import capture_logs

from console.live import consumers, refusals, viewers
from console.routing import websocket_application
from console.tests.communicator import OWN, WebsocketCommunicator, ask, bearer, cookie_of, socket
from console.tests.conftest import make_batch

pytestmark = pytest.mark.usefixtures("committed")


@pytest.fixture
def lines():
    with capture_logs() as kept:
        yield kept


def _of(lines, event):
    return [line for line in lines if line["event"] == event]


@pytest.mark.parametrize("way", ["header", "query", "subprotocol", "message", "cookie"])
def test_a_nul_opens_nothing_and_breaks_nothing(way):
    token = "rt_abc\x00def_secret"

    async def play():
        headers = {
            "header": [(b"host", b"testserver"), bearer(token)],
            "cookie": [*OWN, (b"cookie", b'sessionid="\\000bcdefghijklmn"')],
        }.get(way, [(b"host", b"testserver")])
        query = "?token=rt_abc%00def_secret" if way == "query" else ""
        protocols = [f"token.{token}"] if way == "subprotocol" else None
        async with socket(*headers, query=query, subprotocols=protocols) as communicator:
            message = {"type": "auth", "token": token} if way == "message" else {"type": "subscribe", "topic": "stats"}
            await communicator.send_json_to(message)
            answer = await communicator.receive_json_from(timeout=3)
            assert answer["code"] in {"not_authenticated", "bad_message"}

    async_to_sync(play)()


def test_an_unknown_address_is_a_plain_404_and_a_line_in_the_log(lines):
    async def play(extensions):
        communicator = WebsocketCommunicator(websocket_application, "/ws/nope/", OWN)
        communicator.scope["extensions"] = extensions
        await communicator.send_input({"type": "websocket.connect"})
        return await communicator.receive_output(3)

    answer = async_to_sync(play)({"websocket.http.response": {}})
    assert (answer["type"], answer["status"]) == ("websocket.http.response.start", 404)
    assert async_to_sync(play)({}) == {"type": "websocket.close", "code": refusals.UNKNOWN_ADDRESS}
    assert [(line["status"], line["code"]) for line in _of(lines, "request_refused")] == [(404, "unknown_address")] * 2


def test_a_foreign_origin_is_logged(operator, lines):
    cookie = cookie_of(operator)

    async def play():
        async with socket((b"host", b"testserver"), (b"origin", b"http://evil.example"), cookie) as refused:
            assert refused == consumers.FORBIDDEN

    async_to_sync(play)()
    assert [line["code"] for line in _of(lines, "request_refused")] == ["foreign_origin"]


@pytest.mark.parametrize("end", ["logout", "password", "deactivated"])
def test_a_live_token_ends_with_the_login_it_was_issued_in(operator, monkeypatch, end):
    """At the next look of an open socket, and for one that comes."""
    monkeypatch.setattr(consumers, "LOGIN_SECONDS", 0.05)
    monkeypatch.setattr(consumers, "AGAIN_SECONDS", 0.2)
    batch = make_batch(["running"])
    client = Client()
    client.force_login(operator)
    answer = client.post("/api/v1/live-tokens/", {"topics": [f"batch:{batch.pk}"]}, content_type="application/json")
    token = answer.json()["token"]
    assert client.cookies["sessionid"].value not in token

    def finish():
        if end == "logout":
            client.logout()
        elif end == "password":
            operator.set_unusable_password()
            operator.save()
        else:
            get_user_model().objects.filter(pk=operator.pk).update(is_active=False)

    async def play():
        headers = [(b"host", b"testserver")]
        async with socket(*headers, query=f"?token={token}") as communicator:
            assert (await ask(communicator, f"batch:{batch.pk}"))["type"] == "snapshot"
            await sync_to_async(finish)()
            assert (await communicator.receive_json_from(timeout=3))["code"] == "not_authenticated"
        async with socket(*headers, query=f"?token={token}") as communicator:
            assert (await ask(communicator, f"batch:{batch.pk}"))["code"] == "not_authenticated"

    async_to_sync(play)()


def test_an_open_live_token_still_opens_only_its_topics_after_a_look(operator, monkeypatch):
    monkeypatch.setattr(consumers, "LOGIN_SECONDS", 0.02)
    monkeypatch.setattr(consumers, "AGAIN_SECONDS", 0.05)
    batch = make_batch(["running"])
    client = Client()
    client.force_login(operator)
    body = {"topics": [f"batch:{batch.pk}"]}
    token = client.post("/api/v1/live-tokens/", body, content_type="application/json").json()["token"]

    async def play():
        async with socket((b"host", b"testserver"), query=f"?token={token}") as communicator:
            await asyncio.sleep(0.3)
            assert (await ask(communicator, "alerts"))["code"] == "permission_denied"

    async_to_sync(play)()


def test_a_fault_of_ours_while_looking_again_ends_the_view_and_is_logged(operator, monkeypatch, lines):
    monkeypatch.setattr(consumers, "LOGIN_SECONDS", 0.02)
    monkeypatch.setattr(consumers, "AGAIN_SECONDS", 0.05)
    monkeypatch.setattr(viewers, "again", lambda _viewer: None.nothing)
    cookie = cookie_of(operator)

    async def play():
        async with socket(*OWN, cookie) as communicator:
            assert (await communicator.receive_json_from(timeout=3))["code"] == "internal_error"

    async_to_sync(play)()
    assert [line["error"] for line in _of(lines, "live_look_failed")] == ["AttributeError"]
