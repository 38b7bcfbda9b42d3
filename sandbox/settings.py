"""What the sandbox is told from outside: environment (or `NAME_FILE`) and command line. Never read anywhere else."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from sandbox.signing import secret_bytes


class Misconfigured(Exception):
    """The sandbox cannot start like this; the text says what to do."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything that is fixed for the life of the process."""

    provider_key: str = ""
    webhook_secret: str = ""
    receiver_secrets: Mapping[str, str] = field(default_factory=dict)
    journal_entries: int = 200_000
    journal_bytes: int = 16 * 1024 * 1024
    max_jobs: int = 200_000


def value(name: str, environ: Mapping[str, str]) -> str:
    """`NAME`, or the content of the file that `NAME_FILE` names."""
    file = environ.get(f"{name}_FILE")
    if file:
        try:
            return Path(file).read_text("utf-8").strip()
        except OSError as error:
            raise Misconfigured(f"{name}_FILE={file} cannot be read: {error.strerror}.") from None
    return environ.get(name, "").strip()


def load(*, with_provider: bool = True, environ: Mapping[str, str] | None = None, **bounds: int) -> Settings:
    """Settings from the environment. Raises Misconfigured with words for the operator."""
    environ = os.environ if environ is None else environ
    key, secret = value("SANDBOX_PROVIDER_KEY", environ), value("SANDBOX_WEBHOOK_SECRET", environ)
    if with_provider:
        if not key:
            raise Misconfigured("Set SANDBOX_PROVIDER_KEY, the API key that callers have to send.")
        _check_secret("SANDBOX_WEBHOOK_SECRET", secret)
    return Settings(
        provider_key=key,
        webhook_secret=secret,
        receiver_secrets=_receiver_secrets(value("SANDBOX_RECEIVER_SECRETS", environ)),
        **bounds,
    )


def _check_secret(name: str, secret: str) -> None:
    try:
        secret_bytes(secret)
    except ValueError as error:
        raise Misconfigured(f"Set {name} to a Standard Webhooks secret (whsec_ and base64): {error}.") from None


def _receiver_secrets(text: str) -> dict[str, str]:
    if not text:
        return {}
    try:
        secrets = json.loads(text)
    except ValueError:
        secrets = None
    if not isinstance(secrets, dict):
        raise Misconfigured('SANDBOX_RECEIVER_SECRETS has to be a JSON object: {"/ok/customer": "whsec_…"}.')
    for path, secret in secrets.items():
        _check_secret(f"SANDBOX_RECEIVER_SECRETS[{path}]", str(secret))
    return {path: str(secret) for path, secret in secrets.items()}
