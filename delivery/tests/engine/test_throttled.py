"""A receiver that says "slow down" gets everything, at its own pace; one that refuses burns no more than five."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from cryptography.fernet import Fernet
from django.db.models import F
from django.utils import timezone

from delivery import endpoints, events
from delivery.engine import settle
from delivery.engine.claiming import Claimer
from delivery.engine.requests import config_of
from delivery.engine.transport.messages import Request, TransferResult
from delivery.engine.verdicts import judge
from delivery.latency import Recorder
from delivery.models import Attempt, Delivery, Endpoint, EndpointHealth
from delivery.policy import pace as paces
from delivery.policy.outcomes import Failure
from delivery.policy.pace import Pace
from delivery.tests.engine.test_claims import fill, finish, take

pytestmark = pytest.mark.django_db(transaction=True)
WHO = {"actor": "user:1:ada", "reason": "test"}


@contextmanager
def limiting(per_second: float, retry_after: str) -> Iterator[tuple[str, list[bool]]]:
    """nginx's limit_req without a burst: (URL, for each request whether it was let pass)."""
    lock, state, passed = threading.Lock(), [0.0], []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            with lock:
                now = time.monotonic()
                passes = now - state[0] >= 1 / per_second
                state[0] = now if passes else state[0]
                passed.append(passes)
            self.send_response(200 if passes else 429)
            if not passes:
                self.send_header("retry-after", retry_after)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/", passed
    finally:
        server.shutdown()
        server.server_close()


def publish(count: int, subscriber: str = "acme") -> None:
    events.record_many([events.NewEvent("a.b", {"n": n}, subscriber) for n in range(count)])


def test_a_receiver_of_eight_a_second_gets_all_and_seldom_says_429(make_endpoint, drain):
    with limiting(8.0, "1") as (url, passed):
        make_endpoint(url)
        publish(50)
        ends = time.monotonic() + 120
        while Delivery.objects.filter(state="delivered").count() < 50 and time.monotonic() < ends:
            drain(linger_seconds=1.5)
            time.sleep(0.1)
    assert set(Delivery.objects.values_list("state", "attempt_count")) == {("delivered", 1)}
    assert passed.count(True) == 50 and passed.count(False) < 40
    health = EndpointHealth.objects.get()
    assert health.pace_per_second is not None and health.breaker_state == "closed"
    assert "because they answer 429" in paces.in_words(Pace.of(health), timezone.now())


@pytest.mark.parametrize("hint", ["0", "Sat, 01 Jan 2022 00:00:00 GMT"], ids=["seconds", "a past date"])
def test_told_to_come_back_at_once_means_one_try_and_then_our_own_backoff(make_endpoint, sink, drain, hint):
    make_endpoint(sink.answer("/503", 503, {"Retry-After": hint}), retry_profile="custom", retry_delays=[600])
    publish(60)
    drain(linger_seconds=0.5)
    assert len(sink.seen) <= 20 + 1  # what was in the air, and the one try
    health = EndpointHealth.objects.get()
    assert (health.throttled_until - timezone.now()).total_seconds() > 400
    assert Delivery.objects.filter(state="dead_letter").count() == 0
    assert set(Delivery.objects.values_list("attempt_count", flat=True)) == {0}


def test_many_throttled_at_once_are_one_decrease(make_endpoint):
    make_endpoint()
    fill(20)
    taken = take(20)
    finish(taken[:10], 429)
    first = EndpointHealth.objects.get()
    finish(taken[10:], 429)
    second = EndpointHealth.objects.get()
    assert (first.throttle_streak, second.throttle_streak) == (1, 1)
    assert first.pace_per_second == second.pace_per_second


def test_after_the_wait_one_goes_first_and_the_others_when_it_was_let_pass(make_endpoint):
    make_endpoint()
    fill(20)
    finish(take(5), 429, raw_headers=[b"retry-after: 60"])
    assert take(20) == []
    past = timezone.now() - timedelta(seconds=30)
    EndpointHealth.objects.update(
        throttled_until=past, pace_probe_until=past, tokens_at=past, pace_per_second=500.0, pace_ceiling=500.0
    )
    probe = take(20)
    assert len(probe) == 1
    time.sleep(0.05)
    assert take(20) == []
    finish(probe)
    assert EndpointHealth.objects.get().pace_probe_until is None
    assert len(take(20)) > 1


def test_the_learned_pace_holds_for_all_workers_together(make_endpoint):
    make_endpoint(health={"pace_per_second": 5.0, "pace_ceiling": 5.0, "pace_lowered_at": timezone.now()})
    fill(30)
    assert sum(len(take(20, Claimer())) for _ in range(6)) == 1


def test_an_own_limit_below_the_pace_stays(make_endpoint):
    make_endpoint(rate_per_minute=6, health={"pace_per_second": 50.0, "pace_lowered_at": timezone.now()})
    fill(30)
    assert len(take(20)) == 1
    time.sleep(0.1)
    assert take(20) == []


