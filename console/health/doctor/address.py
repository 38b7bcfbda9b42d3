"""Whether PUBLIC_BASE_URL leads back to us, and the sandbox's receiver answers. Plain calls, with short patience."""

import secrets
from collections.abc import Iterator
from urllib.parse import urlsplit

import requests  # noqa: TID251 - asks whether we are reachable from outside
from django.conf import settings
from django.urls import reverse
from requests.exceptions import InvalidSchema, InvalidURL, MissingSchema  # noqa: TID251 - asks whether we are reachable from outside

from console.health.checks import Check
from kernel.network.http import cause_of

PATIENCE_SECONDS = 5.0


def public_address() -> Iterator[Check]:
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


def sandbox_receiver() -> Iterator[Check]:
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
