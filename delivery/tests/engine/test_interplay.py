"""Where two parts of the engine meet: what the one does must not spoil what the other promises."""

from __future__ import annotations

import uuid
from datetime import timedelta

import pytest
from django.utils import timezone

from delivery import endpoints, lifecycle
from delivery.engine import claims, settle
from delivery.engine.claiming import Claimer
from delivery.engine.verdicts import refused_by_template
from delivery.errors import WrongState
from delivery.latency import Recorder
from delivery.models import Delivery, EndpointHealth
from delivery.policy.outcomes import Failure
from delivery.states import WaitReason
from delivery.tests.engine.test_claims import fill, finish, take

pytestmark = pytest.mark.django_db(transaction=True)
WHO = {"actor": "user:1:ada", "reason": "test"}


def health() -> EndpointHealth:
    return EndpointHealth.objects.get()


def seconds_until(moment) -> float:
    return (moment - timezone.now()).total_seconds()


def the_wait_is_over() -> None:
    """After a throttled answer: as if its wait had passed."""
    past = timezone.now() - timedelta(seconds=1)
    EndpointHealth.objects.update(throttled_until=past, pace_probe_until=past, tokens_at=past)
    Delivery.objects.filter(state="failed").update(next_attempt_at=past)


def test_a_good_test_before_resume_still_redrives_what_the_refusals_burnt(make_endpoint):
    endpoint = make_endpoint()
    fill(1)
    finish(take())
    EndpointHealth.objects.update(last_success_at=timezone.now() - timedelta(hours=1))
    fill(5)
    finish(take(), 401)
    assert Delivery.objects.filter(state="dead_letter").count() == 5
    endpoints.send_test(endpoint, **WHO)
    finish(take(), 200)
    endpoints.resume(endpoint, **WHO)
    assert Delivery.objects.filter(state="pending").count() == 5


def test_what_died_before_the_last_success_is_not_redriven_with_the_hold(make_endpoint):
    endpoint = make_endpoint()
    [old] = fill(1)
    finish(take(), 401)
    fill(1)
    finish(take(), 200)
    fill(5)
    finish(take(), 401)
    endpoints.send_test(endpoint, **WHO)
    finish(take(), 200)
    endpoints.resume(endpoint, **WHO)
    assert Delivery.objects.get(pk=old).state == "dead_letter"
    assert Delivery.objects.filter(state="pending").count() == 5


@pytest.mark.parametrize(
    "lift",
    [
        endpoints.lift_throttle,
        endpoints.resume,
        endpoints.enable,
        lambda endpoint, **who: endpoints.update(endpoint, {"url": "https://hooks.example.com/new"}, **who),
    ],
    ids=["lift", "resume", "enable", "new url"],
)
@pytest.mark.parametrize("ordering_key", ["", "data.k"])
def test_who_lifts_a_wait_lifts_it_for_the_delivery_that_was_told_too(make_endpoint, lift, ordering_key):
    endpoint = make_endpoint(ordering_key=ordering_key)
    ids = fill(3, k="one")
    finish(take(1), 429, raw_headers=[b"HTTP/1.1 429", b"retry-after: 86000"])
    assert take() == []
    lift(endpoint, **WHO)
    sent = []
    while taken := take():
        sent += [one.id for one in taken]
        finish(taken)
    assert sorted(sent) == ids
    assert set(Delivery.objects.values_list("state", flat=True)) == {"delivered"}


def test_lifting_a_wait_leaves_the_backoff_of_other_failures_and_whose_turn_it_is(make_endpoint):
    endpoint = make_endpoint(ordering_key="data.k", retry_profile="custom", retry_delays=[5000])
    fill(2, k="one")
    finish(take(), 500)
    assert take() == []
    before = list(Delivery.objects.order_by("id").values_list("next_attempt_at", flat=True))
    endpoints.lift_throttle(endpoint, **WHO)
    assert list(Delivery.objects.order_by("id").values_list("next_attempt_at", flat=True)) == before


@pytest.mark.parametrize("failure", [Failure.ABORTED, Failure.OWN_FAULT], ids=lambda failure: failure.value)
def test_the_one_that_goes_first_after_a_wait_and_is_not_sent_lets_another_go_first(make_endpoint, failure):
    make_endpoint()
    fill(3)
    finish(take(1), 429)
    the_wait_is_over()
    [first] = take()
    finish([first], 0, failure)
    assert seconds_until(health().pace_probe_until) < 1
    EndpointHealth.objects.update(throttled_until=None, tokens=None)
    assert len(take()) == 1  # and still no more than one


