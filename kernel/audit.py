"""The audit trail: who did what to which rows, when and why. Append-only; call it in the transaction of the change.

Every floor's verbs call it, so it stands on the ground floor; a bulk verb leaves one line for each chunk of rows.

It must never hold a payload, a URL or a secret: only ids, words and counts.
"""

from collections.abc import Iterable
from typing import Any

from kernel.models import AuditEntry

IDS_KEPT = 1_000


def record(
    actor: str,
    verb: str,
    subject: str,
    ids: Iterable[int],
    reason: str = "",
    *,
    count: int | None = None,
    detail: dict[str, Any] | None = None,
    user: Any = None,
) -> AuditEntry:
    """One line of the trail. `count` where more rows were meant than `ids` names."""
    ids = list(ids)
    return AuditEntry.objects.create(
        actor=actor[:100],
        verb=verb[:60],
        subject=subject[:60],
        object_ids=ids[:IDS_KEPT],
        count=len(ids) if count is None else count,
        reason=reason[:300],
        detail=detail or {},
        user=user if getattr(user, "pk", None) else None,
    )
