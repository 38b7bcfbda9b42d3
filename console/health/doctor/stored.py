"""Keys, stored secrets and certificates: each is opened here, since one that cannot be opened sends nothing."""

from collections.abc import Iterator

from django.conf import settings
from django.db.models import F, QuerySet, TextField
from django.db.models.functions import Cast

from console.health import heartbeat, known_keys
from console.health.checks import Check
from console.health.doctor.findings import Finding, NotTried, named
from delivery import endpoint_rules
from delivery.checks import ca_file_fault
from delivery.endpoint_rules import InvalidEndpoint
from delivery.models import Endpoint
from kernel import clock, rotation
from kernel.secrets import UndecryptableSecret, master_keyring
from tasks import providers
from webhooks.checks import secret_doubts, secret_faults

SECRETS_OF_EACH = 2_000  # of each column, the newest: opening them takes a tenth of a second
CERTIFICATES = 1_000  # endpoints whose certificates are opened, the newest


def keys() -> Check:
    try:
        ring = master_keyring()
        ring.decrypt(ring.encrypt(b"doctor"))
    except Exception as error:  # noqa: BLE001 - whatever ails the keys, the answer is the same
        words = f"MASTER_KEYS cannot encrypt ({type(error).__name__}). It must list Fernet keys; see docs/reference.md."
        return Check("master_keys", False, words)
    return Check("master_keys", True, f"{len(settings.MASTER_KEYS)} set, the first encrypts (see stored secrets)")


def process_keys() -> Check:
    """What one process encrypts the others must be able to open."""
    others = known_keys.processes_without_ours(heartbeat.NEED_NO_KEY, heartbeat.FRESH)
    if others:
        words = f"Another key is the first of MASTER_KEYS in {named(others)}. Give all the same, and restart them."
        return Check("process_keys", False, words)
    return Check("process_keys", True, "no living process has another first key than this one")


def ca_file() -> Check:
    fault = ca_file_fault()
    if fault:
        return Check("delivery_ca_file", False, f"{fault} Every delivery by https fails until it is corrected.")
    return Check("delivery_ca_file", True, "readable" if settings.DELIVERY_CA_FILE else "not set: certifi's CAs")


def stored_secrets() -> Iterator[Finding]:
    """Whether the keys open what is stored, the newest of every encrypted column."""
    samples = {place: rotation.sample(place, SECRETS_OF_EACH) for place in rotation.places()}
    opened = sum(sample.opened for sample in samples.values())
    closed = [f"{place} of {pk}" for place, sample in samples.items() for pk in sample.closed]
    if closed:
        words = f"No master key opens {named(closed)}. Put the missing key back, or set these anew."
        yield Check("stored_secrets", False, words)
    elif not opened:
        yield NotTried("stored_secrets", "none is stored yet, so the keys have opened nothing")
        return
    else:
        columns = sum(bool(sample.opened) for sample in samples.values())
        yield Check("stored_secrets", True, f"a master key opens each of {opened:,} in {columns} columns")
    if partly := [str(place) for place, sample in samples.items() if sample.is_partial]:
        yield NotTried("older_secrets", f"of {named(partly)} the newest {SECRETS_OF_EACH:,} were opened, not the rest")


def endpoint_certificates() -> Iterator[Finding]:
    """Whether each endpoint's own CA and client certificate can be opened, belong together and are still good."""
    rows, faults, looked_at = _with_certificates(), [], 0
    for endpoint in rows[:CERTIFICATES].iterator(chunk_size=100):
        looked_at += 1
        faults += [f"endpoint {endpoint.pk} ({endpoint.host}): {fault}" for fault in _faults(endpoint)]
    if faults:
        yield Check("endpoint_certificates", False, f"{named(faults)} Write them anew on the endpoint's page.")
    else:
        words = f"of {looked_at:,} endpoints can be used" if looked_at else "no endpoint has one of its own"
        yield Check("endpoint_certificates", True, words)
    if looked_at == CERTIFICATES and (left := rows.count() - CERTIFICATES) > 0:
        yield NotTried("older_certificates", f"those of {left:,} older endpoints; {CERTIFICATES:,} were opened")


def _with_certificates() -> QuerySet[Endpoint]:
    rows = Endpoint.objects.filter(deleted_at=None).annotate(stored=Cast(F("client_certificate"), TextField()))
    rows = rows.exclude(ca_certificate="", stored="").order_by("-pk")
    return rows.only("host", "ca_certificate", "client_certificate")


def _faults(endpoint: Endpoint) -> list[str]:
    """By the judges of the form, at whatever time it was stored."""
    try:
        values = {"ca_certificate": endpoint.ca_certificate, "client_certificate": endpoint.client_certificate}
        endpoint_rules.clean(values)
    except UndecryptableSecret:
        return ["no master key opens its client certificate."]
    except InvalidEndpoint as refused:
        return [f"{error['field'].replace('_', ' ')}: {error['detail']}" for error in refused.errors]
    return endpoint_rules.warnings_of(values["client_certificate"], values["ca_certificate"], clock.now())


def signing_secrets() -> Iterator[Finding]:
    """Whether each provider's webhooks can be verified: a secret that cannot be used refuses all of them."""
    faults, doubts = secret_faults(), secret_doubts()
    for name in providers.available():
        words = " ".join(faults.get(name) or doubts.get(name) or ["can be used"])
        yield Check(f"signing_secret_{name}", name not in faults, words)
