"""Five refusals of one kind in a row need attention; nothing else does."""

from datetime import UTC, datetime

from delivery.policy.holds import NO_STREAK, Streak, after_attempt, hold_reason
from delivery.policy.outcomes import BodyRule, Failure, classify

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
    assert streak.refusal_kind == "rejected 401"
    assert hold_reason(streak, 401) == (
        "5 answers in a row were “rejected 401”. Its credentials have probably been rotated: "
        "correct the endpoint's headers or secret, then press Resume."
    )


def test_another_kind_begins_anew_and_a_success_ends_it():
    assert streak_of(401, 401, 401, 401, 403) == Streak("rejected 403", 1)
    assert streak_of(401, 401, 401, 401, 200) == NO_STREAK


def test_other_failures_say_nothing():
    timeout = (0, {"failure": Failure.TIMEOUT})
    assert streak_of(401, 401, timeout, 500, 429, 301, 401, 401, 401).needs_attention


def test_excused_codes_do_not_count_and_body_rules_do():
    assert streak_of(*[(401, {"transient_codes": [401]})] * 9) == NO_STREAK
    refused = (200, {"body_rule": BodyRule.of({"refused": "no"}), "body_head": b"no"})
    assert streak_of(*[refused] * 5).needs_attention