def test_a_delivery_that_its_template_refuses_says_nothing_of_the_receiver(make_endpoint):
    make_endpoint(breaker_threshold=1)
    fill(3)
    finish(take(1), 429)
    the_wait_is_over()
    [first] = take()
    settle.settle([refused_by_template(first, "data.click_id is missing")], Recorder(), "test")
    after = health()
    assert after.throttle_streak == 1 and seconds_until(after.pace_probe_until) < 1
    EndpointHealth.objects.update(tokens=None)
    assert len(take()) == 1


def test_a_probe_that_its_template_refuses_lets_another_be_the_probe_at_once(make_endpoint):
    past = timezone.now() - timedelta(seconds=1)
    make_endpoint(health={"breaker_state": "open", "opened_at": past, "probe_at": past, "cooldown_seconds": 300})
    fill(2)
    [probe] = take()
    settle.settle([refused_by_template(probe, "data.click_id is missing")], Recorder(), "test")
    assert [one.is_probe for one in take()] == [True]


@pytest.mark.parametrize("reason", WaitReason.values)
def test_send_now_says_who_asked_for_the_wait(make_endpoint, reason):
    until = timezone.now() + timedelta(minutes=1)
    make_endpoint(health={"throttled_until": until, "wait_reason": reason})
    [pk] = fill(1)
    with pytest.raises(WrongState) as refusal:
        lifecycle.send_now(pk, **WHO)
    assert ("receiver asked" in str(refusal.value)) is (reason == "throttled")


@pytest.mark.parametrize(
    "flaw", [{"secret": ""}, {"retry_profile": "custom", "retry_delays": []}], ids=["keyless", "senseless"]
)
def test_a_test_that_cannot_be_sent_to_a_held_endpoint_is_not_asked_for_again_and_again(make_endpoint, flaw):
    endpoint = make_endpoint(paused_at=timezone.now(), **flaw)
    sent = endpoints.send_test(endpoint, **WHO)
    assert take() == []
    assert health().test_id is None
    sent.refresh_from_db()
    assert sent.state == "pending"


def test_a_deleted_endpoint_gets_no_test_even_if_it_was_found_before(make_endpoint):
    endpoint = make_endpoint()
    sent = endpoints.send_test(endpoint, **WHO)
    type(endpoint).objects.filter(pk=endpoint.pk).update(deleted_at=timezone.now())
    assert claims.claim_test(endpoint.pk, sent.pk, uuid.uuid4(), 45.0) == []


def test_a_test_leaves_no_more_than_the_worker_has_room_for(make_endpoint):
    for n in range(6):
        endpoints.send_test(make_endpoint(subscriber=f"s{n}", paused_at=timezone.now()), **WHO)
    claimer = Claimer()
    claimer.shares.begin(2, 0)
    assert 0 < len(take(2, claimer)) <= 2


NEW_URL = {"url": "https://hooks.example.com/new"}


@pytest.mark.parametrize("status", [401, 410], ids=["refused", "gone"])
def test_what_the_old_url_still_answers_holds_nobody_and_is_tried_at_the_new_one(make_endpoint, status):
    endpoint = make_endpoint()
    fill(8)
    under_way = take()
    endpoints.update(endpoint, NEW_URL, **WHO)
    finish(under_way, status)
    endpoint.refresh_from_db()
    assert (endpoint.state, health().refusal_count) == ("active", 0)
    assert set(Delivery.objects.values_list("state", "attempt_count")) == {("failed", 0)}
    assert len(take()) == 8


def test_what_the_old_url_still_answers_opens_no_breaker(make_endpoint):
    endpoint = make_endpoint(breaker_threshold=2)
    fill(8)
    under_way = take()
    endpoints.update(endpoint, NEW_URL, **WHO)
    finish(under_way, 0, Failure.TIMEOUT)
    assert (health().breaker_state, health().consecutive_failures) == ("closed", 0)
    fill(2)
    finish(take(2), 500)
    assert health().breaker_state == "open"


def test_refusals_that_come_in_after_resume_are_of_the_old_credentials(make_endpoint):
    endpoint = make_endpoint()
    fill(15)
    under_way = take(15)
    finish(under_way[:5], 401)
    endpoints.resume(endpoint, redrive_refused=False, **WHO)
    finish(under_way[5:], 401)
    endpoint.refresh_from_db()
    assert (endpoint.state, health().refusal_count) == ("active", 0)
    assert Delivery.objects.filter(state="failed", attempt_count=0).count() == 10
    finish(take(15), 401)  # and still no good: five more, and no further
    endpoint.refresh_from_db()
    assert (endpoint.state, Delivery.objects.filter(state="dead_letter").count()) == ("needs_attention", 10)