def test_a_throttled_try_costs_nothing_for_72_hours_and_is_a_dead_letter_then(make_endpoint):
    make_endpoint(max_attempts=1)
    fill(1)

    def again(hours: float) -> Delivery:
        EndpointHealth.objects.update(throttled_until=None, pace_probe_until=None, tokens=None)
        since = timezone.now() - timedelta(hours=hours)
        Delivery.objects.update(next_attempt_at=timezone.now(), throttled_at=since, throttle_count=40)
        finish(take(), 429)
        return Delivery.objects.get()

    young, old = again(71), again(73)
    assert (young.state, young.attempt_count, young.throttle_count) == ("failed", 0, 41)
    assert (old.state, old.last_outcome, old.attempt_count) == ("dead_letter", "throttled", 1)


def test_a_long_profile_keeps_a_throttled_delivery_as_long_as_itself(make_endpoint):
    endpoint = make_endpoint(retry_profile="custom", retry_delays=[86_400], max_attempts=7)
    assert config_of(endpoint).schedule.throttle_window_seconds(7) > 6 * 86_400


def test_any_other_end_forgets_since_when_it_was_throttled(make_endpoint):
    make_endpoint()
    fill(1)
    finish(take(), 429, raw_headers=[b"retry-after: 0"])
    assert Delivery.objects.get().throttled_at is not None
    Delivery.objects.update(next_attempt_at=timezone.now())
    finish(take(), 500)
    assert Delivery.objects.get().throttled_at is None


def settled(claimed, answers) -> None:
    verdicts = []
    for one, answer in zip(claimed, answers, strict=True):
        result = TransferResult(Request("http://x/", key=one), total_ms=1.0, **answer)
        verdicts.append(judge(one, result, random.Random(1)))
    settle.settle(verdicts, Recorder(), "test")


MIXES = {
    "401": [{"status": 401}],
    "302": [{"status": 302}],
    "401 and 403 in turn": [{"status": 401}, {"status": 403}],
    "blocked": [{"failure": Failure.BLOCKED}],
    "everything": [{"status": 401}, {"status": 302}, {"failure": Failure.BLOCKED}, {"status": 400}],
}


@pytest.mark.parametrize("mix", MIXES)
def test_whatever_is_refused_five_are_dead_and_all_others_wait_however_many_are_in_the_air(make_endpoint, mix):
    endpoint = make_endpoint(max_concurrency=200)
    fill(120)
    first, second = take(40), take(40)
    for batch in (first[:3], first[3:], second):
        settled(batch, [MIXES[mix][n % len(MIXES[mix])] for n in range(len(batch))])
    endpoint.refresh_from_db()
    assert endpoint.state == "needs_attention" and endpoint.hold_reason.endswith("press Resume.")
    assert Delivery.objects.filter(state="dead_letter").count() == 5
    assert Delivery.objects.filter(state="failed", attempt_count=0, fingerprint="").count() == 75
    assert Attempt.objects.count() == 80
    assert take(40) == []


def test_a_success_from_before_the_hold_buys_no_more_dead_letters(make_endpoint):
    make_endpoint(max_concurrency=200)
    fill(60)
    taken = take(60)
    settled(taken[:10], [{"status": 401}] * 10)
    settled(taken[10:11], [{"status": 200}])
    settled(taken[11:], [{"status": 401}] * 49)
    assert Delivery.objects.filter(state="dead_letter").count() == 5


def test_postbacks_whose_field_is_missing_hold_their_endpoint(make_endpoint, sink, drain):
    make_endpoint(sink.url + "/pb?click={data.click}", request_form="postback", method="GET")
    publish(60)
    drain()
    endpoint = Endpoint.objects.get()
    assert endpoint.state == "needs_attention" and "postback field missing" in endpoint.hold_reason
    assert Delivery.objects.filter(state="dead_letter").count() == 5
    assert sink.seen == []


def test_resume_sends_the_held_and_with_them_the_few_dead_ones_or_not(make_endpoint, sink, drain):
    endpoint = make_endpoint(sink.answer("/302", 302))
    publish(30)
    drain()
    assert Delivery.objects.filter(state="dead_letter").count() == 5
    sink.answer("/302", 200)
    endpoints.resume(endpoint, redrive_refused=False, **WHO)
    drain()
    assert Delivery.objects.filter(state="delivered").count() == 25
    Endpoint.objects.update(attention_at=timezone.now())
    endpoints.resume(endpoint, **WHO)
    drain()
    assert Delivery.objects.filter(state="delivered").count() == 25  # a success lies between: no longer of this streak


def test_resume_redrives_what_the_refusals_made(make_endpoint, sink, drain):
    endpoint = make_endpoint(sink.answer("/302", 302))
    publish(30)
    drain()
    sink.answer("/302", 200)
    endpoints.resume(endpoint, **WHO)
    drain()
    assert Delivery.objects.filter(state="delivered").count() == 30


