"""From a claimed row to a request: what an endpoint's settings mean, and the headers every delivery carries.

Settings are read once per (endpoint, version) and kept; a change counts the version up. It signs the exact bytes of
the event, or of the rendered postback. What it builds is secret: never log a URL, a header or a body.
"""

from __future__ import annotations

import hashlib
import math
import random
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Any
from uuid import UUID

import structlog
from django.conf import settings

from delivery import endpoint_secrets
from delivery.engine.bounds import milliseconds
from delivery.engine.transport.messages import ClientCertificate, Request
from delivery.models import Endpoint
from delivery.policy import signing
from delivery.policy.breaker import BreakerPolicy
from delivery.policy.headers import header_lines
from delivery.policy.outcomes import BodyRule
from delivery.policy.postback import Template, envelope_of, render
from delivery.policy.retry import Schedule, schedule_for
from delivery.states import RequestForm
from kernel.secrets import UndecryptableSecret
from kernel.token_bucket import Rate

LEASE_FACTOR = 3  # well above the transfer's own deadline, and still a crash is rescued soon
LEASE_STEP_SECONDS = 15.0  # leases come in few sizes, since a claim's statement has one
MAX_CONFIGS = 20_000
UNUSABLE = (UndecryptableSecret, ValueError, TypeError, AttributeError)
KEYLESS = "It has no secret to sign with, and nothing is sent unsigned. Rotate its secret, then press Resume."
_HEX32 = re.compile(r"[0-9a-f]{32}")
_SAFE = re.compile(r"[A-Za-z0-9_.:-]{1,64}")

log = structlog.get_logger(__name__)


@dataclass(slots=True)
class Config:
    """An endpoint's settings as the engine needs them."""

    id: int
    version: int
    owner: str  # whose share of a worker it uses: the subscriber's; an endpoint without one stands for itself
    subscriber: str
    host: str
    url: str
    method: str
    template: Template | None
    headers: list[str]
    secret: str
    earlier_secrets: tuple[tuple[str, float], ...]  # and until when each signs, Unix seconds
    timeout_ms: int
    lease_seconds: float
    max_attempts: int
    max_concurrency: int
    in_order: bool
    transient_codes: frozenset[int]
    body_rule: BodyRule | None
    schedule: Schedule
    breaker: BreakerPolicy
    rate: Rate | None
    client_certificate: ClientCertificate | None
    ca_certificates: bytes

    def secrets(self, now: float) -> list[str]:
        """Who signs at this moment (Unix seconds, the database's): the standing one, and all whose time is not over."""
        if not self.secret:
            return []
        return [self.secret, *(secret for secret, until in self.earlier_secrets if now < until)]


@dataclass(slots=True)
class Claimed:
    """A delivery that is ours until its lease ends, with all that is needed to send and to settle it."""

    id: int
    token: UUID
    config: Config
    attempt_count: int
    throttle_count: int
    rescue_count: int
    ordering_key: str
    waited_ms: float
    uid: str
    payload: bytes
    correlation_id: str
    is_probe: bool
    try_count: int = 0  # before this attempt, over its whole life
    cycle: int = 0
    throttled_since: float | None = None  # Unix seconds; None where it was not told to wait the last time
    began_at: float = 0.0  # Unix seconds by the database's clock
    key_ids: str = ""
    signed_at: int = 0


class Unsigned(Exception):
    """There is no secret, so there is no request."""

    detail = "The endpoint has no secret to sign with; nothing was sent. Rotate its secret."


class Configs:
    """The process's settings of endpoints, by id and version.

    They are read after the claim has looked which endpoints are live, and one may be held or deleted in between:
    `held` names those of the last `of` that were, `keyless` those of them without a secret; a held one is kept for a
    test alone. `without_secret` names those that are to be held for that.
    """

    def __init__(self) -> None:
        self._known: dict[int, Config] = {}
        self.held: set[int] = set()
        self.keyless: set[int] = set()
        self.without_secret: set[int] = set()

    def of(self, wanted: dict[int, int]) -> dict[int, Config]:
        """Settings of these endpoints ({id: version}); reads what is missing or has changed.

        An endpoint whose secrets cannot be opened, or whose settings make no sense, is left out and named in the log.
        """
        self.held.clear()
        self.keyless.clear()
        stale = [pk for pk, version in wanted.items() if pk not in self._known or self._known[pk].version != version]
        if stale:
            self._load(stale)
        return {pk: config for pk in wanted if (config := self._known.get(pk)) is not None}

    def _load(self, ids: list[int]) -> None:
        if len(self._known) > MAX_CONFIGS:
            self._known.clear()
        for pk in ids:
            self._known.pop(pk, None)
        try:
            self._keep(ids)
        except UNUSABLE:
            for pk in ids:  # one by one, so that a broken endpoint stands alone
                try:
                    self._keep([pk])
                except UNUSABLE as error:
                    log.error("endpoint_unusable", endpoint=pk, error=type(error).__name__, hint=str(error)[:200])

    def _keep(self, ids: list[int]) -> None:
        for endpoint in Endpoint.objects.filter(pk__in=ids):
            if endpoint.is_held:
                self.held.add(endpoint.pk)
            if endpoint.secret:
                self._known[endpoint.pk] = config_of(endpoint)
            else:
                (self.keyless if endpoint.is_held else self.without_secret).add(endpoint.pk)


