"""What an operator reads: states in plain English, and what to do next. Pure; used by pages, never by the engine."""

from __future__ import annotations

from datetime import datetime

from delivery.dead_letters import KEPT, what_to_do
from delivery.models import Attempt, Delivery, Endpoint, EndpointHealth
from delivery.policy import own_faults
from delivery.policy import pace as paces
from delivery.policy.outcomes import EXPLANATIONS, Outcome
from delivery.policy.pace import Pace
from delivery.states import AWAITS_TURN, WAITING_STATES, BreakerState, EndpointState, State, WaitReason

STATE_COLOURS = {
    "pending": "info",
    "in flight": "primary",
    "waiting to retry": "warning",
    "delivered": "success",
    "dead letter": "danger",
    "cancelled": "default",
}
ENDPOINT_COLOURS = {
    "active": "success",
    "paused": "info",
    "needs attention": "warning",
    "disabled": "danger",
    "deleted": "default",
}
BREAKER_COLOURS = {"closed": "success", "open": "danger", "half open": "warning"}
PHASES = {
    "queue_wait": "waited",
    "dns": "DNS",
    "connect": "connect",
    "tls": "TLS",
    "first_byte": "first byte",
    "total": "total",
}
OUTCOMES: dict[str, str] = {
    Outcome.DELIVERED: "delivered",
    Outcome.DUPLICATE: "had it already",
    Outcome.TIMEOUT: "timed out",
    Outcome.CONNECTION: "connection failed",
    Outcome.DNS: "name not found",
    Outcome.TLS: "TLS failed",
    Outcome.SERVER_ERROR: "server error",
    Outcome.THROTTLED: "asked to slow down",
    Outcome.GONE: "gone for good",
    Outcome.REJECTED: "rejected",
    Outcome.REDIRECT: "redirected",
    Outcome.REFUSED: "refused by its body",
    Outcome.BLOCKED: "blocked, not sent",
    Outcome.OWN_FAULT: "our own fault",
    Outcome.RESCUED: "rescued from a lost worker",
    "poison": "failed in its worker again and again",
    "held_too_long": "held for too long",
    "": "not tried yet",
}


def outcome(word: str, status_code: int | None = None) -> str:
    """e.g. "rejected (401)"."""
    text = OUTCOMES.get(word, word.replace("_", " "))
    return f"{text} ({status_code})" if status_code else text


def explanation(word: str) -> str:
    return EXPLANATIONS.get(word, OUTCOMES.get(word, ""))  # type: ignore[call-overload]


def endpoint_state(endpoint: Endpoint) -> str:
    return str(EndpointState(endpoint.state).label)


def why_held(endpoint: Endpoint, health: EndpointHealth, now: datetime) -> str:
    """Why nothing is sent to this endpoint at present, and what ends it; "" when it is sent to."""
    reason = f" ({endpoint.hold_reason.rstrip('.')})" if endpoint.hold_reason else ""
    by_state = {
        "deleted": "Its endpoint was deleted.",
        "disabled": f"Its endpoint is disabled{reason}. Correct the cause, then enable the endpoint.",
        "needs_attention": _attention(endpoint.hold_reason),
        "paused": f"Its endpoint is paused{reason}. Resume the endpoint to send.",
    }
    if endpoint.state in by_state:
        return by_state[endpoint.state]
    is_unusable = health.wait_reason == WaitReason.UNUSABLE
    if health.own_fault_count and not is_unusable and (words := _own_fault(health, now)):
        return words
    if health.breaker_state == BreakerState.OPEN:
        when = f" at {health.probe_at:%H:%M:%S} UTC" if health.probe_at and health.probe_at > now else " soon"
        return (
            f"The endpoint's breaker is open after repeated failures; one probe goes{when}. Nothing is lost meanwhile. "
            "If you know that the receiver is well again, Resume closes it."
        )
    if health.breaker_state == BreakerState.HALF_OPEN:
        return "The endpoint's breaker is half open: one probe is under way, and its answer decides."
    if health.throttled_until and health.throttled_until > now:
        until = moment(health.throttled_until)
        if is_unusable:
            return (
                "The endpoint's settings cannot be used: a secret that no key of ours opens, or values that make no "
                f"sense. We look again at {until}; correct and save the endpoint. The worker's log names the cause."
            )
        ends = "Lift the throttle, or Resume, ends the wait."
        return f"The receiver asked us to wait until {until}; then one delivery goes first. {ends}"
    return ""


def _own_fault(health: EndpointHealth, now: datetime) -> str:
    moments = [health.throttled_until, health.probe_at if health.breaker_state == BreakerState.OPEN else None]
    waits_until = max((moment for moment in moments if moment and moment > now), default=None)
    if waits_until is None:
        return ""
    title, advice = own_faults.WORDS[own_faults.kind_of(health.own_fault_kind)]
    return f"{title}: a fault on our side. {advice} Tried again at {waits_until:%H:%M:%S} UTC."


