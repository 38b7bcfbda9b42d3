"""Figures as they are printed: percentiles, ratios, tables. Pure, apart from printing."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Sequence

from bench import print_table

SHARES = {"p50": 0.50, "p95": 0.95, "p99": 0.99}


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least this share of them does not exceed (nearest rank). NaN for none."""
    if not values:
        return math.nan
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def percentiles(values: Sequence[float]) -> dict[str, float]:
    """p50, p95 and p99."""
    return {name: percentile(values, share) for name, share in SHARES.items()}


def spread(values: Sequence[float]) -> tuple[str, ...]:
    """Count, p50, p95, p99 and the most, for a line of a table."""
    return (shown(len(values)), *(shown(value, 1) for value in percentiles(values).values()), shown(max(values), 1))


def ratio(ours: float, theirs: float, digits: int = 2) -> float | None:
    """How many times theirs ours is; None where there is nothing to compare with."""
    return round(ours / theirs, digits) if theirs and not math.isnan(theirs) else None


def shown(value: float | None, digits: int = 0) -> str:
    """A figure for a table: thousands grouped, "-" for none."""
    if value is None or math.isnan(value):
        return "-"
    return f"{value:,.{digits}f}"


def table(title: str, headers: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """A titled table with air around it."""
    print(f"\n{title}\n", flush=True)
    print_table(headers, rows)
    print(flush=True)


def progress(text: str) -> None:
    """What is going on, for whoever waits; on stderr, so that a script reads figures only."""
    print(f"{time.strftime('%H:%M:%S')}  {text}", file=sys.stderr, flush=True)


def verdicts(targets: Sequence[tuple[str, float | None, str, float]]) -> None:
    """One line for each target: (name, figure, "<=" or ">=", target), and whether it was met."""
    rows = [
        (name, shown(value, 2), f"{sign} {target:g}", _word(value, sign, target))
        for name, value, sign, target in targets
    ]
    table("Targets", ("figure", "seen", "target", "met"), rows)


def _word(value: float | None, sign: str, target: float) -> str:
    if value is None or math.isnan(value):
        return "not measured"
    return "yes" if (value <= target if sign == "<=" else value >= target) else "NO"
