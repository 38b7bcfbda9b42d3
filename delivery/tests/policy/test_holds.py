"""Five refusals in a row, of whatever sort, need attention; nothing else does."""

from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from delivery.policy.holds import _ADVICE, NO_STREAK, REFUSALS_TO_HOLD, Streak, after_attempt, hold_reason, kind_of
from delivery.policy.outcomes import BodyRule, Decision, DecisionKind, Failure, Outcome, classify

NOW = datetime(2026, 5, 1, tzinfo=UTC)


def streak_of(*answers):
    streak = NO_STREAK
    for answer in answers:
        status, options = answer if isinstance(answer, tuple) else (answer, {})
        streak = after_attempt(streak, classify(status=status, now=NOW, **options), status)
    return streak


def test_five_of_one_kind():
    assert not streak_of(401, 401, 401, 401).needs_attention
    streak = streak_of(401, 401, 401, 401, 401)
    assert streak.needs_attention
    assert streak.kinds == {"rejected 401": 5}
    assert hold_reason(streak) == (
        "5 answers in a row were “rejected 401”. It does not take our signature or credentials: "
        "give it the secret, or correct our headers, then press Resume."
    )


def test_kinds_count_together_and_the_reason_names_the_mix():
    streak = streak_of(401, 403, 302, (0, {"failure": Failure.BLOCKED}), 401)
    assert streak.needs_attention
    assert hold_reason(streak) == (
        "5 refusals in a row: 2 × rejected 401, 1 × rejected 403, 1 × redirect, 1 × blocked. "
        "Look at the last answers and correct the endpoint, then press Resume."
    )


def test_a_missing_postback_field_is_a_refusal_with_a_name_of_its_own():
    streak = NO_STREAK
    for _ in range(REFUSALS_TO_HOLD):
        streak = after_attempt(streak, Decision(Outcome.BLOCKED, DecisionKind.PERMANENT), 0, was_sent=False)
    assert streak.kinds == {"postback field missing": 5}


def test_a_success_ends_it():
    assert streak_of(401, 401, 302, 401, 200) == NO_STREAK
    assert streak_of(401, 401, 302, 401, 200, 401).refusal_count == 1


KINDS = [*_ADVICE, *[f"rejected {status}" for status in (400, 422, 451, 501, 505)], "refused"]


@given(st.lists(st.sampled_from(KINDS), min_size=5, max_size=5), st.integers(5, 10_000))
def test_every_reason_fits_its_column_and_ends_with_what_to_do(kinds, count):
    stored = ", ".join(kinds)
    reason = hold_reason(Streak(stored, count))
    assert len(stored) <= 200 and len(reason) <= 200
    assert reason.endswith("press Resume.")


def test_other_failures_say_nothing():
    timeout = (0, {"failure": Failure.TIMEOUT})
    assert streak_of(401, 401, timeout, 500, 429, 401, 401, 401).needs_attention


def test_excused_codes_do_not_count_and_body_rules_do():
    assert streak_of(*[(401, {"transient_codes": [401]})] * 9) == NO_STREAK
    refused = (200, {"body_rule": BodyRule.of({"refused": "no"}), "body_head": b"no"})
    assert streak_of(*[refused] * 5).needs_attention


def test_refusals_beyond_the_fifth_are_counted_without_their_kinds():
    streak = streak_of(401, 401, 403, 401, 401, 302, 400)
    assert streak == Streak("rejected 401, rejected 401, rejected 403, rejected 401, rejected 401", 7)
    assert streak.needs_attention


def test_the_kind_of_a_refusal_that_was_sent_is_its_outcome():
    assert kind_of(classify(status=401, now=NOW), 401) == "rejected 401"
    assert kind_of(classify(status=302, now=NOW), 302) == "redirect"
    assert kind_of(classify(failure=Failure.BLOCKED, now=NOW), 0) == "blocked"


def test_nothing_changes_by_a_success_without_a_streak():
    assert NO_STREAK == Streak(refusal_kind="", refusal_count=0)  # noqa: SIM300
    assert after_attempt(clean := Streak(), classify(status=200, now=NOW), 200) is clean
