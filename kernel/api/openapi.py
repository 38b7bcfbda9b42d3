"""What drf-spectacular must be told about us: how callers authenticate, and the shape of a problem.

Imported by `kernel.apps.KernelConfig.ready`; nothing else needs it at run time.
"""

from typing import Any

from drf_spectacular.extensions import OpenApiAuthenticationExtension
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse
from rest_framework import serializers


class ApiKeyScheme(OpenApiAuthenticationExtension):
    target_class = "kernel.auth.ApiKeyAuthentication"
    name = "apiKey"

    def get_security_definition(self, auto_schema: Any) -> dict[str, Any]:
        return {"type": "http", "scheme": "bearer", "description": "An API key: `Authorization: Bearer rt_…`."}


class ConsoleSessionScheme(OpenApiAuthenticationExtension):
    target_class = "kernel.auth.ConsoleSessionAuthentication"
    name = "consoleSession"

    def get_security_definition(self, auto_schema: Any) -> dict[str, Any]:
        return {"type": "apiKey", "in": "cookie", "name": "sessionid", "description": "A console user's session."}


class FieldProblem(serializers.Serializer):
    field = serializers.CharField(help_text="Dotted path; empty for the request as a whole.")
    code = serializers.CharField()
    detail = serializers.CharField()


class ProblemDocument(serializers.Serializer):
    """RFC 9457, with a stable `code`."""

    type = serializers.CharField()
    title = serializers.CharField()
    status = serializers.IntegerField()
    code = serializers.CharField()
    detail = serializers.CharField()
    errors = FieldProblem(many=True, required=False)  # type: ignore[assignment]
    error_count = serializers.IntegerField(required=False, help_text="How many there are, where more than are listed.")


def problem(description: str) -> OpenApiResponse:
    """A documented refusal."""
    return OpenApiResponse(ProblemDocument, description=description)


PROBLEM = "#/components/schemas/ProblemDocument"
PROBLEM_TYPE = "application/problem+json"


def tell_refusals(result: dict[str, Any], **_: Any) -> dict[str, Any]:
    """A postprocessing hook: every operation may answer with a problem, and a problem has its own media type."""
    for operations in result["paths"].values():
        for operation in operations.values():
            if isinstance(operation, dict) and "responses" in operation:
                _add_refusal(operation["responses"])
    return result


def _add_refusal(responses: dict[str, Any]) -> None:
    for response in responses.values():
        body = response.get("content", {}).get("application/json")
        if body and body.get("schema", {}).get("$ref") == PROBLEM:
            response["content"] = {PROBLEM_TYPE: body}
    words = "A refusal: `code` says which, `detail` what to do."
    responses.setdefault("default", {"description": words, "content": {PROBLEM_TYPE: {"schema": {"$ref": PROBLEM}}}})


IDEMPOTENCY_KEY = OpenApiParameter(
    "Idempotency-Key",
    str,
    OpenApiParameter.HEADER,
    description="Makes the create repeatable: the same key and body give the first answer again for 24 h.",
)
