"""fal's queue, `https://queue.fal.run/<model>`. The model is part of the address and comes from the options.

Each job has its own callback address (`fal_webhook`). There is no listing, and nothing of ours is kept that could be
asked for, so a start whose answer never came cannot be looked for; its webhook, which carries our token, tells of it.
"""

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, urlencode

from tasks.providers import results
from tasks.providers.answers import Call
from tasks.providers.base import (
    Account,
    JobRef,
    NewJob,
    NotThere,
    ParsedCallback,
    Provider,
    ProviderCall,
    ProviderDenied,
    ProviderRejected,
    ProviderUpdate,
    Result,
    StartedJob,
)
from tasks.providers.calls import Caller, document, job_id
from tasks.providers.fal import payloads
from tasks.providers.fal.keys import JWKS_URL, Keys
from tasks.states import JobStatus

NAMESPACES = ("workflows", "comfy")  # before owner and alias, in some addresses
DOCTORS_MODEL = "fal-ai/flux"  # asked about a job that is not there, where the account names no model
_MODEL = re.compile(r"[A-Za-z0-9._-]{1,100}")


class Fal(Provider):
    adapter = "fal"
    title = "fal (queue)"
    scheme = "fal"
    finds_references = False
    carries_reference = True
    result_seconds = 3600.0  # fal does not say how long; its webhooks are sent again for two hours
    default_base_url = "https://queue.fal.run"
    takes_base_url = True
    needs_webhook_secret = False  # its public keys are fetched
    option_words = {
        "model": "which model, as fal's page names it: fal-ai/flux/dev",
        "jwks_url": f"where its public keys lie, if not at {JWKS_URL}",
    }
    kept_headers = ("x-fal-webhook-request-id",)

    def __init__(self, account: Account, *, call_seconds: float | None = None) -> None:
        super().__init__(account)
        headers = {"authorization": f"Key {account.api_key}"}
        self._caller = Caller(account, self.base_url, headers, refusal=payloads.refusal, seconds=call_seconds)
        self._keys = Keys(str(account.options.get("jwks_url") or JWKS_URL), account.networks)

    def secrets(self) -> list[str]:
        return self._keys.current()

    def renewed_secrets(self) -> list[str]:
        return self._keys.renewed()

    def start(self, kind: str, job: NewJob, call: ProviderCall) -> StartedJob:
        query = f"?{urlencode({'fal_webhook': call.webhook_url})}" if call.webhook_url else ""
        path = "/" + "/".join(_parts(call.options))
        said = self._caller.document(Call.START, "POST", path + query, json=dict(job.input))
        return StartedJob(job.reference, job_id(said.get("request_id")))

    def status(self, job: JobRef) -> ProviderUpdate:
        said = self._caller.document(Call.POLL, "GET", f"{self._path(job)}/status")
        return payloads.update(job.job_id, said)

    def greet(self) -> None:
        job = JobRef("roundtrip-doctor", options=self.account.options or {"model": DOCTORS_MODEL})
        try:
            self.status(job if job.options.get("model") else JobRef(job.job_id, options={"model": DOCTORS_MODEL}))
        except NotThere:
            return

    def result(self, job: JobRef) -> Result:
        try:
            answer = self._caller.answer(Call.RESULT, "GET", self._path(job))
        except ProviderRejected as error:
            if payloads.is_still_running(error.detail):
                raise NotThere(error.detail) from None
            raise
        return results.read(answer.content)

    def cancel(self, job: JobRef) -> ProviderUpdate:
        """200: taken out of the queue. 202: the model is asked to stop. 400: it is finished, and its end is told."""
        try:
            answer = self._caller.answer(Call.CANCEL, "PUT", f"{self._path(job)}/cancel")
        except ProviderRejected:
            return self.status(job)
        raw = str(document(answer.content).get("status") or "CANCELLATION_REQUESTED")[:60]
        if raw == "ALREADY_COMPLETED":
            return self.status(job)
        is_out = answer.status_code == 200 and raw == "OK"
        return ProviderUpdate(job.job_id, status=JobStatus.CANCELLED if is_out else JobStatus.RUNNING, raw_status=raw)

    def parse(self, body: bytes, headers: Mapping[str, str]) -> ParsedCallback:
        return payloads.parse(body)

    def _path(self, job: JobRef) -> str:
        """Requests are asked for below the app, which is the model without what follows its alias."""
        parts = _parts(job.options if job.options.get("model") else self.account.options)
        app = parts[: 3 if parts[0] in NAMESPACES else 2]
        return f"/{'/'.join(app)}/requests/{quote(job.job_id, safe='')}"


def _parts(options: Mapping[str, Any]) -> list[str]:
    """The model's path. Raises ProviderDenied: until somebody chooses one, nothing is started and nothing is lost."""
    parts = str(options.get("model") or "").strip().strip("/").split("/")
    if len(parts) < 2 or not all(_MODEL.fullmatch(part) and part.strip(".") for part in parts):
        raise ProviderDenied(
            "No model is chosen: set the option model, as fal-ai/flux/dev, of the account or the kind."
        )
    return parts
