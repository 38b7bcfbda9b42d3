"""The breaker: its transitions one by one, and against a model under any order of events."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from delivery.policy.breaker import (
    Admission,
    Breaker,
    BreakerPolicy,
    Effect,
    admission,
    after_attempt,
    effect_of,
    effective_threshold,
    take_probe,
)
from delivery.policy.outcomes import Failure, classify

T0 = datetime(2026, 5, 1, 12, tzinfo=UTC)
POLICY = BreakerPolicy(threshold=3, cooldown_seconds=300)
TOKEN, OTHER = UUID(int=1), UUID(int=2)


def at(seconds):
    return T0 + timedelta(seconds=seconds)


def fail(breaker, seconds, *, began=None, token=None, effect=Effect.FAILURE):
    began_at = at(seconds if began is None else began)
    return after_attempt(breaker, effect, policy=POLICY, began_at=began_at, now=at(seconds), probe_token=token)


def opened(seconds=0):
    breaker = Breaker()
    for _ in range(3):
        breaker = fail(breaker, seconds)
    return breaker


def probing(seconds=300, token=TOKEN):
    return take_probe(opened(), now=at(seconds), token=token, lease_seconds=45)


def test_it_opens_at_the_threshold_and_a_success_in_between_resets():
    breaker = fail(fail(Breaker(), 0), 1)
    assert (breaker.breaker_state, breaker.consecutive_failures) == ("closed", 2)
    breaker = fail(breaker, 2, effect=Effect.SUCCESS)
    assert breaker.consecutive_failures == 0
    breaker = opened()
    assert (breaker.breaker_state, breaker.opened_at, breaker.probe_at) == ("open", at(0), at(300))


def test_neutral_and_void_neither_count_nor_reset():
    breaker = fail(fail(Breaker(), 0), 1)
    assert fail(breaker, 2, effect=Effect.NEUTRAL) is breaker
    assert fail(breaker, 2, effect=Effect.VOID) is breaker


def test_open_holds_until_the_cooldown_then_exactly_one_probe():
    assert admission(opened(), at(299)) is Admission.HOLD
    assert admission(opened(), at(300)) is Admission.PROBE
    assert take_probe(opened(), now=at(299), token=TOKEN, lease_seconds=45) is None
    breaker = probing()
    assert breaker.breaker_state == "half_open"
    assert admission(breaker, at(301)) is Admission.HOLD
    assert take_probe(breaker, now=at(301), token=OTHER, lease_seconds=45) is None


def test_a_lost_probe_expires_and_its_late_result_changes_nothing():
    second = take_probe(probing(), now=at(345), token=OTHER, lease_seconds=45)
    assert second.probe_token == OTHER
    assert fail(second, 350, token=TOKEN, effect=Effect.SUCCESS) is second


def test_only_the_probes_own_token_brings_its_result_back():
    breaker = probing(token=OTHER)
    for token in (None, TOKEN, UUID(int=3)):
        assert fail(breaker, 301, token=token) is breaker
    assert fail(breaker, 301, token=OTHER).breaker_state == "open"


def test_a_failed_probe_doubles_up_to_an_hour():
    breaker, seconds, seen = opened(), 0, []
    for _ in range(6):
        seconds += breaker.cooldown_seconds
        breaker = take_probe(breaker, now=at(seconds), token=TOKEN, lease_seconds=45)
        breaker = fail(breaker, seconds, token=TOKEN)
        seen.append(breaker.cooldown_seconds)
    assert seen == [600, 1200, 2400, 3600, 3600, 3600]


def test_a_good_probe_closes_and_the_next_opening_starts_at_the_base():
    breaker = fail(probing(), 301, token=TOKEN)
    breaker = take_probe(breaker, now=at(1000), token=OTHER, lease_seconds=45)
    breaker = fail(breaker, 1001, token=OTHER, effect=Effect.SUCCESS)
    assert (breaker.breaker_state, breaker.cooldown_seconds, breaker.consecutive_failures) == ("closed", 300, 0)
    for _ in range(3):
        breaker = fail(breaker, 1002)
    assert breaker.probe_at == at(1302)


def test_old_results_change_nothing_not_even_after_closing():
    assert fail(opened(100), 200, began=50, effect=Effect.SUCCESS) == opened(100)
    closed = fail(probing(), 310, token=TOKEN, effect=Effect.SUCCESS)
    assert fail(closed, 320, began=-10) is closed


def test_a_neutral_probe_asks_again_later_and_a_void_one_at_once():
    neutral = fail(probing(), 310, token=TOKEN, effect=Effect.NEUTRAL)
    assert (neutral.breaker_state, neutral.probe_at, neutral.cooldown_seconds) == ("open", at(610), 300)
    void = fail(probing(), 310, token=TOKEN, effect=Effect.VOID)
    assert admission(void, at(310)) is Admission.PROBE


def test_effects_of_decisions():
    def effect(status=0, failure=None):
        return effect_of(classify(status=status, failure=failure, now=T0))

    assert effect(204) is Effect.SUCCESS
    assert effect(500) is effect(failure=Failure.DNS) is Effect.FAILURE
    assert effect(404) is effect(429) is effect(410) is effect(failure=Failure.BLOCKED) is Effect.NEUTRAL
    assert effect(failure=Failure.OWN_FAULT) is Effect.VOID


def test_threshold_is_halved_over_five_seconds():
    assert [effective_threshold(10, p95) for p95 in (None, 5000, 5001)] == [10, 10, 5]
    assert effective_threshold(1, 9000) == 1


def test_a_fast_endpoint_keeps_its_threshold():
    assert effective_threshold(10, 4000) == 10
    assert effective_threshold(3, 9000) == 1


def test_unless_told_otherwise_it_opens_after_ten_for_five_minutes():
    assert BreakerPolicy() == BreakerPolicy(threshold=10, cooldown_seconds=300)


def test_a_threshold_that_was_lowered_below_the_count_opens_at_the_next_failure():
    breaker = fail(Breaker(consecutive_failures=7), 0)
    assert (breaker.breaker_state, breaker.consecutive_failures) == ("open", 8)


def test_an_open_breaker_goes_on_counting():
    assert opened().consecutive_failures == 3
    assert fail(probing(), 310, token=TOKEN).consecutive_failures == 4


def test_a_probe_that_nobody_brings_back_may_be_taken_again_from_its_end_on():
    assert admission(probing(), at(344)) is Admission.HOLD
    assert admission(probing(), at(345)) is admission(probing(), at(346)) is Admission.PROBE


def test_a_failed_probe_opens_from_now_on():
    breaker = fail(probing(), 310, token=TOKEN)
    assert (breaker.breaker_state, breaker.opened_at, breaker.probe_at) == ("open", at(310), at(910))
    assert (breaker.probe_token, breaker.probe_until) == (None, None)


def test_a_closed_breaker_keeps_nothing_of_its_probe():
    closed = fail(probing(), 310, token=TOKEN, effect=Effect.SUCCESS)
    assert (closed.probe_at, closed.probe_token, closed.probe_until) == (None, None, None)
    assert closed.opened_at == at(0)


def test_a_neutral_or_void_probe_gives_its_place_back():
    for effect, probe_at in ((Effect.NEUTRAL, at(610)), (Effect.VOID, at(310))):
        breaker = fail(probing(), 310, token=TOKEN, effect=effect)
        assert (breaker.probe_at, breaker.probe_token, breaker.probe_until) == (probe_at, None, None)
        assert (breaker.opened_at, breaker.consecutive_failures) == (at(0), 3)


def test_an_attempt_that_began_as_the_breaker_opened_counts_after_it_closed():
    closed = fail(probing(), 310, token=TOKEN, effect=Effect.SUCCESS)
    assert fail(closed, 320, began=0).consecutive_failures == 1


def test_a_cooldown_of_more_than_an_hour_is_an_hour():
    long = BreakerPolicy(threshold=1, cooldown_seconds=7200)
    breaker = after_attempt(Breaker(), Effect.FAILURE, policy=long, began_at=at(0), now=at(0))
    assert (breaker.cooldown_seconds, breaker.probe_at) == (3600, at(3600))


class Machine(RuleBasedStateMachine):
    """Attempts begin and end in any order; a plain model says what must hold."""

    def __init__(self):
        super().__init__()
        self.breaker = Breaker()
        self.now = 0.0
        self.flying = []  # (began, token)
        self.tokens = 0
        self.cooldown = 300
        self.live_probe = None  # (token, until)

    @rule(seconds=st.sampled_from([0.0, 1.0, 30.0, 45.0, 300.0, 3600.0]))
    def time_passes(self, seconds):
        self.now += seconds

    @rule()
    def begin(self):
        word = admission(self.breaker, at(self.now))
        if word is Admission.SEND:
            self.flying.append((self.now, None))
        elif word is Admission.PROBE:
            assert self.live_probe is None or self.now >= self.live_probe[1]
            self.tokens += 1
            token = UUID(int=self.tokens)
            self.breaker = take_probe(self.breaker, now=at(self.now), token=token, lease_seconds=45)
            self.live_probe = (token, self.now + 45)
            self.flying.append((self.now, token))
        else:
            assert take_probe(self.breaker, now=at(self.now), token=UUID(int=0), lease_seconds=45) is None

    @rule(index=st.integers(0, 50), effect=st.sampled_from(list(Effect)))
    def end(self, index, effect):
        if not self.flying:
            return
        began, token = self.flying.pop(index % len(self.flying))
        before = self.breaker
        after = fail(before, self.now, began=began, token=token, effect=effect)
        self.breaker = after
        is_probe = self.live_probe is not None and token == self.live_probe[0] and token is not None
        if before.breaker_state != "closed" and not is_probe:
            assert after is before
            return
        if before.opened_at and at(began) < before.opened_at and not is_probe:
            assert after is before
            return
        self._model(before, after, effect, is_probe)

    def _model(self, before, after, effect, is_probe):
        if is_probe:
            self.live_probe = None
            expected = {Effect.SUCCESS: "closed"}.get(effect, "open")
            assert after.breaker_state == expected
            if effect is Effect.FAILURE:
                self.cooldown = min(3600, self.cooldown * 2)
            elif effect is Effect.SUCCESS:
                self.cooldown = 300
            return
        failures = before.consecutive_failures + 1 if effect is Effect.FAILURE else before.consecutive_failures
        if effect is Effect.SUCCESS:
            failures = 0
        assert after.consecutive_failures == failures
        assert after.breaker_state == ("open" if effect is Effect.FAILURE and failures >= 3 else "closed")

    @invariant()
    def the_cooldown_is_the_models(self):
        assert self.breaker.cooldown_seconds == self.cooldown

    @invariant()
    def a_probe_token_lives_only_half_open(self):
        assert (self.breaker.probe_token is not None) == (self.breaker.breaker_state == "half_open")

    @invariant()
    def open_always_has_a_way_out(self):
        if self.breaker.breaker_state == "open":
            assert self.breaker.probe_at is not None
            assert self.breaker.probe_at <= at(self.now + 3600)


Machine.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestMachine = Machine.TestCase
