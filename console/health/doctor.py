"""What `manage.py doctor` looks at: what is reachable or misconfigured, what to do. SQL: version and clock.

Values of secrets are never shown, only whether they are set.
"""

import secrets
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import requests  # noqa: TID251 - asks whether we are reachable from outside
from django.conf import settings
from django.db import connection
from django.urls import reverse
from requests.exceptions import InvalidSchema, InvalidURL, MissingSchema  # noqa: TID251 - asks whether we are reachable from outside

from console.health import checks as health
from console.health import database, heartbeat
from console.health.checks import Check
from console.health.leftovers import demo_leftovers
from delivery.checks import ca_file_fault
from kernel import clock, rotation
from kernel.network.http import cause_of
from kernel.secrets import master_keyring
from tasks import accounts
from webhooks.checks import secret_doubts, secret_faults

PATIENCE_SECONDS = 5.0
LEAST_POSTGRESQL = 150_000
NAMED = 10


def examine() -> list[Check]:
    """Every check, in the order in which an operator would mend things."""
    base = health.database()
    checks = [base]
    has_tables = False
    if base.is_ok:
        migrations = health.migrations()
        has_tables = migrations.is_ok
        checks += [_postgresql(), migrations, _clock(), _snapshots()]
    keys = _keys()
    checks += [health.broker(), health.channel_layer(), keys, _ca_file()]
    if has_tables and keys.is_ok:
        checks.append(_stored_secrets())
    if has_tables:
        checks += [*demo_leftovers(), *health.processes(), _clocks(), _schedule()]
    elif base.is_ok:
        checks.append(Check("processes", False, "Not looked at, nor are stored secrets, before `manage.py migrate`."))
    return [*checks, *_public_address(), *_signing_secrets(), *_providers()]


def _postgresql() -> Check:
    version = connection.cursor().connection.info.server_version
    words = f"PostgreSQL {version // 10_000}.{version % 10_000}"
    if version < LEAST_POSTGRESQL:
        return Check("postgresql_version", False, f"{words} is too old; use 15 or later.")
    return Check("postgresql_version", True, words)


def _clock() -> Check:
    ahead = clock.measure().ahead_seconds
    if abs(ahead) > 2:
        words = f"This machine's clock is {health.ahead_words(ahead)} of the database's. Synchronise both with NTP."
        return Check("clock", False, words)
    return Check("clock", True, f"within {abs(ahead) * 1000:.0f} ms of the database's")


def _clocks() -> Check:
    off = heartbeat.clocks_off()
    named = ", ".join(f"{process} ({health.ahead_words(seconds)})" for process, seconds in off[:NAMED])
    if off:
        return Check("process_clocks", False, f"Off the database's clock: {named}. Synchronise these hosts with NTP.")
    return Check("process_clocks", True, "every living process's is near the database's")


def _snapshots() -> Check:
    held = database.oldest_snapshot()
    if held is None or held.age.total_seconds() < 300:
        return Check("held_snapshot", True, "no session holds an old snapshot")
    return Check("held_snapshot", False, f"{held.what} ({held.age.total_seconds():.0f} s). End it: {held.remedy}")


def _keys() -> Check:
    try:
        ring = master_keyring()
        ring.decrypt(ring.encrypt(b"doctor"))
    except Exception as error:  # noqa: BLE001 - whatever ails the keys, the answer is the same
        words = f"MASTER_KEYS cannot encrypt ({type(error).__name__}). It must list Fernet keys; see docs/reference.md."
        return Check("master_keys", False, words)
    return Check("master_keys", True, f"{len(settings.MASTER_KEYS)} set, the first encrypts (see stored secrets)")


def _ca_file() -> Check:
    fault = ca_file_fault()
    if fault:
        return Check("delivery_ca_file", False, f"{fault} Every delivery by https fails until it is corrected.")
    return Check("delivery_ca_file", True, "readable" if settings.DELIVERY_CA_FILE else "not set: certifi's CAs")


def _stored_secrets() -> Check:
    """Whether the keys open what is stored: an endpoint whose secret is closed sends nothing."""
    places = [place for place in rotation.places() if rotation.is_used(place)]
    if not places:
        return Check("stored_secrets", True, "none is stored yet, so the keys have opened nothing")
    closed = [f"{place} of {pk}" for place in places for pk in rotation.unopened(place)]
    if not closed:
        return Check("stored_secrets", True, "a master key opens each of them")
    more = f" and {len(closed) - NAMED:,} more" if len(closed) > NAMED else ""
    words = f"No master key opens {', '.join(closed[:NAMED])}{more}. Put the missing key back, or set these anew."
    return Check("stored_secrets", False, words)