def config_of(endpoint: Endpoint) -> Config:
    """Raises ValueError where the endpoint's settings cannot be understood."""
    return Config(
        id=endpoint.pk,
        version=endpoint.version,
        owner=endpoint.subscriber or f"endpoint {endpoint.pk}",
        subscriber=endpoint.subscriber,
        host=endpoint.host,
        url=endpoint.url,
        method=endpoint.method,
        template=_template_of(endpoint),
        headers=_standing_headers(endpoint),
        secret=endpoint.secret or "",
        earlier_secrets=tuple((one.secret, one.ends_at.timestamp()) for one in endpoint_secrets.earlier(endpoint)),
        timeout_ms=endpoint.timeout_ms,
        lease_seconds=lease_of(endpoint.timeout_ms),
        max_attempts=endpoint.max_attempts,
        max_concurrency=endpoint.max_concurrency,
        in_order=bool(endpoint.ordering_key),
        transient_codes=frozenset(endpoint.transient_codes),
        body_rule=BodyRule.of(endpoint.body_rule),
        schedule=schedule_for(endpoint.retry_profile, endpoint.retry_delays),
        breaker=BreakerPolicy(endpoint.breaker_threshold, endpoint.breaker_cooldown_seconds),
        rate=Rate.of(endpoint.rate_per_minute, endpoint.rate_burst),
        client_certificate=_certificate_of(endpoint),
        ca_certificates=endpoint.ca_certificate.encode(),
    )


def lease_of(timeout_ms: int) -> float:
    """Seconds; rounded up to whole steps, two at least."""
    return max(2, math.ceil(timeout_ms / 1000 * LEASE_FACTOR / LEASE_STEP_SECONDS)) * LEASE_STEP_SECONDS


def _template_of(endpoint: Endpoint) -> Template | None:
    if endpoint.request_form != RequestForm.POSTBACK:
        return None
    return Template(
        endpoint.url,
        body=endpoint.body_template,
        content_type=endpoint.body_content_type,
        missing=endpoint.missing_field,
        default=endpoint.missing_default,
    )


def _standing_headers(endpoint: Endpoint) -> list[str]:
    lines = [f"user-agent: Roundtrip/{settings.VERSION}"]
    if endpoint.request_form == RequestForm.EVENT:
        lines.append("content-type: application/json")
    elif endpoint.body_template:
        lines.append(f"content-type: {endpoint.body_content_type or 'application/x-www-form-urlencoded'}")
    elif endpoint.method != "GET":
        lines.append("content-type: application/x-www-form-urlencoded")
    return lines + header_lines(endpoint.headers or {})


def _certificate_of(endpoint: Endpoint) -> ClientCertificate | None:
    pem = (endpoint.client_certificate or "").encode()
    return ClientCertificate(pem, pem) if pem else None


def build(claimed: Claimed) -> Request:
    """The request of this attempt; notes on `claimed` when and with which keys it was signed.

    Raises `policy.postback.FieldRefused` where the event lacks what the template needs, and Unsigned.
    """
    config = claimed.config
    if not config.secret:
        raise Unsigned
    url, body = config.url, claimed.payload
    if config.template is not None:
        rendered = render(config.template, envelope_of(claimed.payload, claimed.uid))
        url, body = rendered.url, rendered.body
    moment = int(claimed.began_at)
    headers = [
        *config.headers,
        f"webhook-id: {claimed.uid}",
        f"webhook-timestamp: {moment}",
        f"traceparent: 00-{_trace_id(claimed.correlation_id)}-{random.getrandbits(64) | 1:016x}-01",
        f"x-correlation-id: {_safe(claimed.correlation_id)}",
    ]
    signed = signing.sign(config.secrets(claimed.began_at), claimed.uid, moment, body)
    headers.append(f"webhook-signature: {signed.signature}")
    claimed.key_ids, claimed.signed_at = signed.key_ids, moment
    return Request(
        url, headers, body, config.method, config.timeout_ms, claimed, config.client_certificate,
        config.ca_certificates, config.subscriber,
    )  # fmt: skip


@lru_cache(maxsize=4096)
def _trace_id(correlation_id: str) -> str:
    """W3C Trace Context §3.2.2.3: 32 hex digits, not all zero. One journey, one trace."""
    if _HEX32.fullmatch(correlation_id) and correlation_id.strip("0"):
        return correlation_id
    return hashlib.sha256(b"trace" + correlation_id.encode(errors="replace")).hexdigest()[:32]


@lru_cache(maxsize=4096)
def _safe(correlation_id: str) -> str:
    return correlation_id if _SAFE.fullmatch(correlation_id) else _trace_id(correlation_id)


def parts_of(row: tuple[Any, ...], token: UUID, config: Config, is_probe: bool) -> Claimed:
    """A claimed row (`claims.ClaimedRow`) with its endpoint's settings."""
    pk, _, attempts, throttles, rescues, key, waited_ms, uid, payload, correlation_id, tries, cycle, since = row
    return Claimed(
        pk, token, config, attempts, throttles, rescues, key, milliseconds(waited_ms), uid, payload, correlation_id,
        is_probe, tries, cycle, since,
    )  # fmt: skip
