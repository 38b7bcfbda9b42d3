"""The inbox: verify, store raw, judge, answer; match parked events again, replay.

A genuine call is on disk before its body is parsed, and is answered 2xx only from there. The signature is judged once,
at receipt; sweep and replay go by the stored verdict, since an old timestamp would fail the tolerance.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any

import structlog
from django.conf import settings
from django.db import IntegrityError, InterfaceError, OperationalError, connection, transaction
from django.db.models import F, Q

from kernel import audit, clock, correlation
from tasks.states import Reason
from webhooks import sources
from webhooks.bodies import BodyRefused, inflate
from webhooks.errors import CannotReplay
from webhooks.judging import PATIENCE, NotParseable, Result, judge
from webhooks.models import OUR_FAULTS, UNREAD, InboundEvent, InboundOutcome, InboundVerdict, Refusal
from webhooks.refusals import Call, Reply, refusal, refuse
from webhooks.refusals import count as count_refusal
from webhooks.schemes import SignedCall, Verification, verify
from webhooks.sources import Source

SWEEP_LIMIT = 200
KEY_LENGTH = 200  # of the column; an event id that does not fit stands in the keys as its hash
TWINS_COMPARED = 20
NAMED_ALIKE = 200  # most events of one id, or of one job, that a search finds
UNTRUSTED = "Its signature was refused, so its content cannot be trusted. Ask the provider to send anew."
GRACE = timedelta(seconds=10)  # an event this young is still being judged by the call that brought it
log = structlog.get_logger(__name__)


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
    call = Call(source, raw, headers, remote_addr)
    try:
        content = _content(raw, headers.get("content-encoding", ""))
    except BodyRefused as refused:
        return refuse(call, InboundVerdict.UNPARSEABLE, refused.reason)
    verification = _verify(call, content, token, now)
    if not verification.is_genuine:
        return _turn_away(call, Refusal(verification.reason))
    event, is_new = _store(call, content, verification)
    if not is_new:
        InboundEvent.objects.filter(pk=event.pk).update(duplicate_count=F("duplicate_count") + 1)
        if event.outcome:
            return _duplicate(event)
    return _judged(source, event, content, now)


def _content(raw: bytes, encoding: str) -> bytes:
    """What the body says. Where its encoding cannot be read, the body as it is: a proxy may have unpacked it, and left
    the header. Raises BodyRefused for what unpacks beyond the cap."""
    try:
        return inflate(raw, encoding, settings.INBOUND_MAX_BYTES)
    except BodyRefused as refused:
        if refused.reason != Refusal.BAD_ENCODING:
            raise
        return raw


def _turn_away(call: Call, reason: Refusal) -> Reply:
    """Of a stranger's body that cannot be unpacked that is the nearer reason."""
    try:
        if reason not in OUR_FAULTS:
            inflate(call.raw, call.headers.get("content-encoding", ""), settings.INBOUND_MAX_BYTES)
    except BodyRefused as refused:
        return refuse(call, InboundVerdict.UNPARSEABLE, refused.reason)
    return refuse(call, InboundVerdict.REFUSED, reason)


def _verify(call: Call, content: bytes, token: str, now: datetime) -> Verification:
    """Signed are the bytes as sent; some senders sign first and compress then."""
    provider = call.source.provider
    try:
        secrets = list(provider.secrets())
    except (InterfaceError, OperationalError):
        raise
    except Exception:  # noqa: BLE001 - whatever ails the adapter, the provider must send again; the check says what
        return Verification(Refusal.SECRETS_UNAVAILABLE.value)
    verification = verify(provider.scheme, SignedCall(call.raw, call.headers, token), secrets, now)
    if verification.is_genuine or content is call.raw:
        return verification
    return verify(provider.scheme, SignedCall(content, call.headers, token), secrets, now)


