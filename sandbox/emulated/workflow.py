"""A service of one's own below `/workflow/`, as a workflow of n8n is one: takes a POST, works, calls back.

`POST /workflow/start` answers with a job; `POST /workflow/quiet` as n8n does by itself, with no id, and brings the
result with its callback. `GET /workflow/jobs/<id>` shows status and result, `POST /workflow/jobs/<id>/cancel` ends a
job. A start whose idempotency key came before is the same job.
"""

from __future__ import annotations

from typing import Any

from sandbox.emulated.calling_back import CallingBack, body_of
from sandbox.emulated.engine import No
from sandbox.provider import kinds
from sandbox.provider.jobs import COMPLETED, Job
from sandbox.web import Request


class Workflow(CallingBack):
    def clear(self) -> None:
        super().clear()
        self._by_key: dict[str, str] = {}

    def worded(self, no: No) -> dict[str, Any]:
        return {"error": {"code": no.code, "message": no.message}}

    async def routes(self, request: Request, parts: list[str]) -> tuple[int, Any]:
        match request.method.decode("latin-1"), parts:
            case "POST", ["start" | "quiet" as way]:
                return self._start(request, way)
            case "GET", ["jobs", name]:
                return 200, await self._shown(self.job(name), with_result=True)
            case "POST", ["jobs", name, "cancel"]:
                self.runner.cancel(self.job(name))
                return 200, await self._shown(self.job(name), with_result=False)
        raise No(404, "not_found", "There is no workflow at this address.")

    def _start(self, request: Request, way: str) -> tuple[int, Any]:
        asked = body_of(request)
        key = request.header(b"idempotency-key").decode("latin-1")
        job = self.store.get(self._by_key.get(key, ""))
        if job is None:
            job = self._begin(asked, way)
            self._by_key[key] = job.id
        return (200, {"message": "Workflow was started"}) if way == "quiet" else (201, {"job_id": job.id})

    def _begin(self, asked: dict[str, Any], way: str) -> Job:
        kind = kinds.kind_named(str(asked.get("kind") or ""))
        if kind is None:
            raise No(422, "unknown_kind", f"There is no workflow for {asked.get('kind')!r}.")
        try:
            given = kinds.checked(kind, asked.get("input"))
        except kinds.BadInput as error:
            raise No(422, "invalid_input", str(error)) from None
        reference = str(asked.get("reference") or "")
        name = str(asked.get("job_id") or (reference if way == "quiet" else ""))
        about = {"reference": reference, "way": way}
        return self.started(kind, given, name, str(asked.get("callback_url") or ""), about)

    async def _shown(self, job: Job, *, with_result: bool) -> dict[str, Any]:
        shown = {
            "job_id": job.id,
            "reference": self.asked[job.id]["reference"],
            "status": job.said_status,
            "progress": job.progress,
            "error": job.error,
        }
        if with_result and job.status == COMPLETED:
            shown["result"] = await kinds.result_of(job.kind, job.input)
        return shown

    def changed(self, job: Job) -> None:
        if job.webhook_url:
            self.spawn(self._announce(job))

    async def _announce(self, job: Job) -> None:
        quiet = self.asked[job.id]["way"] == "quiet"
        self.tell(job.webhook_url, await self._shown(job, with_result=quiet))
