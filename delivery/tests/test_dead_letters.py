"""Fingerprints, groups, the three patterns."""

from datetime import timedelta

import pytest
from django.utils import timezone

from delivery import dead_letters
from delivery.tests import factories
from delivery.tests.factories import NOW


def test_a_fingerprint_ignores_accidents_and_keeps_causes():
    one = dead_letters.fingerprint(1, "connection", None, "Failed to connect to 10.0.0.7 port 8443 after 12 ms")
    two = dead_letters.fingerprint(1, "connection", None, "failed to connect to 192.0.2.1 port 443 after 3.5 ms")
    assert one == two
    assert one != dead_letters.fingerprint(2, "connection", None, "Failed to connect to 10.0.0.7 port 8443 after 12 ms")
    assert one != dead_letters.fingerprint(1, "timeout", None, "Failed to connect to 10.0.0.7 port 8443 after 12 ms")
    assert dead_letters.fingerprint(1, "rejected", 401, "") != dead_letters.fingerprint(1, "rejected", 403, "")
    assert len(one) == 32


@pytest.mark.parametrize(
    ("error", "normal"),
    [
        ("no such job 0f8fad5b-d9cb-469f-a165-70867728950e", "no such job <id>"),
        ("see https://x.example/a?token=1 now", "see <url> now"),
        ("to [2001:db8::1] refused", "to <address> refused"),
        ("Deadbeef is a word; 12345678ab is not", "deadbeef is a word; <id> is not"),
    ],
)
def test_normalise(error, normal):
    assert dead_letters.normalise(error) == normal


@pytest.mark.parametrize("outcome", [*dead_letters.Outcome, "poison", "held_too_long", "made_up"])
def test_every_outcome_has_advice(outcome):
    assert dead_letters.what_to_do(str(outcome), None)


@pytest.mark.parametrize(
    ("error", "says"),
    [
        ("The event has no data.click_id, which the postback needs.", "template"),
        ("data.items is a list or object; a postback's field must be a plain value.", "template"),
        ("private: shop.example leads to 10.0.0.7, which may not be called.", "DELIVERY_ALLOWED_NETWORKS"),
        ("", "DELIVERY_ALLOWED_NETWORKS"),
    ],
)
def test_what_a_postback_lacks_is_told_apart_from_an_address_that_is_blocked(error, says):
    assert says in dead_letters.what_to_do("blocked", None, error)


@pytest.mark.django_db
def test_a_group_and_a_finding_of_missing_fields_name_the_template():
    endpoint = factories.endpoint(request_form="postback")
    refused = {"last_outcome": "blocked", "last_error": "The event has no uid, which the postback needs."}
    factories.delivery(endpoint, state="dead_letter", finished_at=NOW, fingerprint="f", **refused)
    rows = dead_letters.dead_letters()
    assert "template" in dead_letters.groups(rows)[0].what_to_do
    assert "template" in dead_letters.analyze(24, NOW + timedelta(minutes=1))[0].advice[0]


@pytest.mark.django_db
def test_groups_count_and_sample(django_assert_num_queries):
    endpoint = factories.endpoint()
    for minutes in (3, 2, 1):
        factories.delivery(
            endpoint,
            state="dead_letter",
            fingerprint="a" * 32,
            last_outcome="rejected",
            last_status_code=401,
            last_error="no",
            finished_at=NOW - timedelta(minutes=minutes),
        )
    factories.delivery(endpoint, state="dead_letter", fingerprint="b" * 32, last_outcome="timeout")
    factories.delivery(endpoint, state="delivered")
    with django_assert_num_queries(2):
        found = dead_letters.groups(dead_letters.dead_letters())
    assert [(group.count, group.outcome) for group in found] == [(3, "rejected"), (1, "timeout")]
    assert found[0].first_at == NOW - timedelta(minutes=3)
    assert found[0].error == "no"
    assert "credentials" in found[0].what_to_do


