"""Call an internal kind's function and say in one word how it ended. Never raises, and writes nothing.

Whatever a run returns or raises becomes an `Ended`: plain values, so that it can leave the process it was made in.
"""

import json
from dataclasses import astuple, dataclass
from datetime import datetime
from typing import Any

import structlog

from kernel import correlation
from tasks import kinds
from tasks.errors import RunFailed
from tasks.kinds.running import Cancel, Fail, Outcome, Retry, Run, Snooze
from tasks.models import Task
from tasks.providers import results
from tasks.providers.base import BadAnswer

MAX_RESULT_BYTES = 32 * 1024 * 1024  # as of a provider's result
FLAT = 40  # so few brackets cannot be nested too deeply

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Ended:
    """How a run ended. `word`: result, failed, snooze or cancel. `result` is JSON as text."""

    word: str
    result: str = ""
    code: str = ""
    text: str = ""
    permanent: bool = False
    seconds: float | None = None
    until: datetime | None = None

    def said(self) -> tuple[Any, ...]:
        """To be said over a pipe: `Ended(*said)`."""
        return astuple(self)

    def value(self) -> Any:
        """The result itself."""
        return json.loads(self.result)


def failed(code: str, text: str, *, permanent: bool = False) -> Ended:
    return Ended("failed", code=code[:60], text=text[:2000], permanent=permanent)


def out_of_memory(limit_mb: int) -> Ended:
    words = (
        f"The run wanted more memory than its kind's policy allows ({limit_mb:,} MB). Raise it there, or read in parts."
    )
    return failed("out_of_memory", words)


def perform(task: Task, run: Run | None = None, *, memory_mb: int = 0) -> Ended:
    """Run it and say what came of it."""
    kind = kinds.find(task.kind)
    if kind is None or kind.run is None:
        return failed(
            "kind_gone", f"No installed app runs {task.kind!r} here. Install it again, then redrive.", permanent=True
        )
    with correlation.bind(task.correlation_id):
        try:
            value = kind.run(task, run or Run()) if kind.wants_run else kind.run(task)
            problem = "" if isinstance(value, Outcome | RunFailed) else str(kind.broken(task.input, value) or "")
        except (Outcome, RunFailed) as outcome:
            value, problem = outcome, ""
        except MemoryError:
            return out_of_memory(memory_mb)
        except Exception as error:
            log.exception("run_broke", task=task.pk, kind=task.kind)
            return failed("run_broke", f"The run broke ({type(error).__name__}); see the log.")
    if problem:
        return failed("result_rejected", problem, permanent=not kind.starts_again_when_rejected)
    return _of_outcome(value) if isinstance(value, Outcome | RunFailed) else _of_result(value, memory_mb)


def _of_outcome(outcome: Outcome | RunFailed) -> Ended:
    match outcome:
        case Retry():
            return Ended("failed", code="retry_asked", text=outcome.reason[:2000], seconds=outcome.after)
        case Snooze():
            words = outcome.reason[:2000]
            return Ended("snooze", code="snoozed", text=words, seconds=outcome.seconds, until=outcome.until)
        case Cancel():
            return Ended("cancel", code="cancelled_by_run", text=outcome.reason[:2000])
        case Fail() | RunFailed():
            return failed(outcome.code, outcome.detail, permanent=outcome.permanent)
    return failed(
        "run_broke", f"The run ended with {type(outcome).__name__}, which says nothing. Use one of its kinds."
    )


def _of_result(value: Any, memory_mb: int) -> Ended:
    """JSON that can be stored: what is odd is mended or refused as a provider's result is."""
    try:
        text = json.dumps(value, allow_nan=False)
        if "\\u0000" in text or "\\ud" in text or text.count("[") + text.count("{") > FLAT:
            text = json.dumps(results.of(value).value)
    except MemoryError:
        return out_of_memory(memory_mb)
    except (TypeError, ValueError, RecursionError) as error:
        words = f"The run returned what is no JSON ({type(error).__name__}). Return dicts, lists, texts and numbers."
        return failed("result_unusable", words, permanent=True)
    except BadAnswer as error:
        return failed("result_unusable", error.detail, permanent=True)
    if len(text) > MAX_RESULT_BYTES:
        words = (
            f"The result has {len(text):,} bytes; at most {MAX_RESULT_BYTES:,} are kept. Return where it lies instead."
        )
        return failed("result_too_large", words, permanent=True)
    return Ended("result", result=text)
