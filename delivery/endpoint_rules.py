"""What an endpoint may be: each field judged, with words that say what to change. Pure but for the settings.

`clean` judges values; `check_destination` asks the name service too, so the edges (API, admin, commands) call it
outside of any transaction. Neither writes anything, and no message repeats a URL: URLs are secret.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Callable
from datetime import datetime
from typing import Any

from django.conf import settings

from delivery.errors import DeliveryError
from delivery.models import Endpoint
from delivery.policy.certificates import (
    CertificateRefused,
    certificates_of,
    check_client_certificate,
    validity_warnings,
)
from delivery.policy.headers import HeaderRefused, check_headers
from delivery.policy.outcomes import BodyRule
from delivery.policy.postback import MASK, Template, TemplateInvalid, check_template, origin_of
from delivery.policy.quotas import (
    MAX_BODY_RULE,
    MAX_CERTIFICATES,
    MAX_DELAYS,
    MAX_EVENT_TYPE,
    MAX_EVENT_TYPES,
    MAX_PEM,
    MAX_TEMPLATE,
    MAX_TRANSIENT_CODES,
    MAX_URL,
)
from delivery.states import MissingField, RequestForm, RetryProfile
from kernel.counting import size
from kernel.network.addresses import AddressRefused, Target, check_url, split_url
from kernel.network.lookup import LookupFailed, NameNotFound, within
from kernel.secrets import unreadable_fields

LOOKUP_SECONDS = 2.0
MAX_PHRASES = 100  # of a body rule: each is looked for in every answer
SENT_ALONG = ("headers", "client_certificate")  # secrets that go wherever the URL leads

_ONE_LINE = re.compile(r"[\x20-\x7e]*")
EVENT_TYPE = re.compile(r"\*|[A-Za-z0-9_]+(\.[A-Za-z0-9_]+)*(\.\*)?")
_FIELD_PATH = re.compile(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*")

_LIMITS: dict[str, tuple[int, int, str]] = {
    "max_attempts": (1, 50, "attempts"),
    "timeout_ms": (100, 120_000, "milliseconds"),
    "max_concurrency": (1, 1_000, "requests at once"),
    "rate_per_minute": (1, 1_000_000, "a minute"),
    "rate_burst": (1, 1_000_000, "requests"),
    "breaker_threshold": (1, 10_000, "failures"),
    "breaker_cooldown_seconds": (1, 3_600, "seconds"),
}


class InvalidEndpoint(DeliveryError):
    """Fields of an endpoint are wrong; `errors` is a list of `{field, code, detail}`."""

    code = "invalid_endpoint"

    def __init__(self, errors: list[dict[str, str]]) -> None:
        super().__init__(" ".join(error["detail"] for error in errors), field=errors[0]["field"])
        self.errors = errors


class Refused(ValueError):
    """One field's refusal: a reason word, and what to do."""

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(detail)
        self.code = code
        self.detail = detail


def clean(values: dict[str, Any], standing: dict[str, Any] | None = None) -> dict[str, Any]:
    """The values to store. `standing` are those of an existing endpoint. Raises InvalidEndpoint naming every field."""
    whole = {**(standing or {}), **values}
    cleaned = dict(values)
    errors: list[dict[str, str]] = []
    to_judge = set(values) | ({"url"} if {"request_form", "body_template"} & set(values) else set())
    for field, judge in _JUDGES.items():
        if field not in to_judge:
            continue
        try:
            cleaned[field] = judge(whole.get(field), whole)
        except Refused as refusal:
            errors.append({"field": field, "code": refusal.code, "detail": refusal.detail})
    errors += _across(whole, {error["field"] for error in errors})
    if errors:
        raise InvalidEndpoint(errors)
    if "url" in cleaned:
        cleaned["host"] = host_of(cleaned["url"])
    return cleaned


