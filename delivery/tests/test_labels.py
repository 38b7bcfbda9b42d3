"""An operator reads words, and always what to do next."""

from datetime import timedelta

import pytest

from delivery import labels
from delivery.models import Delivery, Endpoint, EndpointHealth
from delivery.policy.outcomes import Outcome
from delivery.states import AWAITS_TURN, State
from delivery.tests.factories import NOW


def _next(state, endpoint=None, health=None, **values):
    values.setdefault("next_attempt_at", NOW)
    delivery = Delivery(state=state, **values)
    return labels.next_step(delivery, endpoint or Endpoint(), health or EndpointHealth(), NOW)


@pytest.mark.parametrize("state", State.values)
def test_every_state_says_what_next(state):
    assert _next(state).endswith(".")
    assert State(state).label in labels.STATE_COLOURS


@pytest.mark.parametrize("outcome", Outcome)
def test_every_outcome_has_words(outcome):
    assert outcome in labels.OUTCOMES
    assert labels.explanation(outcome)


def test_waiting_names_its_reason():
    assert "resume the endpoint" in _next("pending", Endpoint(attention_at=NOW, hold_reason="401"))
    assert "enable the endpoint" in _next("pending", Endpoint(disabled_at=NOW))
    assert "breaker is open" in _next("failed", None, EndpointHealth(breaker_state="open"))
    assert "asked us to wait" in _next("failed", None, EndpointHealth(throttled_until=NOW + timedelta(hours=1)))
    unusable = EndpointHealth(throttled_until=NOW + timedelta(minutes=1), wait_reason="unusable")
    assert "settings cannot be used" in _next("pending", None, unusable)
    assert "receiver" not in _next("pending", None, unusable)
    assert "ordering key" in _next("pending", next_attempt_at=AWAITS_TURN)
    assert "due for 5 minutes" in _next("pending", next_attempt_at=NOW - timedelta(minutes=5))
    assert "next attempt is due" in _next("failed", next_attempt_at=NOW + timedelta(minutes=5))


def test_a_learned_pace_is_told_with_its_reason():
    health = EndpointHealth(pace_per_second=0.98, pace_lowered_at=NOW, throttle_status=429)
    assert labels.pace(health, NOW) == "We send about 1.0/s, because they answer 429."
    assert _next("pending", None, health).endswith("because they answer 429.")
    health.pace_per_second = 0.2
    assert labels.pace(health, NOW) == "We send about 12 a minute, because they answer 429."
    assert labels.pace(health, NOW + timedelta(days=2)) == labels.pace(EndpointHealth(), NOW) == ""


def test_what_waits_for_a_rate_sends_nobody_to_the_workers():
    long_ago = NOW - timedelta(minutes=40)
    learned = EndpointHealth(pace_per_second=0.2, pace_lowered_at=NOW)
    for words in (
        _next("pending", None, learned, next_attempt_at=long_ago),
        _next("pending", Endpoint(rate_per_minute=5), next_attempt_at=long_ago),
    ):
        assert "as soon as the endpoint's rate lets it" in words
        assert "doctor" not in words


def test_what_is_to_be_pressed_has_a_button():
    asked = EndpointHealth(throttled_until=NOW + timedelta(hours=1), wait_reason="throttled")
    assert "Lift the throttle" in _next("failed", None, asked)
    assert "Resume closes it" in _next("failed", None, EndpointHealth(breaker_state="open"))


def test_a_dead_letter_says_how_to_heal_it():
    assert "signature or credentials" in _next("dead_letter", last_outcome="rejected", last_status_code=401)


@pytest.mark.parametrize(("ms", "text"), [(0.42, "0.4 ms"), (12.6, "13 ms"), (1250, "1.25 s"), (180_000, "3 min")])
def test_milliseconds(ms, text):
    assert labels.milliseconds(ms) == text


def test_a_response_is_shown_safely():
    assert labels.shown_safely(b"<script>\r\nno</script>") == "<script>\nno</script>"
    assert labels.shown_safely(b"a\x1b[31mred") == "a␦[31mred"
    assert labels.shown_safely("nö".encode()[:-1]) == "n"  # cut in mid-character
    assert labels.shown_safely(b"\x89PNG\r\n\x1a\n" + b"\x00" * 20).startswith("0000  89 50 4e 47")
    assert labels.shown_safely(b"x" * 5000).endswith("1,000 more characters")
    assert labels.shown_safely("Größe: 3 €".encode("cp1252")) == "Größe: 3 €"


@pytest.mark.parametrize(
    ("head", "text", "encoding"),
    [
        ("Łódź".encode(), "Łódź", "utf-8"),
        ("Łódź".encode()[:-1], "Łód", "utf-8"),
        ("a 🙂".encode()[:-2], "a ", "utf-8"),
        ("schön und groß".encode("latin-1"), "schön und groß", "windows-1252"),
        (b"", "", "utf-8"),
        (b"\xff\x00bin", None, "base64"),
        (b"\x1f\x8b\x08" + bytes(range(100, 200)), None, "base64"),
        (bytes(range(128, 256)), None, "base64"),
    ],
)
def test_an_answer_is_text_wherever_it_can_be(head, text, encoding):
    assert labels.text_of(head) == (text, encoding)


@pytest.mark.parametrize("how", ["waits", "breaker"])
def test_a_fault_of_ours_is_not_told_as_the_receivers(how):
    later = NOW + timedelta(minutes=5)
    endpoint = Endpoint(host="h")
    health = EndpointHealth(endpoint=endpoint, own_fault_kind="egress_proxy", own_fault_count=3, throttled_until=later)
    if how == "breaker":
        health.throttled_until, health.breaker_state, health.probe_at = None, "open", later
    words = labels.why_held(endpoint, health, NOW)
    assert words.startswith("Our egress proxy refuses or cannot be reached: a fault on our side.")
    assert f"{later:%H:%M:%S}" in words
