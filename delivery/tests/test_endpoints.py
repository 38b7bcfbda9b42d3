"""The verbs of an endpoint: what each changes, and what it leaves alone."""

from datetime import timedelta

import pytest
from django.utils import timezone

from delivery import endpoints
from delivery.endpoint_rules import InvalidEndpoint
from delivery.errors import WrongState
from delivery.events import record
from delivery.models import Delivery, Endpoint, EndpointHealth
from delivery.policy import signing
from delivery.tests import factories

pytestmark = pytest.mark.django_db
WHO = {"actor": "user:1:ada", "reason": "test"}
URL = "https://hooks.example.com:8443/in?token=s3cret"


def _made(**values):
    return endpoints.create(url=URL, **WHO, **values)


def test_create_makes_host_health_and_secret():
    endpoint = _made(breaker_cooldown_seconds=60)
    assert endpoint.host == "hooks.example.com:8443"
    assert endpoint.secret.startswith("whsec_")
    assert EndpointHealth.objects.get(endpoint=endpoint).cooldown_seconds == 60
    assert endpoints.gives_up(endpoint) == "after 5 attempts, about 8 minutes after the first"


def test_v1a_gives_a_public_key_and_a_wrong_secret_is_refused():
    endpoint = _made(signature_scheme="v1a")
    assert endpoint.secret.startswith("whsk_")
    assert endpoint.public_key == signing.public_key_of(endpoint.secret)
    for secret in ("short", "whsec_AAAA", signing.new_secret("v1a")[0]):
        with pytest.raises(InvalidEndpoint) as caught:
            _made(secret=secret)
        assert caught.value.errors[0]["field"] == "secret"


def test_a_secret_can_be_brought_along():
    secret = signing.new_secret()[0]
    assert _made(secret=secret).secret == secret


def test_secret_and_url_are_encrypted_at_rest(django_assert_num_queries):
    from django.db import connection

    _made()
    with connection.cursor() as cursor:
        cursor.execute("SELECT url, secret FROM delivery_endpoint")
        stored = "".join(cursor.fetchone())
    assert "s3cret" not in stored
    assert "whsec" not in stored


def test_update_counts_the_version_and_refuses_nonsense():
    endpoint = _made()
    changed = endpoints.update(endpoint, {"max_attempts": 3}, **WHO)
    assert (changed.max_attempts, changed.version) == (3, 2)
    with pytest.raises(InvalidEndpoint):
        endpoints.update(endpoint, {"url": "http://10.0.0.1/"}, **WHO)
    assert Endpoint.objects.get().version == 2


def test_pause_and_resume():
    endpoint = _made()
    paused = endpoints.pause(endpoint, **WHO)
    assert paused.is_held and paused.state == "paused" and paused.hold_reason == "test"
    again = endpoints.pause(endpoint, actor="user:2:bob", reason="again")
    assert again.paused_at == paused.paused_at
    resumed = endpoints.resume(endpoint, **WHO)
    assert not resumed.is_held and resumed.hold_reason == ""


def test_a_disabled_endpoint_is_enabled_not_resumed():
    endpoint = _made()
    Endpoint.objects.update(disabled_at=timezone.now(), hold_reason="410", paused_at=timezone.now())
    with pytest.raises(WrongState, match="Enable it"):
        endpoints.resume(endpoint, **WHO)
    assert endpoints.enable(endpoint, **WHO).state == "paused"


def test_resume_after_refusals_redrives_only_what_they_made():
    endpoint, now = _made(), timezone.now()
    refused = factories.delivery(endpoint, state="dead_letter", last_outcome="rejected", last_status_code=401)
    other = factories.delivery(endpoint, state="dead_letter", last_outcome="timeout")
    old = factories.delivery(
        endpoint, state="dead_letter", last_outcome="rejected", finished_at=now - timedelta(days=3)
    )
    Endpoint.objects.update(attention_at=now)
    EndpointHealth.objects.update(refusal_kind="rejected 401", refusal_count=5)
    endpoints.resume(endpoint, **WHO)
    states = dict(Delivery.objects.values_list("pk", "state"))
    assert states == {refused.pk: "pending", other.pk: "dead_letter", old.pk: "dead_letter"}
    assert EndpointHealth.objects.get().refusal_count == 0


def test_delete_cancels_what_waits_and_keeps_the_history():
    endpoint = _made()
    for state in ("pending", "failed", "delivered", "dead_letter"):
        factories.delivery(endpoint, state=state)
    assert endpoints.delete(endpoint, **WHO) == endpoints.Settled(cancelled=2)
    assert sorted(Delivery.objects.values_list("state", flat=True)) == [
        "cancelled",
        "cancelled",
        "dead_letter",
        "delivered",
    ]
    gone = Endpoint.objects.get()
    assert gone.state == "deleted" and gone.secret == ""
    with pytest.raises(WrongState):
        endpoints.pause(endpoint, **WHO)


def test_a_test_goes_to_this_endpoint_only():
    mine, _other = _made(event_types=["order.paid"]), _made()
    sent = endpoints.send_test(mine, **WHO)
    assert sent.event.type == "endpoint.test"
    assert list(Delivery.objects.values_list("endpoint_id", flat=True)) == [mine.pk]
    assert sent.event.delivery_count == 1


def test_replay_reaches_a_new_endpoint_and_never_another_subscriber():
    theirs = record("order.paid", {}, subscriber="other")
    early = record("order.paid", {"click": "a"}, subscriber="acme")
    record("order.refused", {}, subscriber="acme")
    endpoint = _made(subscriber="acme", event_types=["order.paid"], ordering_key="data.click")
    done = endpoints.replay(endpoint, since=timezone.now() - timedelta(hours=1), **WHO)
    (made,) = Delivery.objects.all()
    assert (done.deliveries, done.next_after) == (1, None)
    assert (made.event_id, made.is_replay, made.ordering_key) == (early.pk, True, "a")
    assert endpoints.replay(endpoint, event_ids=[early.pk, theirs.pk], **WHO).deliveries == 1


def test_replay_goes_on_where_it_stopped():
    for _ in range(3):
        record("a.b", {})
    endpoint = _made()
    since = timezone.now() - timedelta(hours=1)
    first = endpoints.replay(endpoint, since=since, limit=2, **WHO)
    assert first.deliveries == 2 and first.next_after is not None
    rest = endpoints.replay(endpoint, since=since, after=first.next_after, **WHO)
    assert (rest.deliveries, rest.next_after) == (1, None)


def test_logs_name_the_endpoint_by_id_and_host(capfd, caplog):
    import structlog

    with structlog.testing.capture_logs() as lines:
        endpoint = _made(headers={"x-key": "hush"})
        endpoints.rotate_secret(endpoint, **WHO)
    assert [line["verb"] for line in lines] == ["endpoint.create", "endpoint.rotate_secret"]
    assert lines[0]["host"] == "hooks.example.com:8443" and lines[0]["actor"] == "user:1:ada"
    assert "s3cret" not in str(lines) and "hush" not in str(lines) and "whsec" not in str(lines)
