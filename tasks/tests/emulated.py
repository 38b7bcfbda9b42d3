"""Adapters pointed at what the sandbox emulates, for the tests in their folders."""

import json
from pathlib import Path
from typing import Any, TypeVar

import requests

from kernel.network.openings import parse_openings
from tasks.providers.base import Account, JobRef, NewJob, Provider, ProviderCall, StartedJob
from tasks.states import JobStatus
from tasks.tests.conftest import KEY, SECRET, Sandbox

Adapter = TypeVar("Adapter", bound=Provider)
DEAD = "http://127.0.0.1:9"
LOOPBACK = parse_openings("127.0.0.0/8")


def at(url: str, adapter: type[Adapter], *, key: str = KEY, secret: str = SECRET, **options: Any) -> Adapter:
    """The adapter, with an account at this address."""
    return adapter(Account(adapter.adapter, url, key, (secret,) if secret else (), options, LOOPBACK))


def fixture(folder: str, name: str) -> bytes:
    """A payload as the provider's documents show it, from beside the tests that read it."""
    return (Path(folder).parent / "fixtures" / name).read_bytes()


def changed(body: bytes, **changes: Any) -> bytes:
    """The same JSON object with other values."""
    return json.dumps({**json.loads(body), **changes}).encode()


def begun(provider: Provider, kind: str, given: dict[str, Any], **options: Any) -> StartedJob:
    return provider.start(kind, NewJob("00000000-0000-4000-8000-000000000001", given), ProviderCall(options=options))


def finished(provider: Provider, job: JobRef) -> JobRef:
    """As soon as the provider says that it has ended."""
    for _ in range(1000):
        if provider.status(job).status in (JobStatus.SUCCEEDED, JobStatus.FAILED, JobStatus.CANCELLED):
            return job
    raise AssertionError("the job did not end")


def expire(sandbox: Sandbox, provider: str, job_id: str) -> None:
    assert requests.post(f"{sandbox.url}/{provider}/_expire/{job_id}", timeout=5).ok
