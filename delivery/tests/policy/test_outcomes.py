"""The outcome table of the contract, row by row."""

from datetime import UTC, datetime

import pytest

from delivery.policy.outcomes import (
    BREAKER_COUNTS,
    EXPLANATIONS,
    BodyRule,
    DecisionKind,
    Failure,
    Outcome,
    classify,
)

NOW = datetime(2026, 5, 1, 12, 0, 0, tzinfo=UTC)


def judged(status=0, **options):
    return classify(status=status, now=NOW, **options)


ROWS = [
    *[(code, Outcome.DELIVERED, DecisionKind.SUCCESS) for code in (200, 201, 202, 204, 299)],
    *[(code, Outcome.REDIRECT, DecisionKind.PERMANENT) for code in (300, 301, 302, 304, 307, 308, 399)],
    *[
        (code, Outcome.REJECTED, DecisionKind.PERMANENT)
        for code in (400, 401, 403, 404, 405, 409, 413, 415, 418, 422, 451, 499)
    ],
    *[(code, Outcome.REJECTED, DecisionKind.PERMANENT) for code in (501, 505)],
    *[(code, Outcome.SERVER_ERROR, DecisionKind.TRANSIENT) for code in (500, 502, 503, 504, 507, 599, 425)],
    (408, Outcome.TIMEOUT, DecisionKind.TRANSIENT),
    (410, Outcome.GONE, DecisionKind.GONE),
    (429, Outcome.THROTTLED, DecisionKind.THROTTLE),
    (0, Outcome.SERVER_ERROR, DecisionKind.TRANSIENT),
    (199, Outcome.SERVER_ERROR, DecisionKind.TRANSIENT),
    (999, Outcome.SERVER_ERROR, DecisionKind.TRANSIENT),
]


@pytest.mark.parametrize(("status", "outcome", "kind"), ROWS)
def test_statuses(status, outcome, kind):
    decision = judged(status)
    assert (decision.outcome, decision.kind) == (outcome, kind)


@pytest.mark.parametrize(
    ("failure", "outcome", "kind"),
    [
        (Failure.TIMEOUT, Outcome.TIMEOUT, DecisionKind.TRANSIENT),
        (Failure.CONNECTION, Outcome.CONNECTION, DecisionKind.TRANSIENT),
        (Failure.DNS, Outcome.DNS, DecisionKind.TRANSIENT),
        (Failure.TLS, Outcome.TLS, DecisionKind.TRANSIENT),
        (Failure.BLOCKED, Outcome.BLOCKED, DecisionKind.PERMANENT),
        (Failure.OWN_FAULT, Outcome.OWN_FAULT, DecisionKind.OURS),
        (Failure.ABORTED, Outcome.OWN_FAULT, DecisionKind.OURS),
    ],
)
def test_failures_go_before_the_status(failure, outcome, kind):
    decision = judged(200, failure=failure)
    assert (decision.outcome, decision.kind) == (outcome, kind)


def test_consequences():
    assert judged(200).is_success
    assert judged(500).counts_for_breaker
    for status in (400, 401, 429, 410, 301):
        assert not judged(status).counts_for_breaker
    assert not judged(failure=Failure.BLOCKED).counts_for_breaker
    assert judged(401).is_refusal
    assert judged(301).is_refusal
    assert judged(failure=Failure.BLOCKED).is_refusal
    assert not judged(410).is_refusal


def test_throttling_takes_the_told_time():
    assert judged(429, retry_after="120").pause_endpoint_seconds == 120
    assert judged(429).pause_endpoint_seconds is None
    assert judged(429, retry_after="soon").pause_endpoint_seconds is None
    told = judged(503, retry_after="7")
    assert (told.outcome, told.kind, told.pause_endpoint_seconds) == (Outcome.THROTTLED, DecisionKind.THROTTLE, 7)
    assert judged(503, retry_after="soon").outcome is Outcome.SERVER_ERROR
    assert judged(500, retry_after="7").outcome is Outcome.SERVER_ERROR


def test_a_moment_to_come_back_at_is_counted_from_the_receivers_clock():
    at, clock = "Fri, 01 May 2026 12:02:00 GMT", "Fri, 01 May 2026 12:01:00 GMT"
    assert judged(429, retry_after=at, date=clock).pause_endpoint_seconds == 60
    assert judged(503, retry_after=at, date=clock).pause_endpoint_seconds == 60
    assert judged(429, retry_after="7", date=clock).pause_endpoint_seconds == 7


def test_exceptions_of_an_endpoint():
    assert judged(401, transient_codes=[401]).kind is DecisionKind.TRANSIENT
    assert judged(501, transient_codes=[501]).kind is DecisionKind.TRANSIENT
    assert judged(403, transient_codes=[401]).kind is not DecisionKind.TRANSIENT
    assert judged(404, not_found_is_transient=True).kind is DecisionKind.TRANSIENT
    assert not judged(401, transient_codes=[401]).is_refusal
    assert judged(410, transient_codes=[410]).kind is DecisionKind.GONE


def test_body_rule():
    rule = BodyRule.of(
        {"success": "OK", "refused": "Invalid Click|expired", "duplicate": ["already", '"status": "dup"']}
    )

    def said(body, status=200):
        return judged(status, body_head=body, body_rule=rule)

    assert said(b"ok: stored").outcome is Outcome.DELIVERED
    assert said(b"error: invalid  click").outcome is Outcome.REFUSED
    assert said(b"OK but EXPIRED").outcome is Outcome.REFUSED
    assert said(b"refused, ALREADY had, expired").outcome is Outcome.DUPLICATE
    assert said(b'{"status":"dup"}').is_success
    assert said(b"").outcome is Outcome.REFUSED
    assert said(b"\xff\xfe\x00 ok").outcome is Outcome.DELIVERED
    assert said(b"already", status=500).outcome is Outcome.SERVER_ERROR
    assert said(b"expired").is_refusal


def test_body_rule_from_json():
    assert BodyRule.of(None) is None
    assert BodyRule.of({"success": " | "}) is None
    for wrong in ({"sucess": "ok"}, {"success": 5}, {"refused": [1]}):
        with pytest.raises(ValueError, match="body rule"):
            BodyRule.of(wrong)


def test_every_outcome_is_explained():
    assert set(EXPLANATIONS) == set(Outcome)
    assert {o.value for o in BREAKER_COUNTS} == {"timeout", "connection", "dns", "tls", "server_error"}


@pytest.mark.parametrize("name", ["success", "refused", "duplicate"])
def test_a_body_rule_of_one_list_alone_is_a_rule(name):
    assert BodyRule.of({name: "Yes|no"}) == BodyRule(**{name: ("yes", "no")})


def test_the_first_unknown_word_of_a_body_rule_is_named():
    with pytest.raises(ValueError, match="not 'failure'"):
        BodyRule.of({"success": "ok", "sucess": "ok", "failure": "no"})


@pytest.mark.parametrize("status", [500, 502, 504, 507])
def test_only_a_429_or_503_may_name_a_wait(status):
    assert judged(status, retry_after="7") == judged(status)


def test_a_decision_says_yes_or_no():
    assert judged(200).is_success is True and judged(500).is_success is False
    assert judged(500).counts_for_breaker is True and judged(200).counts_for_breaker is False
    assert judged(400).is_refusal is True and judged(200).is_refusal is False


@pytest.mark.parametrize("status", [400, 403, 405, 422, 501])
def test_where_a_404_may_pass_the_other_refusals_are_still_final(status):
    assert judged(status, not_found_is_transient=True).kind is DecisionKind.PERMANENT
