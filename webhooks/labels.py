"""What an operator reads of the inbox: verdicts, outcomes and reasons in plain English, and what to do. Pages only."""

from codecs import BOM_UTF8
from datetime import datetime
from typing import Any

from kernel import exact_numbers
from tasks import kinds, providers
from tasks.states import Reason
from webhooks.models import InboundEvent, InboundOutcome, InboundVerdict, Refusal

VERDICT_COLOURS = {"verified": "success", "signature refused": "danger", "not parseable": "warning"}
OUTCOME_COLOURS = {
    "applied": "success",
    "accepted": "primary",
    "ignored": "default",
    "not judged yet": "warning",
    "turned away": "danger",
}
REASONS = {**dict(Reason.choices), **dict(Refusal.choices)}
BODY_SHOWN = 64 * 1024


def moment(at: datetime | None) -> str:
    return f"{at:%Y-%m-%d %H:%M:%S} UTC" if at else ""


def outcome(event: InboundEvent) -> str:
    if event.verdict != InboundVerdict.VERIFIED:
        return "turned away"
    return event.outcome or "not judged yet"


def reason(word: str) -> str:
    """e.g. "the task is finished (already_completed)": words for people, the word for searching."""
    return f"{REASONS[word]} ({word})" if word in REASONS else word.replace("_", " ")


def why(event: InboundEvent) -> str:
    return reason(event.verdict_reason or event.reason) or "—"


def next_step(event: InboundEvent) -> str:
    """What happens by itself, or what a person has to do."""
    if event.verdict == InboundVerdict.REFUSED:
        return _REFUSED.get(event.verdict_reason, "Nothing changed. If it was genuine, compare the signing secrets.")
    if event.verdict_reason in (Refusal.BAD_ENCODING, Refusal.TOO_LARGE):
        return (
            "Nothing changed: nobody knows who sent it. If it was genuine, the provider must pack its body otherwise."
        )
    if event.verdict == InboundVerdict.UNPARSEABLE:
        return "Nothing changed; the provider was told 400. Mend the provider's adapter, then replay it."
    if not event.outcome:
        return "It is stored, and is judged within seconds by the sweep."
    if event.parked_until:
        return f"Nothing to do: it is matched again every few seconds, until {moment(event.parked_until)}."
    return _DONE.get(event.reason, "Nothing: what it said was taken in.")


_REFUSED: dict[str, str] = {
    Refusal.TIMESTAMP: "Nothing changed. If it was genuine, one of the two clocks is wrong, or it waited too long.",
    Refusal.SIGNATURE_MISSING: "Nothing changed. If it was genuine, signing is not switched on at the provider.",
    Refusal.NO_SECRET: "Set the provider's signing secret in the environment and restart; it is sent again.",
    Refusal.SECRET_UNUSABLE: "Correct the signing secret (`manage.py doctor` says what ails it); it is sent again.",
    Refusal.SECRETS_UNAVAILABLE: "Nothing, if it passes: the provider was told to send it again. Else see the log.",
}
_DONE: dict[str, str] = {
    Reason.TASK_NOT_FOUND: "Nothing, if the job was started by somebody else. Otherwise look for its orphaned start.",
    Reason.UNREADABLE_ENTRY: "The other entries were taken. Ask the provider, or mend its adapter; then replay it.",
    Reason.UNKNOWN_STATUS: "The provider said a status that its adapter does not know. Add it there, then replay.",
    Reason.UNKNOWN_EVENT: "Nothing, unless the event matters: then teach the provider's adapter, and replay it.",
    Reason.INVALID_TRANSITION: "Nothing: it came late or out of order, and a task never goes back.",
    Reason.ALREADY_COMPLETED: "Nothing: the task is finished.",
    Reason.DUPLICATE_COMPLETED: "Nothing: it was completed before.",
    Reason.SUPERSEDED_JOB: "Nothing: a newer attempt's job carries the task out.",
    Refusal.APPLY_FAILED: "A fault of ours: look for inbound_updates_failed in the log, mend it, then replay.",
    Refusal.UNKNOWN_SOURCE: "Its provider is not configured any more. Configure it again, then replay it.",
}


def budget(row: dict[str, Any]) -> dict[str, Any]:
    """One source's refused calls of today, in a sentence."""
    words = f"{row['refused']:,} refused today, {row['stored']:,} of them stored"
    share = f" ({row['bytes'] / 2**20:,.1f} of {row['budget'] / 2**20:,.1f} MiB)"
    more = ". The day's budget is used up: further ones are only counted" if row["is_used_up"] else ""
    return {"source": row["source"], "words": f"{words}{share}{more}.", "is_used_up": row["is_used_up"]}


def replayed(event: InboundEvent, results: list[dict[str, Any]]) -> str:
    """What a replay did, in a sentence."""
    if event.verdict == InboundVerdict.UNPARSEABLE:
        return "It still cannot be read. Nothing was changed."
    done = [row for row in results if row["status"] != InboundOutcome.IGNORED]
    if not done:
        reasons = sorted({row.get("reason", "") for row in results}) or [event.reason]
        return f"Nothing was changed: {', '.join(reason(word) for word in reasons if word) or 'it has no jobs'}."
    return f"{len(done):,} of {len(results):,} jobs had news for us, and were taken in."


def body(raw: bytes) -> str:
    """A body for reading: indented JSON, else text, else hex; cut where it is long. Always escaped by the template."""
    head, cut = raw[:BODY_SHOWN].removeprefix(BOM_UTF8), "\n… cut here." if len(raw) > BODY_SHOWN else ""
    try:
        text = head.decode("utf-8")
    except UnicodeDecodeError as error:
        if not cut or error.start < len(head) - 4:
            return f"Not text. In hexadecimal:\n{head[:4096].hex(' ', 2)}{cut}"
        text = head[: error.start].decode("utf-8")
    if not cut:
        text = _indented(text)
    return "".join(letter if letter.isprintable() or letter in "\n\t" else "\ufffd" for letter in text) + cut


def _indented(text: str) -> str:
    try:
        return exact_numbers.dumps(exact_numbers.loads(text), ensure_ascii=False, indent=2)
    except (ValueError, RecursionError):
        return text


def known_sources() -> list[str]:
    """The canonical names of every address that can take calls in at present."""
    names = list(providers.available())
    return [*names, *(f"{kind}/{name}" for kind in kinds.EXTERNAL for name in names)]