@pytest.mark.parametrize("way", ["resume", "enable", "new URL"])
def test_a_far_retry_after_and_an_open_breaker_are_lifted_by_hand(make_endpoint, sink, drain, way):
    endpoint = make_endpoint(sink.answer("/429", 429, {"Retry-After": "1893456000"}), max_concurrency=1)
    publish(5)
    drain()
    health = EndpointHealth.objects.get()
    assert 23.9 < (health.throttled_until - timezone.now()).total_seconds() / 3600 <= 24
    now = timezone.now()
    EndpointHealth.objects.update(
        breaker_state="open", opened_at=now, probe_at=now + timedelta(hours=1), consecutive_failures=9, refusal_count=3
    )
    Delivery.objects.update(next_attempt_at=now)
    sink.answer("/429", 200)
    if way == "new URL":
        endpoints.update(endpoint, {"url": "https://receiver.example/"}, **WHO)
        Endpoint.objects.update(url=sink.url + "/429")
    else:
        getattr(endpoints, way)(endpoint, **WHO)
    health = EndpointHealth.objects.get()
    assert (health.breaker_state, health.consecutive_failures, health.refusal_count) == ("closed", 0, 0)
    assert (health.throttled_until, health.pace_per_second, health.wait_reason) == (None, None, "")
    drain()
    assert Delivery.objects.filter(state="delivered").count() == 5


def test_what_was_under_way_when_it_was_lifted_brings_the_wait_not_back(make_endpoint):
    endpoint = make_endpoint()
    fill(10)
    taken = take(10)
    finish(taken[:5], 429, raw_headers=[b"retry-after: 3600"])
    endpoints.resume(endpoint, **WHO)
    finish(taken[5:], 429, raw_headers=[b"retry-after: 3600"])
    health = EndpointHealth.objects.get()
    assert (health.throttled_until, health.pace_per_second) == (None, None)


HELD = {
    "paused": ({"paused_at": timezone.now()}, {}),
    "disabled": ({"disabled_at": timezone.now()}, {}),
    "throttled": ({}, {"throttled_until": timezone.now() + timedelta(days=1)}),
    "breaker open": (
        {},
        {"breaker_state": "open", "opened_at": timezone.now(), "probe_at": timezone.now() + timedelta(days=1)},
    ),
    "nothing": ({}, {}),
}


@pytest.mark.parametrize("why", HELD)
def test_a_test_goes_out_at_once_whatever_holds_the_endpoint(make_endpoint, sink, drain, why):
    values, health = HELD[why]
    endpoint = make_endpoint(sink.url + "/ok", **values, health=health)
    publish(3)
    sent = endpoints.send_test(endpoint, **WHO)
    drain()
    sent.refresh_from_db()
    assert (sent.state, sent.attempt_count) == ("delivered", 1)
    assert len(sink.seen) == (4 if why == "nothing" else 1)
    after = EndpointHealth.objects.get()
    assert after.test_id is None
    assert after.breaker_state == health.get("breaker_state", "closed")


def test_a_deleted_endpoint_gets_no_test(make_endpoint):
    endpoint = make_endpoint()
    sent = endpoints.send_test(endpoint, **WHO)
    endpoints.delete(endpoint, **WHO)
    assert take() == []
    sent.refresh_from_db()
    assert sent.state == "cancelled"


def test_settings_that_cannot_be_used_are_the_reason_and_not_the_receiver(make_endpoint):
    endpoint = make_endpoint(retry_profile="custom", retry_delays=[])
    fill(1)
    assert take() == []
    health = EndpointHealth.objects.get()
    assert (health.wait_reason, health.throttled_until > timezone.now()) == ("unusable", True)
    endpoints.update(endpoint, {"retry_delays": [5]}, **WHO)
    assert len(take()) == 1


def test_a_new_secret_where_none_could_be_opened_ends_the_wait(make_endpoint, settings):
    endpoint = make_endpoint()
    known, settings.MASTER_KEYS = settings.MASTER_KEYS, [Fernet.generate_key().decode()]
    Endpoint.objects.filter(pk=endpoint.pk).update(secret="whsec_bG9zdA==")
    settings.MASTER_KEYS = known
    Endpoint.objects.filter(pk=endpoint.pk).update(version=F("version") + 1)
    fill(1)
    assert take() == []
    assert EndpointHealth.objects.get().wait_reason == "unusable"
    endpoints.rotate_secret(endpoint.pk, **WHO)
    assert len(take()) == 1


def test_the_learned_pace_becomes_the_limit_by_one_verb_or_is_lifted_by_another(make_endpoint):
    health = {"pace_per_second": 1.05, "pace_lowered_at": timezone.now(), "throttle_status": 429}
    endpoint = make_endpoint(health=health)
    fixed = endpoints.fix_rate(endpoint, **WHO)
    assert (fixed.rate_per_minute, fixed.rate_burst) == (63, 1)
    assert EndpointHealth.objects.get().pace_per_second is None
    with pytest.raises(endpoints.WrongState, match="No pace is known"):
        endpoints.fix_rate(endpoint, **WHO)
    EndpointHealth.objects.update(**health, throttled_until=timezone.now() + timedelta(hours=1))
    endpoints.lift_throttle(endpoint, **WHO)
    after = EndpointHealth.objects.get()
    assert (after.pace_per_second, after.throttled_until) == (None, None)