def standing_of(endpoint: Endpoint) -> dict[str, Any]:
    """An endpoint's values as `clean` takes them; one that cannot be opened is missing, so that it is asked for."""
    closed = set(unreadable_fields(endpoint))
    names = (field.name for field in Endpoint._meta.concrete_fields)
    return {name: getattr(endpoint, name) for name in names if name not in closed}


def ask_again(standing: dict[str, Any], given: dict[str, Any]) -> None:
    """A new address gets the secret headers and the client certificate only from somebody who knows them: who may not
    see them brings them along, or drops them. `standing` is the endpoint's, `given` the change.

    Raises InvalidEndpoint. A standing value that no key opens is missing from `standing`, and is asked for too.
    """
    if "url" not in given or _origin(given["url"]) == _origin(standing.get("url")):
        return
    kept = [name for name in SENT_ALONG if name not in given and (name not in standing or standing[name])]
    if kept:
        raise InvalidEndpoint([{"field": name, "code": "new_origin", "detail": NEW_ORIGIN[name]} for name in kept])


NEW_ORIGIN = {
    "headers": "This URL is at another address (scheme, host or port), and the endpoint's headers would go there. Give "
    "them again as `headers`, or null for none; or ask somebody who may see them.",
    "client_certificate": "This URL is at another address (scheme, host or port), and the client certificate would be "
    "shown there. Give it again as `client_certificate`, or an empty text for none; or ask somebody who may see it.",
}


def _origin(url: str | None) -> str | None:
    try:
        return origin_of(url or "")
    except AddressRefused:
        return None


def check_destination(url: str, subscriber: str, *, tells_addresses: bool = False) -> None:
    """Ask the name service where the URL leads, and judge that. Call outside of transactions; at most 2 s.

    Raises InvalidEndpoint for `url`. A name that does not exist yet passes: it is judged again at every call. Where a
    name leads is told on operators' pages only.
    """
    try:
        check_url(
            url,
            allowed_networks=tuple(settings.DELIVERY_ALLOWED_NETWORKS),
            subscriber=subscriber,
            resolve=_addresses,
            tells_addresses=tells_addresses,
        )
    except AddressRefused as refusal:
        raise InvalidEndpoint([{"field": "url", "code": refusal.code, "detail": refusal.detail}]) from None


def _addresses(host: str) -> tuple[str, ...]:
    try:
        return within(host, LOOKUP_SECONDS)
    except (NameNotFound, LookupFailed):
        return ()


def host_of(url: str) -> str:
    """Host and port as logs and lists name the endpoint; the port only where it is not the scheme's own."""
    target = split_url(url)
    host = f"[{target.host}]" if ":" in target.host else target.host
    return host if target.port == {"http": 80, "https": 443}[target.scheme] else f"{host}:{target.port}"


def _target(url: str, subscriber: str) -> Target:
    try:
        return check_url(url, allowed_networks=tuple(settings.DELIVERY_ALLOWED_NETWORKS), subscriber=subscriber)
    except AddressRefused as refusal:
        raise Refused(refusal.code, refusal.detail) from None


def _url(value: str | None, whole: dict[str, Any]) -> str:
    value = (value or "").strip()
    if len(value) > MAX_URL:
        raise Refused("too_long", f"A URL may have at most {MAX_URL:,} characters.")
    if not value:
        raise Refused("required", "Say where the events go: a URL that starts with https://.")
    _refuse_mask(value)
    if whole.get("request_form") == RequestForm.POSTBACK:
        _check_template(value, whole)
    elif "{" in value or "}" in value:
        raise Refused("not_a_postback", "Fields in braces need the request form 'postback'; else write %7B and %7D.")
    _target(value, whole.get("subscriber") or "")
    return value


def _refuse_mask(value: str) -> None:
    """What is shown to those who may not see it must not come back as if it were the value."""
    if MASK in value:
        raise Refused("masked", f"{MASK} stands for what you may not see. Leave the field out to keep what is stored.")


