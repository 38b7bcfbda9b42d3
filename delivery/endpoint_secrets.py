"""The secrets that sign for an endpoint: the standing one without end, earlier ones until the time promised for each.

Pure: `now` comes in, and it is the database's, as the claim's is; a web host with another clock must not shorten a
promise, nor stretch one. A secret leaves this module only to sign; everybody else is told its id (the one that
attempts note as `key_ids`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from delivery.endpoint_rules import InvalidEndpoint
from delivery.errors import WrongState
from delivery.models import Endpoint
from delivery.policy import signing
from kernel.secrets import UndecryptableSecret

MOST = 5  # live at once, the standing one among them: each is one more signature on every request


@dataclass(frozen=True, slots=True)
class Earlier:
    """A secret that was replaced and still signs."""

    secret: str = field(repr=False)
    ends_at: datetime
    created_at: datetime | None = None

    @property
    def id(self) -> str:
        return id_of(self.secret)

    def stored(self) -> dict[str, Any]:
        created = self.created_at.isoformat() if self.created_at else None
        return {"secret": self.secret, "created_at": created, "ends_at": self.ends_at.isoformat()}


def id_of(secret: str) -> str:
    """The public name of a secret: 8 hex digits; "" where it is no usable key."""
    try:
        return signing.load_key(secret).key_id if secret else ""
    except signing.SecretInvalid:
        return ""


def earlier(endpoint: Endpoint) -> list[Earlier]:
    """All that are stored, ended or not, newest first. Raises UndecryptableSecret."""
    rows: Any = endpoint.earlier_secrets or []
    return [Earlier(row["secret"], _moment(row["ends_at"]), _moment_or_none(row.get("created_at"))) for row in rows]


def live_earlier(endpoint: Endpoint, now: datetime) -> list[Earlier]:
    """Those whose time has not come. An unreadable list counts as none: nothing of it can sign."""
    try:
        return [one for one in earlier(endpoint) if one.ends_at > now]
    except UndecryptableSecret:
        return []


def shown(endpoint: Endpoint, now: datetime) -> list[dict[str, Any]]:
    """Who signs, for people: id, scheme, since when and until when (None: without end); never a secret."""
    rows = [
        {"id": one.id, "scheme": _scheme(one.secret), "created_at": one.created_at, "ends_at": one.ends_at}
        for one in live_earlier(endpoint, now)
    ]
    if standing := _standing(endpoint):
        first = {"id": id_of(standing), "scheme": _scheme(standing), "created_at": endpoint.secret_changed_at}
        rows.insert(0, {**first, "ends_at": None})
    return rows


def rotated(endpoint: Endpoint, fresh: str, overlap: timedelta, now: datetime) -> list[dict[str, Any]] | None:
    """What `earlier_secrets` holds once `fresh` stands. Every promise is kept, and `overlap` is one more.

    Raises WrongState where too many would sign, InvalidEndpoint where `fresh` stands already.
    """
    standing = _standing(endpoint)
    if fresh == standing:
        raise InvalidEndpoint(
            [{"field": "secret", "code": "not_new", "detail": "This secret stands already. Bring another, or none."}]
        )
    kept = [one for one in live_earlier(endpoint, now) if one.secret != fresh]
    if standing and overlap:
        kept.insert(0, Earlier(standing, now + overlap, endpoint.secret_changed_at))
    if len(kept) >= MOST:
        first = min(one.ends_at for one in kept)
        raise WrongState(
            f"{MOST} secrets sign for this endpoint already, and each was promised its time. End one of them, or "
            f"rotate again when the next one ends ({first:%Y-%m-%d %H:%M} UTC).",
            code="too_many_secrets",
        )
    return _stored(kept)


def without(endpoint: Endpoint, key_id: str, now: datetime) -> list[dict[str, Any]] | None:
    """What `earlier_secrets` holds once this one has ended. Raises WrongState for the standing one, InvalidEndpoint."""
    if key_id and key_id == id_of(_standing(endpoint)):
        raise WrongState(
            "This is the standing secret; without it nothing could be sent. Rotate it with no overlap: then it ends at "
            "once, and the new one signs.",
            code="last_secret",
        )
    live = live_earlier(endpoint, now)
    if key_id not in [one.id for one in live]:
        detail = "No secret of this id signs for the endpoint: it has ended, or never was one."
        raise InvalidEndpoint([{"field": "id", "code": "unknown_secret", "detail": detail}])
    return _stored([one for one in live if one.id != key_id])


def _standing(endpoint: Endpoint) -> str:
    """An unreadable one cannot sign, so it neither stands nor is kept."""
    try:
        return endpoint.secret
    except UndecryptableSecret:
        return ""


def _stored(kept: list[Earlier]) -> list[dict[str, Any]] | None:
    return [one.stored() for one in kept] or None


def _scheme(secret: str) -> str:
    return "v1" if secret.startswith(signing.HMAC_PREFIX) else "v1a"


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text)


def _moment_or_none(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None
