"""Faults of our own, in a row at one endpoint: nobody is charged for them, and yet they must not go on for ever.

Pure. What the endpoint's own settings cause holds it after a few tries: time does not mend a certificate. What is wrong
with us altogether (name service, proxy, CA file, open files) makes it wait longer and longer, and after ten minutes
opens its breaker, whose probes notice by themselves when all is well again. Both are alerts.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

TRIES_TO_HOLD = 5
OPENS_BREAKER_AFTER = timedelta(minutes=10)
PAUSE_LEAST_SECONDS, PAUSE_MOST_SECONDS = 1.0, 60.0


class Kind(StrEnum):
    """What of ours is at fault; also the rule word on the attempt."""

    CLIENT_CERTIFICATE = "client_certificate"
    CA_CERTIFICATE = "ca_certificate"
    SETTINGS = "unreadable_settings"
    RESOLVER = "name_service"
    CA_FILE = "ca_file"
    PROXY = "egress_proxy"
    SOCKETS = "open_files"
    PROCESS = "worker_process"
    OTHER = "other"


OF_THE_ENDPOINT = frozenset({Kind.CLIENT_CERTIFICATE, Kind.CA_CERTIFICATE})

WORDS: dict[Kind, tuple[str, str]] = {
    Kind.CLIENT_CERTIFICATE: (
        "The client certificate cannot be used",
        "Give the endpoint a certificate and the private key that belongs to it, then press Resume.",
    ),
    Kind.CA_CERTIFICATE: (
        "The endpoint's own CA certificate cannot be used",
        "Correct it or leave it out, then press Resume.",
    ),
    Kind.SETTINGS: (
        "Settings of endpoints cannot be read",
        "Put the key that encrypted them back into MASTER_KEYS, or save the endpoint's secrets anew.",
    ),
    Kind.RESOLVER: (
        "Our name service gives no answers",
        "Look at /etc/resolv.conf on the machines of the delivery workers and at the servers it names.",
    ),
    Kind.CA_FILE: (
        "DELIVERY_CA_FILE cannot be used",
        "Correct the path or the file, then start the delivery workers again; `manage.py doctor` looks at it.",
    ),
    Kind.PROXY: (
        "Our egress proxy refuses or cannot be reached",
        "Look at the proxy that DELIVERY_PROXY_URL names: is it up, and does it let us out?",
    ),
    Kind.SOCKETS: (
        "No more sockets can be opened",
        "Raise the limit of open files of the delivery workers (ulimit -n), or lower DELIVERY_MAX_WAITING.",
    ),
    Kind.PROCESS: (
        "A delivery worker fails on every delivery",
        "It has stopped claiming but for a small try now and then. Its log has the traceback (claiming_stopped): mend "
        "the installation or the code, then start the worker again.",
    ),
    Kind.OTHER: (
        "A fault on our side",
        "Look at the last attempts of the endpoints and at the delivery workers' log.",
    ),
}

_KINDS = frozenset(kind.value for kind in Kind)


@dataclass(frozen=True, slots=True)
class OwnFaults:
    """Those in a row at one endpoint, as stored in EndpointHealth."""

    kind: str = ""
    count: int = 0
    since: datetime | None = None


NONE = OwnFaults()


def kind_of(rule: str) -> Kind:
    return Kind(rule) if rule in _KINDS else Kind.OTHER


def after_attempt(faults: OwnFaults, kind: Kind | None, now: datetime) -> OwnFaults:
    """`kind`: what of ours was at fault, or None where the attempt got as far as the receiver."""
    if kind is None:
        return NONE if faults.count else faults
    if kind != faults.kind:
        return OwnFaults(kind, 1, faults.since or now)
    return OwnFaults(kind, faults.count + 1, faults.since or now)


def needs_attention(faults: OwnFaults) -> bool:
    """Only a change of the endpoint helps."""
    return faults.kind in OF_THE_ENDPOINT and faults.count >= TRIES_TO_HOLD


def opens_breaker(faults: OwnFaults, now: datetime) -> bool:
    return faults.since is not None and faults.count > 1 and now - faults.since >= OPENS_BREAKER_AFTER


def pause_seconds(faults: OwnFaults, now: datetime) -> float:
    """The endpoint waits for half as long again as it has lasted: about a dozen tries in the first two minutes."""
    lasted = (now - faults.since).total_seconds() if faults.since is not None else 0.0
    return min(PAUSE_MOST_SECONDS, max(PAUSE_LEAST_SECONDS, lasted / 2))


def hold_reason(faults: OwnFaults) -> str:
    title, advice = WORDS[kind_of(faults.kind)]
    return f"{title}. {advice}"