def _store(call: Call, content: bytes, verification: Verification) -> tuple[InboundEvent, bool]:
    """The event's row, new or the one that came before; unique by its dedupe key among verified rows.

    An id is for one event, and its repetitions carry the same body (Standard Webhooks, "webhook-id"). Another body
    under it is a fault of the sender's, or a repetition made anew, and news all the same: it has a row of its own.
    """
    name = verification.event_id
    event, is_new = _row_of(call, event_key(name) if name else content_key(content))
    if is_new or not name or _stored_content(event) == content:
        return event, is_new
    log.warning("inbound_id_reused", inbound_event=event.pk, source=event.source)
    return _row_of(call, reused_prefix(name) + content_key(name.encode() + b"." + content), is_id_reused=True)


def _row_of(call: Call, key: str, **marks: Any) -> tuple[InboundEvent, bool]:
    return InboundEvent.objects.defer("body").get_or_create(
        source=call.source.name,
        dedupe_key=key,
        verdict=InboundVerdict.VERIFIED,
        defaults={**call.row(), **marks},
    )


def of_job(job_id: str) -> list[int]:
    """The newest events that speak of a job, by their ids."""
    rows = InboundEvent.objects.filter(results__contains=[{"job_id": job_id}]).order_by("-pk")
    return list(rows.values_list("pk", flat=True)[:NAMED_ALIKE])


def event_key(event_id: str) -> str:
    """The dedupe key of a signed event id; all of a long one counts."""
    key = f"id:{event_id}"
    return key if len(key) <= KEY_LENGTH else f"idhash:{_digest(event_id.encode())}"


def reused_prefix(event_id: str) -> str:
    """How the keys of all further bodies begin that came under this id."""
    prefix = f"reused:{event_id}#"
    fits = len(prefix) + len(content_key(b"")) <= KEY_LENGTH
    return prefix if fits else f"reused:{_digest(event_id.encode())}#"


def content_key(content: bytes) -> str:
    """Where no id is signed: an id that anybody can write beside a body must neither hide one nor make it new."""
    return f"sha256:{_digest(content)}"


def _digest(value: bytes) -> str:
    return sha256(value).hexdigest()


def _stored_content(event: InboundEvent) -> bytes:
    return _content(bytes(event.body), event.headers.get("content-encoding", ""))


def _judged(source: Source, event: InboundEvent, content: bytes, now: datetime) -> Reply:
    try:
        results = judge(event, source.provider, content, now)
    except NotParseable as fault:
        return _not_parseable(source, event, fault, content, now)
    except (InterfaceError, OperationalError):
        raise
    except Exception:
        log.exception("inbound_judging_failed", inbound_event=event.pk, source=source.name)
        return _answer(InboundOutcome.ACCEPTED.value, Refusal.APPLY_FAILED.value, [])  # the sweep tries again
    return _answer(event.outcome, event.reason, results)


def _answer(status: str, reason: str, results: list[Result]) -> Reply:
    shown = [{key: value for key, value in result.items() if key != "task_id"} for result in results]
    return Reply(200, {"status": status, **({"reason": reason} if reason else {}), "results": shown})


def _duplicate(event: InboundEvent) -> Reply:
    log.info("inbound_event_duplicate", inbound_event=event.pk, source=event.source)
    repeated = {"status": InboundOutcome.IGNORED.value, "reason": Reason.DUPLICATE_EVENT.value}
    return _answer(**repeated, results=[{**result, **repeated} for result in event.results])


def _not_parseable(source: Source, event: InboundEvent, fault: NotParseable, content: bytes, now: datetime) -> Reply:
    """Genuine, but not this source's payload: kept whole, once, for whoever mends the adapter; answered 400."""
    count_refusal(source.name, Refusal.NOT_PARSEABLE)
    earlier = _same_unread(event, content)
    if earlier is None:
        _unread(event, fault, now)
    else:
        InboundEvent.objects.filter(pk=event.pk).delete()
        InboundEvent.objects.filter(pk=earlier).update(duplicate_count=F("duplicate_count") + 1)
    return refusal(400, Refusal.NOT_PARSEABLE, fault.detail)


