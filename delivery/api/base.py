"""What every view here shares: domain refusals as problems, and who may see and do what beyond the scope."""

from __future__ import annotations

from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.viewsets import GenericViewSet

from delivery.endpoint_rules import InvalidEndpoint
from delivery.errors import DeliveryError, InvalidEvent
from delivery.policy.postback import FieldRefused, TemplateInvalid
from kernel.api.problems import BadInput, Conflict, Problem
from kernel.auth import allows, caller_of, need
from kernel.models import ApiKey
from kernel.network.addresses import AddressRefused
from kernel.secrets import UndecryptableSecret

__all__ = ["ApiViews", "as_problem", "may_see_urls", "need"]


class ApiViews(GenericViewSet):
    """Base of the view sets: rows by numeric id, domain errors as RFC 9457 problems."""

    lookup_value_regex = "[0-9]{1,18}"

    def handle_exception(self, exc: Exception) -> Response:
        return super().handle_exception(as_problem(exc) or exc)

    def actor(self) -> str:
        return caller_of(self.request).name


def as_problem(error: Exception) -> Problem | None:
    """The problem that stands for a refusal of the delivery side."""
    if isinstance(error, InvalidEndpoint):
        return BadInput(error.detail, errors=error.errors)
    if isinstance(error, InvalidEvent):
        errors = [{"field": error.field, "code": error.code, "detail": error.detail}]
        return BadInput(error.detail, code=error.code, errors=errors)
    if isinstance(error, UndecryptableSecret):
        return Conflict(f"{error} Or set the fields anew that its `unreadable` names.", code="unreadable_secret")
    if isinstance(error, DeliveryError):
        return Conflict(error.detail, code=error.code)
    if isinstance(error, FieldRefused | TemplateInvalid | AddressRefused):
        field = getattr(error, "field", "url")
        return BadInput(error.detail, code=error.code, errors=[_row(field, error)])
    return None


def _row(field: str, error: Any) -> dict[str, str]:
    return {"field": field, "code": error.code, "detail": error.detail}


def may_see_urls(request: Request) -> bool:
    """Whole URLs and headers are secret: for keys that may write endpoints, and users with the permission."""
    if isinstance(request.auth, ApiKey):
        return allows(request, "endpoints:write")
    return bool(request.user.has_perm("delivery.view_secret_endpoint"))