def _schedule() -> Check:
    last = heartbeat.last_seen(heartbeat.SCHEDULE)
    if last is None or clock.now() - last > heartbeat.FRESH:
        words = "Beat's ticks do not reach a worker. Is beat up, and a worker on the queue `default`?"
        return Check("schedule", False, words)
    return Check("schedule", True, "beat's ticks reach a worker")


def _public_address() -> Iterator[Check]:
    """Whether PUBLIC_BASE_URL leads back to us: a nonce comes back in our own header only from our own process."""
    base = settings.PUBLIC_BASE_URL
    if not base:
        words = "PUBLIC_BASE_URL is not set: providers cannot call back and only the poll finishes jobs. Set it."
        yield Check("public_base_url", False, words)
        return
    nonce = f"doctor_{secrets.token_hex(8)}"
    try:
        with requests.Session() as session:
            session.trust_env = False
            answer = session.get(
                f"{base}{reverse('healthz')}",
                headers={"x-correlation-id": nonce},
                timeout=PATIENCE_SECONDS,
                allow_redirects=False,
            )
        is_us = answer.headers.get("x-correlation-id") == nonce and answer.status_code == 200
    except requests.RequestException as error:
        yield Check("public_base_url", False, _why_no_answer(base, error))
        return
    if is_us:
        yield Check("public_base_url", True, f"{_host(base)} leads back to us")
    else:
        where = urlsplit(answer.headers.get("location", ""))
        if answer.is_redirect and where.netloc:
            words = f"{base} leads elsewhere, and providers need not follow: is it {where.scheme}://{where.netloc}?"
        else:
            words = f"{_host(base)} answers {answer.status_code}, but not as Roundtrip. Correct it or the proxy."
        yield Check("public_base_url", False, words)
    host = urlsplit(base).hostname or ""
    if host in {"localhost", "127.0.0.1", "::1"} and not settings.SANDBOX_PROVIDER_URL:
        words = (
            f"{host} is this machine only: outside providers cannot call back. Set a public address, or use a tunnel."
        )
        yield Check("public_base_url_is_public", False, words)


def _why_no_answer(base: str, error: requests.RequestException) -> str:
    """What is wrong with PUBLIC_BASE_URL, from how our call of it failed."""
    shown = f"PUBLIC_BASE_URL ({_host(base) or base})"
    if isinstance(error, requests.exceptions.SSLError):
        if "WRONG_VERSION_NUMBER" in str(error) or "RECORD_LAYER_FAILURE" in str(error):
            return f"{shown} begins with https://, but no TLS is spoken there. Put TLS in front, or write http://."
        return f"{shown}: TLS fails ({cause_of(error)}). Providers refuse it too: renew or complete the certificate."
    if isinstance(error, MissingSchema | InvalidSchema | InvalidURL):
        return f"PUBLIC_BASE_URL is no address ({base!r}). Write it with its scheme: https://jobs.example.com"
    if isinstance(error, requests.exceptions.Timeout):
        return f"{shown} does not answer within {PATIENCE_SECONDS:g} s. Is the web process up, or a firewall between?"
    return f"{shown} does not answer ({cause_of(error)}). Is the web process up, and the name right?"


def _host(url: str) -> str:
    return urlsplit(url).netloc


def _signing_secrets() -> Iterator[Check]:
    """Whether each provider's webhooks can be verified: a secret that cannot be used refuses all of them."""
    faults, doubts = secret_faults(), secret_doubts()
    for name in accounts.available():
        words = " ".join(faults.get(name) or doubts.get(name) or ["can be used"])
        yield Check(f"signing_secret_{name}", name not in faults, words)


def _providers() -> Iterator[Check]:
    if settings.SANDBOX_PROVIDER_URL:
        yield _answers("sandbox_provider", settings.SANDBOX_PROVIDER_URL)
    if settings.SANDBOX_RECEIVER_URL:
        yield _answers("sandbox_receiver", settings.SANDBOX_RECEIVER_URL)


def _answers(name: str, url: str) -> Check:
    try:
        with requests.Session() as session:
            session.trust_env = False
            session.get(f"{url}/", timeout=PATIENCE_SECONDS, allow_redirects=False)
    except requests.RequestException as error:
        return Check(name, False, f"{_host(url)} does not answer: {type(error).__name__}. Start it: python -m sandbox")
    return Check(name, True, f"{_host(url)} answers")


def environment() -> list[dict[str, Any]]:
    """Every variable, whether it is set, and its value where that is no secret."""
    return [
        {
            "name": row["name"],
            "purpose": row["purpose"],
            "is_set": row["is_set"],
            "value": ("set" if row["is_set"] else "") if row["secret"] else row["value"],
        }
        for row in settings.ENVIRONMENT_TABLE
    ]