def _check_template(url: str, whole: dict[str, Any]) -> None:
    try:
        check_template(Template(url, whole.get("body_template") or ""))
    except TemplateInvalid as error:
        raise Refused(error.code, error.detail) from None
    except AddressRefused as error:
        raise Refused(error.code, error.detail) from None


def _body_template(value: str, _whole: dict[str, Any]) -> str:
    if len(value) > MAX_TEMPLATE:
        raise Refused("too_long", f"A body template may have at most {MAX_TEMPLATE:,} characters.")
    _refuse_mask(value or "")
    return value


def _event_types(value: list[str], _whole: dict[str, Any]) -> list[str]:
    if len(value) > MAX_EVENT_TYPES:
        words = f"An endpoint may name at most {MAX_EVENT_TYPES} types: let task.* stand for many, or * for all."
        raise Refused("too_many", words)
    wanted = list(dict.fromkeys(text.strip() for text in value if text.strip()))
    for text in wanted:
        if len(text) > MAX_EVENT_TYPE:
            raise Refused("too_long", f"A type has at most {MAX_EVENT_TYPE} characters, so nothing longer can match.")
        if not EVENT_TYPE.fullmatch(text):
            raise Refused("bad_event_type", f"{text[:60]!r} is no event type. Write task.succeeded, task.* or *.")
    return wanted


def _headers(value: dict[str, str] | None, _whole: dict[str, Any]) -> dict[str, str] | None:
    if not value:
        return None
    if not isinstance(value, dict):
        raise Refused("bad_headers", 'Headers are an object such as {"x-token": "…"}.')
    try:
        return check_headers(value)
    except HeaderRefused as error:
        raise Refused(error.code, error.detail) from None


def _body_rule(value: Any, _whole: dict[str, Any]) -> dict[str, Any] | None:
    if not value:
        return None
    if len(str(value)) > MAX_BODY_RULE:
        raise Refused("bad_body_rule", f"A body rule may have at most {MAX_BODY_RULE:,} characters; use fewer phrases.")
    if not isinstance(value, dict):
        raise Refused("bad_body_rule", 'A body rule is {"success": …, "duplicate": …, "refused": …}, each optional.')
    try:
        rule = BodyRule.of(value)
    except ValueError as error:
        raise Refused("bad_body_rule", str(error)) from None
    if rule and len(rule.success) + len(rule.refused) + len(rule.duplicate) > MAX_PHRASES:
        raise Refused("bad_body_rule", f"A body rule may have at most {MAX_PHRASES} phrases.")
    return value if rule else None


def _transient_codes(value: list[int], _whole: dict[str, Any]) -> list[int]:
    if len(value) > MAX_TRANSIENT_CODES:
        raise Refused("too_many", f"At most {MAX_TRANSIENT_CODES} status codes.")
    for code in value:
        if not (400 <= code <= 499 or code in (501, 505)) or code in (410, 429):
            raise Refused("bad_status_code", f"{code} cannot be excepted: only 4xx (but 410, 429), 501 and 505 can.")
    return sorted(set(value))


def _retry_delays(value: list[int], _whole: dict[str, Any]) -> list[int]:
    if len(value) > MAX_DELAYS or any(not 0 <= seconds <= 7 * 86_400 for seconds in value):
        raise Refused("bad_retry_delays", f"At most {MAX_DELAYS} delays, each of 0 to 604,800 seconds (a week).")
    return value


def _ordering_key(value: str, _whole: dict[str, Any]) -> str:
    if value and not _FIELD_PATH.fullmatch(value):
        raise Refused("bad_ordering_key", "Name one field of the event, such as data.click_id.")
    root, _, rest = (value or "").partition(".")
    if value and not (root == "data" and rest) and value not in ("type", "timestamp"):
        hint = f"data.{value}" if root not in ("data", "uid") else "data.click_id"
        raise Refused("unknown_field", f"{value} names nothing in an event: write {hint}, or use type or timestamp.")
    return value


def _one_line(value: str, _whole: dict[str, Any]) -> str:
    if not _ONE_LINE.fullmatch(value):
        raise Refused("bad_header_value", "This must be one line of plain ASCII text.")
    return value


