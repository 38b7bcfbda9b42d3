"""The parts of docs/receiving.md that stand in the code: answers, schedules, bounds, and the receivers themselves."""

from typing import Any

from django.conf import settings

from config.documents import answers
from config.documents.markdown import table
from config.limits import default
from delivery.endpoint_rotation import SECRET_OVERLAP
from delivery.endpoint_secrets import MOST
from delivery.engine.transport.messages import TransferConfig
from delivery.models import Endpoint
from delivery.policy.holds import REFUSALS_TO_HOLD
from delivery.policy.retry import STANDARD_JITTER, STANDARD_STEPS, gives_up_after, in_words, schedule_for
from delivery.policy.signing import TOLERANCE_SECONDS
from kernel.counting import size
from kernel.network.retry_after import MAX_RETRY_AFTER_SECONDS

EXAMPLES = settings.BASE_DIR / "examples" / "receiving"


def headers() -> str:
    return table(("header", "is"), ((f"`{name}`", words) for name, words in answers.SENT_HEADERS.items()))


def meanings() -> str:
    return table(("you answer", "we note", "and then"), answers.rows())


def schedules() -> str:
    attempts = _default("max_attempts")
    steps = ", ".join(_short(seconds) for seconds in STANDARD_STEPS)
    spec, standard = schedule_for("spec"), schedule_for("standard")
    least = (
        f"`spec` (the default): a random wait of up to {_short(spec.bounds(1)[1])}, then twice as much each time, "
        f"up to {_short(spec.bounds(50)[1])}",
        f"`standard`: {steps}, each ± {STANDARD_JITTER:.0%}, the last one again and again",
        "`custom`: the endpoint's own `retry_delays`, each ± " + f"{STANDARD_JITTER:.0%}",
    )
    ends = (
        f"{attempts} attempts unless the endpoint says otherwise (`max_attempts`): with `spec` a delivery gives up "
        f"{gives_up_after(spec, attempts)}; with `standard` and {len(STANDARD_STEPS) + 1} attempts, "
        f"{in_words(standard.window_seconds(len(STANDARD_STEPS) + 1))} after the first."
    )
    return "\n".join(f"- {one}." for one in least) + f"\n\n{ends}\n"


def bounds() -> str:
    transfer = TransferConfig()
    kept, read = size(transfer.head_bytes), size(transfer.read_bytes)
    largest = size(default("EVENT_MAX_BYTES"))
    seconds = _default("timeout_ms") / 1000
    overlap = int(SECRET_OVERLAP.total_seconds()) // 3600
    rows = (
        ("time for an answer", f"{seconds:g} s, from the name's lookup to your last byte", "timeout_ms"),
        ("requests to you at once", f"{_default('max_concurrency')}", "max_concurrency"),
        ("requests in a minute", "no limit; a pace is learned from answers of 429", "rate_per_minute"),
        ("how old a request may be", f"{TOLERANCE_SECONDS} s: that is yours to check", ""),
        (
            "of your answer's body",
            f"the first {kept} are kept; after {read} we hang up; the status counts",
            "",
        ),
        ("`Retry-After`", f"counts for {MAX_RETRY_AFTER_SECONDS // 3600} h at most", ""),
        ("refusals in a row until the endpoint is held", f"{REFUSALS_TO_HOLD}", ""),
        ("a body that we send you", f"{largest}; more where an earlier release had taken it", "EVENT_MAX_BYTES"),
        (
            "an earlier secret",
            f"signs {overlap} h longer after a rotation; {MOST} sign at once at most",
            "overlap_seconds",
        ),
    )
    named = ((bound, words, f"`{field}`" if field else "") for bound, words, field in rows)
    return table(("bound", "is", "set by"), named)


def example(name: str) -> str:
    language = "js" if name.endswith(".mjs") else "python"
    return f"```{language}\n{(EXAMPLES / name).read_text(encoding='utf-8')}```"


PARTS = {
    "headers": headers,
    "answers": meanings,
    "schedules": schedules,
    "bounds": bounds,
    "receiver.py": lambda: example("receiver.py"),
    "receiver_standardwebhooks.py": lambda: example("receiver_standardwebhooks.py"),
    "receiver.mjs": lambda: example("receiver.mjs"),
}


def _default(name: str) -> Any:
    field: Any = Endpoint._meta.get_field(name)
    return field.get_default()


def _short(seconds: float) -> str:
    for length, unit in ((3600, "h"), (60, "min")):
        if seconds >= length:
            return f"{seconds / length:g} {unit}"
    return f"{seconds:g} s"