@pytest.mark.django_db
def test_the_three_patterns():
    down, locked, flaky = factories.endpoint(), factories.endpoint(), factories.endpoint()
    for _ in range(50):
        factories.delivery(down, state="dead_letter", last_outcome="connection", finished_at=NOW, attempt_count=5)
    for code in (401, 403, 500):
        factories.delivery(locked, state="dead_letter", last_outcome="rejected", last_status_code=code, finished_at=NOW)
    for day in range(3):
        factories.delivery(flaky, state="dead_letter", last_outcome="timeout", finished_at=NOW - timedelta(days=day))
    found = {finding.endpoint: finding for finding in dead_letters.analyze(100, NOW + timedelta(minutes=1))}
    assert found[down.pk].patterns == ["cluster"]
    assert found[down.pk].mean_attempts == 5
    assert found[locked.pk].patterns == ["status_code"]
    assert "credentials were rotated" in found[locked.pk].advice[0]
    assert found[flaky.pk].patterns == ["slow_accumulation"]


@pytest.mark.django_db
def test_id_chunks_freeze_the_set():
    endpoint = factories.endpoint()
    ids = [factories.delivery(endpoint, state="dead_letter").pk for _ in range(5)]
    chunks = dead_letters.id_chunks(dead_letters.dead_letters(), 2)
    assert next(chunks) == ids[:2]
    factories.delivery(endpoint, state="dead_letter")
    assert list(chunks) == [ids[2:4], ids[4:]]


@pytest.mark.django_db
def test_groups_and_findings_on_one_host_are_told_apart_by_name_and_subscriber():
    now = timezone.now()
    for name, subscriber in (("shop", "acme"), ("", "")):
        endpoint = factories.endpoint(name=name, subscriber=subscriber)
        factories.delivery(endpoint, state="dead_letter", last_outcome="timeout")
    found = dead_letters.groups(dead_letters.dead_letters())
    labels = {(group.endpoint_name, group.subscriber): group.label for group in found}
    named, plain = sorted(group.endpoint for group in found)
    right = {
        ("shop", "acme"): f"shop of acme, endpoint {named} (hooks.example.com)",
        ("", ""): f"Endpoint {plain} (hooks.example.com)",
    }
    assert labels == right
    findings = dead_letters.analyze(1, now + timedelta(minutes=1))
    assert {(one.endpoint_name, one.subscriber): one.label for one in findings} == right


@pytest.mark.django_db
def test_an_empty_text_in_a_filter_means_exactly_empty():
    own, theirs = factories.endpoint(), factories.endpoint(subscriber="acme")
    for endpoint in (own, theirs):
        factories.delivery(endpoint, state="dead_letter", last_outcome="timeout", fingerprint="f" * 32)
    assert dead_letters.dead_letters().count() == 2
    assert [row.endpoint for row in dead_letters.dead_letters(subscriber="")] == [own]
    assert not dead_letters.dead_letters(outcome="").exists()
    assert not dead_letters.dead_letters(group="").exists()


@pytest.mark.django_db
@pytest.mark.parametrize("outcome", ["poison", "own_fault", "blocked", "held_too_long"])
def test_what_was_our_fault_is_not_told_as_the_endpoints(outcome):
    ours = factories.endpoint()
    for _ in range(50):
        factories.delivery(ours, state="dead_letter", last_outcome=outcome, finished_at=NOW, attempt_count=5)
    (found,) = dead_letters.analyze(100, NOW + timedelta(minutes=1))
    assert found.patterns == [] and len(found.advice) == 1
    assert "was down" not in found.advice[0] and "intermittent" not in found.advice[0]


@pytest.mark.django_db
def test_fifty_refusals_in_an_hour_are_no_endpoint_that_was_down():
    picky = factories.endpoint()
    for _ in range(50):
        factories.delivery(picky, state="dead_letter", last_outcome="rejected", last_status_code=422, finished_at=NOW)
    (found,) = dead_letters.analyze(100, NOW + timedelta(minutes=1))
    assert "cluster" not in found.patterns
