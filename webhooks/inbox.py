"""The inbox: verify, store raw, judge, answer; match parked events again, replay. SQL: one counter.

A genuine call is on disk before its body is parsed, and is answered 2xx only from there. The signature is judged once,
at receipt; sweep and replay go by the stored verdict, since an old timestamp would fail the tolerance.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any

import structlog
from django.conf import settings
from django.db import IntegrityError, InterfaceError, OperationalError, connection, transaction
from django.db.models import F, Q

from kernel import clock, correlation
from tasks.states import Reason
from webhooks import sources
from webhooks.bodies import BodyRefused, inflate
from webhooks.errors import CannotReplay
from webhooks.judging import NotParseable, Result, judge
from webhooks.models import InboundEvent, InboundOutcome, InboundVerdict, Refusal, RefusedCall
from webhooks.schemes import EVENT_ID_HEADERS, SignedCall, Verification, verify
from webhooks.sources import Source

STORED_REFUSALS_PER_HOUR = 100  # for each source and reason; beyond, calls are only counted
REFUSED_BODY_BYTES = 64 * 1024
KEPT_HEADERS = ("content-type", "content-encoding", "user-agent", correlation.HEADER, *EVENT_ID_HEADERS)
SWEEP_LIMIT = 200
UNTRUSTED = "Its signature was refused, so its content cannot be trusted. Ask the provider to send anew."
GRACE = timedelta(seconds=10)  # an event this young is still being judged by the call that brought it
log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class Reply:
    """What the provider is told."""

    status_code: int
    body: dict[str, Any]
    headers: dict[str, str] = field(default_factory=dict)


def receive(
    source: Source,
    raw: bytes,
    headers: Mapping[str, str],
    remote_addr: str | None,
    *,
    token: str = "",
    now: datetime | None = None,
) -> Reply:
    """Take one call in. Header names are lower case; `token` is the URL's. OperationalError without a database."""
    now = now or clock.now()
    try:
        content = inflate(raw, headers.get("content-encoding", ""), settings.INBOUND_MAX_BYTES)
    except BodyRefused as refused:
        return _refuse(source, raw, headers, remote_addr, InboundVerdict.UNPARSEABLE, refused.reason, now)
    verification = _verify(source, raw, content, headers, token, now)
    if not verification.is_genuine:
        reason = Refusal(verification.reason)
        return _refuse(source, raw, headers, remote_addr, InboundVerdict.REFUSED, reason, now)
    event, is_new = _store(source, raw, headers, remote_addr, verification)
    if not is_new:
        InboundEvent.objects.filter(pk=event.pk).update(duplicate_count=F("duplicate_count") + 1)
        if event.outcome:
            return _duplicate(event)
    return _judged(source, event, content, now)


def _verify(
    source: Source, raw: bytes, content: bytes, headers: Mapping[str, str], token: str, now: datetime
) -> Verification:
    """Signed are the bytes as sent; some senders sign first and compress then."""
    scheme, secrets = source.provider.scheme, source.provider.secrets()
    verification = verify(scheme, SignedCall(raw, headers, token), secrets, now)
    if verification.is_genuine or content is raw:
        return verification
    return verify(scheme, SignedCall(content, headers, token), secrets, now)


def _store(
    source: Source, raw: bytes, headers: Mapping[str, str], remote_addr: str | None, verification: Verification
) -> tuple[InboundEvent, bool]:
    """The event's row, new or the one that came before; unique by its dedupe key among verified rows."""
    return InboundEvent.objects.defer("body").get_or_create(
        source=source.name,
        dedupe_key=dedupe_key(verification, raw),
        verdict=InboundVerdict.VERIFIED,
        defaults=_row(source, raw, headers, remote_addr),
    )


def dedupe_key(verification: Verification, raw: bytes) -> str:
    """The sender's own event id where the scheme has one, else the body itself."""
    if verification.event_id:
        return f"id:{verification.event_id}"[:200]
    return f"sha256:{sha256(raw).hexdigest()}"


def _row(source: Source, raw: bytes, headers: Mapping[str, str], remote_addr: str | None) -> dict[str, Any]:
    return {
        "provider": source.provider.name,
        "body": raw,
        "body_bytes": len(raw),
        "headers": _kept(headers, getattr(source.provider, "kept_headers", ())),
        "remote_addr": remote_addr,
        "correlation_id": correlation.current(),
    }


def _kept(headers: Mapping[str, str], more: tuple[str, ...]) -> dict[str, str]:
    """The headers that judging needs, as text that a database takes."""
    names = (*KEPT_HEADERS, *more)
    found = {name: "".join(filter(str.isprintable, headers[name]))[:500] for name in names if name in headers}
    return {name: value.encode("utf-8", "replace").decode() for name, value in found.items()}


def _judged(source: Source, event: InboundEvent, content: bytes, now: datetime) -> Reply:
    try:
        results = judge(event, source.provider, content, now)
    except NotParseable:
        return _not_parseable(source, event, now)
    return _answer(event.outcome, event.reason, results)


def _answer(status: str, reason: str, results: list[Result]) -> Reply:
    shown = [{key: value for key, value in result.items() if key != "task_id"} for result in results]
    return Reply(200, {"status": status, **({"reason": reason} if reason else {}), "results": shown})


def _duplicate(event: InboundEvent) -> Reply:
    log.info("inbound_event_duplicate", inbound_event=event.pk, source=event.source)
    repeated = {"status": InboundOutcome.IGNORED.value, "reason": Reason.DUPLICATE_EVENT.value}
    return _answer(**repeated, results=[{**result, **repeated} for result in event.results])