def _unread(event: InboundEvent, fault: NotParseable, now: datetime) -> None:
    InboundEvent.objects.filter(pk=event.pk).update(
        verdict=InboundVerdict.UNPARSEABLE,
        verdict_reason=Refusal.NOT_PARSEABLE,
        verdict_detail=fault.detail,
        judged_at=now,
    )


def _same_unread(event: InboundEvent, content: bytes) -> int | None:
    """The row of the same event that could not be read before either: a repetition needs no row of its own."""
    twins = InboundEvent.objects.filter(UNREAD, source=event.source, dedupe_key=event.dedupe_key).exclude(pk=event.pk)
    return next((twin.pk for twin in twins.order_by("id")[:TWINS_COMPARED] if _stored_content(twin) == content), None)


def sweep(now: datetime) -> int:
    """Judge what is stored without an outcome, and match parked events again; returns how many were looked at."""
    due = InboundEvent.objects.filter(verdict=InboundVerdict.VERIFIED).filter(
        Q(outcome="", received_at__lt=now - GRACE) | Q(parked_until__isnull=False)
    )
    swept = 0
    # Whoever was looked at longest ago comes first, so that what stays open keeps nobody from his turn.
    for event in due.order_by(F("judged_at").asc(nulls_first=True), "id")[:SWEEP_LIMIT]:
        swept += 1
        try:
            _judge_stored(event, now)
        except (InterfaceError, OperationalError) as error:
            log.warning("inbound_sweep_interrupted", inbound_event=event.pk, error=type(error).__name__)
            if connection.connection is None or connection.connection.closed:
                break
        except Exception as error:  # noqa: BLE001 - one event must not keep the others from being judged
            log.error("inbound_judging_failed", inbound_event=event.pk, error=type(error).__name__)
            _failed(event, now)
    return swept


def _failed(event: InboundEvent, now: datetime) -> None:
    """A fault of ours: it is tried again for an hour, and after that by a person's replay."""
    row = InboundEvent.objects.filter(pk=event.pk)
    if now - event.received_at < PATIENCE[Refusal.APPLY_FAILED.value]:
        row.update(judged_at=now)
    else:
        row.filter(outcome="").update(outcome=InboundOutcome.IGNORED, reason=Refusal.APPLY_FAILED, judged_at=now)
        row.update(parked_until=None)


def _judge_stored(event: InboundEvent, now: datetime, *, again: bool = False) -> list[Result]:
    source = sources.by_name(event.source)
    if source is None:
        _settle_orphan(event, now)
        return []
    content = _stored_content(event)
    try:
        return judge(event, source.provider, content, now, again=again)
    except NotParseable as fault:
        _unread(event, fault, now)
        event.refresh_from_db(fields=["verdict", "verdict_reason", "verdict_detail"])
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
        # Before it: each job's news is applied in a transaction of its own, and what began must be on record.
        audit.record(actor, "replay", "inbound_event", [event.pk], reason)
        results = _judge_stored(event, now, again=True)
    return event, results


def _trust_again(event: InboundEvent) -> None:
    """An unparseable event was genuine; the adapter may read it today."""
    if event.verdict_reason != Refusal.NOT_PARSEABLE:
        raise CannotReplay("Its body could not be read at receipt, so its signature was never judged.")
    try:
        with transaction.atomic():
            InboundEvent.objects.filter(pk=event.pk).update(
                verdict=InboundVerdict.VERIFIED, verdict_reason="", verdict_detail=""
            )
    except IntegrityError:
        raise CannotReplay("The provider has sent it again since, and that copy was taken. Replay that one.") from None
    event.verdict, event.verdict_reason, event.verdict_detail = InboundVerdict.VERIFIED, "", ""
