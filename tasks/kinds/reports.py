"""The internal kind `batch_report`: what came out of a batch, summed up. Reads, and changes nothing."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from tasks.errors import RunFailed
from tasks.kinds.rows import with_bodies
from tasks.models import Batch, Task
from tasks.states import State


def batch_report(task: Task) -> dict[str, Any]:
    """Counts by state, country and error, figures over the results, and the best rows. Raises RunFailed."""
    batch = Batch.objects.filter(pk=int(task.input["batch"])).first()
    if batch is None or (task.subscriber and batch.subscriber != task.subscriber):
        raise RunFailed("batch_not_found", f"There is no batch {task.input['batch']} for you.", permanent=True)
    summary = _Summary(int(task.input.get("top", 10)))
    for row in with_bodies(batch.tasks.all(), "position", "state", "reference", "error_code"):
        summary.add(row)
    return {"batch": str(batch.pk), "kind": batch.kind, "total": batch.total, **summary.shown()}


class _Summary:
    def __init__(self, top: int) -> None:
        self._top = top
        self.counts: Counter[str] = Counter()
        self.errors: Counter[str] = Counter()
        self.countries: Counter[str] = Counter()
        self.places = 0
        self.empty = 0
        self.scores: list[tuple[float, int, dict[str, Any]]] = []
        self.passed = 0

    def add(self, task: Task) -> None:
        self.counts[task.state] += 1
        if task.error_code and task.state != State.SUCCEEDED:
            self.errors[task.error_code] += 1
        self.countries[_country(task)] += 1
        result = task.result if isinstance(task.result, Mapping) else {}
        if isinstance(result.get("places"), list):
            self.places += len(result["places"])
            self.empty += not result["places"]
        score = result.get("score")
        if isinstance(score, int | float) and not isinstance(score, bool):
            row = {"task": str(task.pk), "reference": task.reference, "name": _name(task), "score": score}
            self.scores.append((-score, task.position, row))
            self.passed += bool(result.get("passed"))

    def shown(self) -> dict[str, Any]:
        shown: dict[str, Any] = {
            "counts": dict(self.counts),
            "errors": dict(self.errors.most_common()),
            "countries": dict(self.countries.most_common()),
        }
        if self.places or self.empty:
            shown["places"] = {"found": self.places, "searches_without": self.empty}
        if self.scores:
            values = [-score for score, _, _ in self.scores]
            mean = round(sum(values) / len(values), 2)
            shown["scores"] = {"mean": mean, "lowest": min(values), "highest": max(values), "passed": self.passed}
            shown["top"] = [row for _, _, row in sorted(self.scores, key=lambda row: row[:2])[: self._top]]
        return shown


def _country(task: Task) -> str:
    """The result's country where it names one, else the input's; `unknown` where neither does."""
    place = task.result.get("place") if isinstance(task.result, Mapping) else None
    business = task.input.get("business") or {}
    found = place.get("country") if isinstance(place, Mapping) else None
    return str(found or task.input.get("country") or business.get("country") or "unknown").upper()


def _name(task: Task) -> str:
    business = task.input.get("business") or {}
    return str(business.get("name") or task.input.get("place") or "")
