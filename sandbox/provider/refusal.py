"""How the provider says no: a status, a stable code, a sentence."""

from __future__ import annotations

from sandbox.web import json_answer


class Refusal(Exception):
    def __init__(self, status: int, code: str, message: str, *, field: str = "", retry_after: int = 0) -> None:
        super().__init__(message)
        self.status = status
        self._error = {"code": code, "message": message, **({"field": field} if field else {})}
        self._headers = [(b"retry-after", b"%d" % retry_after)] if retry_after else []

    def answer(self) -> bytes:
        return json_answer(self.status, {"error": self._error}, *self._headers)
