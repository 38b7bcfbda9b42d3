"""The doctor sends itself one signed event, through a real worker, and sees it arrive: see `console.health.trial`.

Everything it makes is removed again, whatever happens; what a killed one left, the next one removes.
"""

import time
from collections.abc import Iterator
from urllib.parse import urlsplit

from django.conf import settings
from django.urls import reverse

from console.health import door, trial
from console.health.checks import Check
from console.health.doctor.findings import Finding, NotTried
from delivery import endpoint_rules
from delivery.endpoint_rules import InvalidEndpoint
from delivery.models import Delivery
from delivery.policy.outcomes import EXPLANATIONS, Outcome
from kernel.network.addresses import ALLOW_HINT

ACTOR = "manage.py doctor"
PATIENCE_SECONDS = 30.0
LOOK_SECONDS = 0.2
NAME = "event"
_BY_STATUS = {
    404: "Its door is unknown there: another version of Roundtrip, or one on another database.",
    door.WRONG_SIGNATURE: "It came, but its signature did not verify there. Does a proxy change bodies or headers, or "
    "is the clock of the database wrong?",
    door.OTHER_KEYS: "The web process there has other MASTER_KEYS. Give every host the same and restart.",
}


def send_and_receive() -> Iterator[Finding]:
    trial.remove_all(actor=ACTOR)
    try:
        yield _sent()
    finally:
        left = trial.remove_all(actor=ACTOR)
    if left:
        yield NotTried("event_removed", "its endpoint is marked deleted; the next run removes it from the database")


def _sent() -> Finding:
    nonce = trial.new_nonce()
    url = f"{settings.PUBLIC_BASE_URL}{reverse('doctor-door', args=[nonce])}"
    try:
        endpoint_rules.check_destination(url, trial.SUBSCRIBER, tells_addresses=True)
        begun = trial.begin(nonce, url, actor=ACTOR)
    except InvalidEndpoint as refused:
        why = str(refused).replace(ALLOW_HINT, "").strip()
        return NotTried(NAME, f"deliveries may not go to {_host()}. {why} {_how_to_open()}")
    return _judge(_wait(begun))


def _wait(begun: trial.Trial) -> Delivery | None:
    """The delivery once it is final, or as it stands when patience ends."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        delivery = trial.outcome(begun)
        if delivery is None or delivery.is_final or delivery.last_outcome or time.monotonic() > deadline:
            return delivery
        time.sleep(LOOK_SECONDS)


def _judge(delivery: Delivery | None) -> Finding:
    if delivery is None:
        return NotTried(NAME, "another doctor ran at the same time and removed it; run this one again")
    if delivery.last_outcome == Outcome.DELIVERED:
        took = f" in {delivery.last_response_ms} ms" if delivery.last_response_ms is not None else ""
        return Check(NAME, True, f"a worker sent it, signed, to {_host()}{took}; it came in and verified")
    if delivery.last_outcome == Outcome.BLOCKED:
        return NotTried(NAME, f"the delivery workers may not send to {_host()}. {_how_to_open()}")
    if not delivery.last_outcome:
        words = (
            f"No worker sent it within {PATIENCE_SECONDS:g} s. Look at the delivery workers' log, and whether they use "
            "this database and this broker."
        )
        return Check(NAME, False, words)
    return Check(NAME, False, f"A worker sent it to {_host()}, and it was not received. {_why(delivery)}")


def _why(delivery: Delivery) -> str:
    if words := _BY_STATUS.get(delivery.last_status_code or 0):
        return words
    if delivery.last_outcome == Outcome.REFUSED:
        return "Somebody else answers there: correct PUBLIC_BASE_URL, or what the workers' host finds at that name."
    words = EXPLANATIONS.get(Outcome(delivery.last_outcome), delivery.last_outcome)
    more = delivery.last_error or (f"status {delivery.last_status_code}" if delivery.last_status_code else "")
    return f"{words} ({more}) Can the workers' hosts reach PUBLIC_BASE_URL?" if more else words


def _how_to_open() -> str:
    port = urlsplit(settings.PUBLIC_BASE_URL).port or {"http": 80}.get(urlsplit(settings.PUBLIC_BASE_URL).scheme, 443)
    return (
        f"To have it tried, add {trial.SUBSCRIBER}@<the address>/32:{port} to DELIVERY_ALLOWED_NETWORKS on every host "
        "and restart."
    )


def _host() -> str:
    return urlsplit(settings.PUBLIC_BASE_URL).netloc
