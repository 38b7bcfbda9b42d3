"""Counts over journal rows, by path and by event type. Reads only."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

PATH, WEBHOOK_ID, STATUS, SIGNATURE, TYPE = 2, 4, 5, 6, 7
Group = tuple[str, str, str, int]
"""path, type, signature, status"""


def summary_of(rows: Iterable[tuple[Any, ...]]) -> dict[str, Any]:
    """Grouped once, as finely as needed; everything else is added up from the few groups."""
    groups: defaultdict[Group, list[bytes]] = defaultdict(list)
    for row in rows:
        groups[row[PATH], row[TYPE], row[SIGNATURE], row[STATUS]].append(row[WEBHOOK_ID])
    return {
        **_counts(groups, list(groups)),
        "paths": {path: _counts(groups, keys) for path, keys in _by(groups, 0).items()},
        "types": {type_ or "(none)": _counts(groups, keys) for type_, keys in _by(groups, 1).items()},
    }


def _by(groups: Iterable[Group], part: int) -> dict[Any, list[Group]]:
    found: defaultdict[Any, list[Group]] = defaultdict(list)
    for group in groups:
        found[group[part]].append(group)
    return found


def _counts(groups: dict[Group, list[bytes]], keys: list[Group]) -> dict[str, Any]:
    signatures: defaultdict[str, int] = defaultdict(int)
    statuses: defaultdict[str, int] = defaultdict(int)
    accepted: set[bytes] = set()
    others: set[bytes] = set()
    for key in keys:
        _, _, signature, status = key
        signatures[signature] += len(groups[key])
        statuses[str(status)] += len(groups[key])
        (accepted if 200 <= status < 300 else others).update(groups[key])
    accepted.discard(b"")
    others.discard(b"")
    return {
        "requests": sum(signatures.values()),
        "distinct_webhook_ids": len(accepted | others),
        "distinct_accepted_webhook_ids": len(accepted),
        "signatures": dict(signatures),
        "statuses": dict(statuses),
    }