def _pem(value: str | None) -> str:
    """Trimmed, and looked at for its length before anybody reads it."""
    value = (value or "").strip()
    if len(value) > MAX_PEM or value.count("-----BEGIN ") > MAX_CERTIFICATES:
        words = f"At most {size(MAX_PEM)} and {MAX_CERTIFICATES} certificates: leave out what the receiver does"
        raise Refused("too_long", f"{words} not need.")
    return value


def _client_certificate(value: str, _whole: dict[str, Any]) -> str:
    value = _pem(value)
    if value:
        try:
            check_client_certificate(value)
        except CertificateRefused as refusal:
            raise Refused("bad_certificate", str(refusal)) from None
    return value


def _ca_certificate(value: str, _whole: dict[str, Any]) -> str:
    value = _pem(value)
    if value:
        try:
            certificates_of(value)
            ssl.create_default_context(cadata=value)
        except CertificateRefused as refusal:
            raise Refused("bad_certificate", str(refusal)) from None
        except (ssl.SSLError, ValueError):
            raise Refused("bad_certificate", "This is not a PEM certificate (-----BEGIN CERTIFICATE-----).") from None
    return value


def warnings_of(client_certificate: str, ca_certificate: str, now: datetime) -> list[str]:
    """What is allowed and yet will not work for long, or at all: said on save, by the API and on the page."""
    return validity_warnings(client_certificate, "client certificate", now) + validity_warnings(
        ca_certificate, "CA certificate", now
    )


def _within_limits(field: str) -> Callable[[int | None, dict[str, Any]], int | None]:
    low, high, unit = _LIMITS[field]

    def judge(value: int | None, _whole: dict[str, Any]) -> int | None:
        if value is None and field.startswith("rate_"):
            return None
        if not isinstance(value, int) or not low <= value <= high:
            raise Refused("out_of_range", f"Choose {low:,} to {high:,} {unit}.")
        return value

    return judge


_JUDGES: dict[str, Callable[[Any, dict[str, Any]], Any]] = {
    "url": _url,
    "event_types": _event_types,
    "headers": _headers,
    "body_template": _body_template,
    "body_rule": _body_rule,
    "transient_codes": _transient_codes,
    "retry_delays": _retry_delays,
    "ordering_key": _ordering_key,
    "body_content_type": _one_line,
    "ca_certificate": _ca_certificate,
    "client_certificate": _client_certificate,
    **{field: _within_limits(field) for field in _LIMITS},
}


def _across(whole: dict[str, Any], known: set[str]) -> list[dict[str, str]]:
    """What only several fields together can break."""
    is_postback = whole.get("request_form") == RequestForm.POSTBACK
    rules = (
        (
            whole.get("retry_profile") == RetryProfile.CUSTOM and not whole.get("retry_delays"),
            "retry_delays",
            "required",
            "The custom profile needs its delays, in seconds.",
        ),
        (
            not is_postback and whole.get("method", "POST") != "POST",
            "method",
            "event_is_post",
            "A signed event is always sent by POST; other methods are for postbacks.",
        ),
        (
            not is_postback and bool(whole.get("body_template")),
            "body_template",
            "not_a_postback",
            "Only a postback has a body template.",
        ),
        (
            whole.get("method") == "GET" and bool(whole.get("body_template")),
            "body_template",
            "get_has_no_body",
            "A GET has no body; put the fields into the URL.",
        ),
        (
            whole.get("missing_field") == MissingField.DEFAULT and not whole.get("missing_default"),
            "missing_default",
            "required",
            "Say which text stands in for a missing field.",
        ),
        (
            bool(whole.get("rate_burst")) and not whole.get("rate_per_minute"),
            "rate_burst",
            "no_rate",
            "A burst needs a rate per minute.",
        ),
    )
    return [
        {"field": field, "code": code, "detail": detail}
        for broken, field, code, detail in rules
        if broken and field not in known
    ]