def _not_parseable(source: Source, event: InboundEvent, now: datetime) -> Reply:
    """Genuine, but not this source's payload: kept (within bounds) for whoever mends the adapter, answered 400."""
    reason = Refusal.NOT_PARSEABLE
    if count_refusal(source.name, reason, now) > STORED_REFUSALS_PER_HOUR:
        InboundEvent.objects.filter(pk=event.pk).delete()
    else:
        InboundEvent.objects.filter(pk=event.pk).update(
            verdict=InboundVerdict.UNPARSEABLE, verdict_reason=reason, judged_at=now
        )
    return refusal(400, reason)


def _refuse(
    source: Source,
    raw: bytes,
    headers: Mapping[str, str],
    remote_addr: str | None,
    verdict: InboundVerdict,
    reason: Refusal,
    now: datetime,
) -> Reply:
    """Turn a call away: counted, and stored with its reason as long as it is no flood."""
    log.warning("inbound_call_refused", source=source.name, reason=reason.value)
    if count_refusal(source.name, reason, now) <= STORED_REFUSALS_PER_HOUR:
        InboundEvent.objects.create(
            source=source.name,
            dedupe_key=dedupe_key(Verification(), raw),
            verdict=verdict,
            verdict_reason=reason,
            judged_at=now,
            **{**_row(source, raw, headers, remote_addr), "body": raw[:REFUSED_BODY_BYTES]},
        )
    if reason == Refusal.TOO_LARGE:
        return refusal(413, reason)
    return refusal(401 if verdict == InboundVerdict.REFUSED else 400, reason)


def refusal(status_code: int, reason: Refusal) -> Reply:
    return Reply(status_code, {"status": "refused", "reason": reason.value, "detail": reason.label})


def count_refusal(source: str, reason: Refusal, now: datetime) -> int:
    """One more refused call of this source and reason in this hour; returns how many that makes."""
    hour = now.replace(minute=0, second=0, microsecond=0)
    with connection.cursor() as cursor:
        cursor.execute(
            f"INSERT INTO {RefusedCall._meta.db_table} AS refused (source, reason, hour, count)"  # noqa: S608
            " VALUES (%s, %s, %s, 1) ON CONFLICT (source, reason, hour) DO UPDATE SET count = refused.count + 1"
            " RETURNING count",
            [source, reason.value, hour],
        )
        return cursor.fetchone()[0]


def sweep(now: datetime) -> int:
    """Judge what is stored without an outcome, and match parked events again; returns how many were looked at."""
    due = InboundEvent.objects.filter(verdict=InboundVerdict.VERIFIED).filter(
        Q(outcome="", received_at__lt=now - GRACE) | Q(parked_until__isnull=False)
    )
    swept = 0
    for event in due.order_by("id")[:SWEEP_LIMIT]:
        swept += 1
        try:
            _judge_stored(event, now)
        except (InterfaceError, OperationalError) as error:
            log.warning("inbound_sweep_interrupted", inbound_event=event.pk, error=type(error).__name__)
            if connection.connection is None or connection.connection.closed:
                break
    return swept


def _judge_stored(event: InboundEvent, now: datetime, *, again: bool = False) -> list[Result]:
    source = sources.by_name(event.source)
    if source is None:
        _settle_orphan(event, now)
        return []
    try:
        content = inflate(bytes(event.body), event.headers.get("content-encoding", ""), settings.INBOUND_MAX_BYTES)
        return judge(event, source.provider, content, now, again=again)
    except (NotParseable, BodyRefused):
        _not_parseable(source, event, now)
        event.refresh_from_db(fields=["verdict", "verdict_reason"])
        return []


def _settle_orphan(event: InboundEvent, now: datetime) -> None:
    """Its provider has left the configuration: nothing can read it any more."""
    InboundEvent.objects.filter(pk=event.pk).update(
        outcome=InboundOutcome.IGNORED, reason=Refusal.UNKNOWN_SOURCE, parked_until=None, judged_at=now
    )


def replay(event_id: int, *, actor: str, reason: str, now: datetime | None = None) -> tuple[InboundEvent, list[Result]]:
    """Judge a stored event once more, by its stored verdict; `CannotReplay` for one whose signature was refused.

    An outcome never gets worse by it: what the event has done stays on its row. Returns the row and this run's results.
    """
    now = now or clock.now()
    event = InboundEvent.objects.get(pk=event_id)
    if event.verdict == InboundVerdict.REFUSED:
        raise CannotReplay(UNTRUSTED)
    if event.body_bytes > len(event.body):
        raise CannotReplay("Only the head of its body was kept, since it was refused at receipt.")
    if event.verdict == InboundVerdict.UNPARSEABLE:
        _trust_again(event)
    with correlation.bind(event.correlation_id):
        log.info("inbound_event_replayed", inbound_event=event.pk, actor=actor, reason=reason)
        results = _judge_stored(event, now, again=True)
    return event, results


def _trust_again(event: InboundEvent) -> None:
    """An unparseable event was genuine; the adapter may read it today."""
    if event.verdict_reason != Refusal.NOT_PARSEABLE:
        raise CannotReplay("Its body could not be read at receipt, so its signature was never judged.")
    try:
        with transaction.atomic():
            InboundEvent.objects.filter(pk=event.pk).update(verdict=InboundVerdict.VERIFIED, verdict_reason="")
    except IntegrityError:
        raise CannotReplay("The provider has sent it again since, and that copy was taken. Replay that one.") from None
    event.verdict, event.verdict_reason = InboundVerdict.VERIFIED, ""
