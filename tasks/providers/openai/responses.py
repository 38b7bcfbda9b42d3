"""Background responses: `POST /v1/responses {background: true}`, one job for each task.

Webhooks go to the project's one address, so no job has its own. There is no listing of responses: a start whose answer
never came cannot be looked for. What its webhook or a status says later carries our token in the metadata.
"""

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from tasks.providers import prompts
from tasks.providers.answers import Call
from tasks.providers.base import (
    Account,
    JobRef,
    NewJob,
    ParsedCallback,
    Provider,
    ProviderCall,
    ProviderRejected,
    ProviderUpdate,
    Result,
    StartedJob,
)
from tasks.providers.calls import Caller, job_id
from tasks.providers.openai import payloads


class OpenAIResponses(Provider):
    adapter = "openai"
    title = "OpenAI (background responses)"
    scheme = "standard_webhooks"
    kinds = prompts.KINDS
    finds_references = False
    result_seconds = 600.0  # "Background mode": response data is stored for roughly ten minutes to enable polling
    default_base_url = "https://api.openai.com"
    takes_base_url = True
    option_words = prompts.OPTION_WORDS

    def __init__(self, account: Account, *, call_seconds: float | None = None) -> None:
        super().__init__(account)
        headers = {"authorization": f"Bearer {account.api_key}"}
        self._caller = Caller(
            account, self.base_url, headers, refusal=payloads.refusal, denied=payloads.DENIED, seconds=call_seconds
        )

    def start(self, kind: str, job: NewJob, call: ProviderCall) -> StartedJob:
        body = request(kind, job.input, call.options)
        body |= {"background": True, "store": True, "metadata": {payloads.REFERENCE: job.reference}}
        said = self._caller.document(Call.START, "POST", "/v1/responses", json=body)
        return StartedJob(job.reference, job_id(said.get("id")))

    def status(self, job: JobRef) -> ProviderUpdate:
        return payloads.response_update(self._caller.document(Call.POLL, "GET", _path(job)))

    def result(self, job: JobRef) -> Result:
        return payloads.result(self._caller.document(Call.RESULT, "GET", _path(job)), job.kind)

    def cancel(self, job: JobRef) -> ProviderUpdate:
        try:
            return payloads.response_update(self._caller.document(Call.CANCEL, "POST", f"{_path(job)}/cancel"))
        except ProviderRejected:  # of one that is finished; what it came to decides
            return self.status(job)

    def parse(self, body: bytes, headers: Mapping[str, str]) -> ParsedCallback:
        return payloads.parse(body)


def request(kind: str, given: Mapping[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
    """The body of a response, singly or as a line of a batch: prompt, model, and the schema of the answer."""
    body: dict[str, Any] = {
        "model": prompts.model(options),
        "input": prompts.words(kind, given, options),
        "max_output_tokens": prompts.max_tokens(options),
    }
    if kind in prompts.PROMPTS and not options.get("prompt"):
        schema = prompts.PROMPTS[kind].schema
        body["text"] = {"format": {"type": "json_schema", "name": kind, "schema": schema, "strict": True}}
    return body


def _path(job: JobRef) -> str:
    return f"/v1/responses/{quote(job.job_id, safe='')}"