def pace(health: EndpointHealth, now: datetime) -> str:
    """How fast we send, where their answers have taught us; e.g. "We send about 1.0/s, because they answer 429."."""
    words = paces.in_words(Pace.of(health), now)
    return f"{words[0].upper()}{words[1:]}." if words else ""


def _attention(reason: str) -> str:
    """Policy's own reason names the remedy already."""
    if reason.endswith("press Resume."):
        return f"Its endpoint needs attention: {reason}"
    return (
        f"Its endpoint needs attention{f' ({reason})' if reason else ''}. Correct the cause, then resume the endpoint."
    )


def next_step(delivery: Delivery, endpoint: Endpoint, health: EndpointHealth, now: datetime) -> str:
    """One or two sentences: where this delivery stands, and what a person can do."""
    if delivery.state == State.DELIVERED:
        return "The receiver has it. Nothing to do; to send it once more, replay its event from the endpoint."
    if delivery.state == State.CANCELLED:
        return "It was given up on purpose. To send it after all, replay its event from the endpoint."
    if delivery.state == State.DEAD_LETTER and endpoint.deleted_at:
        return KEPT
    if delivery.state == State.DEAD_LETTER:
        held = why_held(endpoint, health, now)
        also = f" Redriven, it waits: {held[0].lower()}{held[1:]}" if held else ""
        return what_to_do(delivery.last_outcome, delivery.last_status_code, delivery.last_error) + also
    if delivery.state == State.IN_FLIGHT:
        return "It is being sent right now. If the worker dies, it is rescued when its lease ends."
    if held := why_held(endpoint, health, now):
        return held
    return f"{_waiting(delivery, now, is_slowed=_is_slowed(endpoint, health, now))} {pace(health, now)}".rstrip()


def _is_slowed(endpoint: Endpoint, health: EndpointHealth, now: datetime) -> bool:
    return endpoint.rate_per_minute is not None or bool(pace(health, now))


def _waiting(delivery: Delivery, now: datetime, *, is_slowed: bool) -> str:
    assert delivery.state in WAITING_STATES
    if delivery.next_attempt_at >= AWAITS_TURN:
        return "It waits its turn: an earlier delivery with the same ordering key is not finished. Look at that one."
    if delivery.next_attempt_at > now:
        return f"The next attempt is due at {delivery.next_attempt_at:%Y-%m-%d %H:%M:%S} UTC. Nothing to do."
    if is_slowed:
        return "It is due and goes as soon as the endpoint's rate lets it; what fell due earlier goes first."
    late = (now - delivery.next_attempt_at).total_seconds()
    if late > 60:
        return f"It has been due for {late / 60:.0f} minutes. Check the workers: manage.py doctor."
    return "It is due and will be sent as soon as a worker has a free slot."


def phases(attempt: Attempt) -> list[tuple[str, str]]:
    """The phases of an attempt that were measured, in order, as words."""
    measured = ((name, getattr(attempt, f"{phase}_ms")) for phase, name in PHASES.items())
    return [(name, milliseconds(value)) for name, value in measured if value is not None]


def moment(value: datetime | None) -> str:
    return f"{value:%Y-%m-%d %H:%M:%S} UTC" if value else "—"


def milliseconds(value: float) -> str:
    """Three figures at most: 0.4 ms, 12 ms, 1.25 s, 3 min."""
    if value < 10:
        return f"{value:.1f} ms"
    if value < 1_000:
        return f"{value:.0f} ms"
    if value < 120_000:
        return f"{value / 1_000:.2f} s"
    return f"{value / 60_000:.0f} min"


def shown_safely(head: bytes, limit: int = 4_000) -> str:
    """A response head as text; a hex dump where it is none. Control characters become visible stand-ins."""
    text, _ = text_of(head)
    if text is None:
        return _hex_dump(head[:512])
    visible = "".join(c if c in "\n\t" or c.isprintable() else "\u2426" for c in text.replace("\r\n", "\n"))
    return visible if len(visible) <= limit else f"{visible[:limit]}\n… {len(visible) - limit:,} more characters"


def text_of(head: bytes) -> tuple[str | None, str]:
    """A response head as text, and in which encoding: utf-8 or windows-1252 (what Latin-1 means on the web).

    (None, "base64") where it is no text. A character that was cut in two at the end is left out.
    """
    if b"\x00" in head:
        return None, "base64"
    try:
        return head.decode(), "utf-8"
    except UnicodeDecodeError as error:
        if error.reason == "unexpected end of data":
            return head[: error.start].decode(), "utf-8"
    plain = sum(32 <= byte < 127 or byte in b"\t\n\r" for byte in head)
    controls = sum(byte < 32 and byte not in b"\t\n\r" for byte in head)
    if controls or plain * 2 < len(head):
        return None, "base64"
    return head.decode("cp1252", "replace"), "windows-1252"


def _hex_dump(head: bytes) -> str:
    lines = [head[at : at + 16] for at in range(0, len(head), 16)]
    return "\n".join(f"{number * 16:04x}  {line.hex(' '):<47}" for number, line in enumerate(lines))
