"""`/kinds/`: what can be submitted, and how it is treated."""

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import viewsets
from rest_framework.request import Request
from rest_framework.response import Response

from kernel.auth import HasScope
from kernel.problems import NotFound
from tasks import kinds
from tasks.api.shapes import KindSerializer, KindsSerializer
from tasks.errors import UnknownKind
from tasks.kinds import Kind
from tasks.models import KindPolicy


class KindViewSet(viewsets.ViewSet):
    """The kinds of work, their input schemas and their policies."""

    permission_classes = (HasScope("tasks:read"),)
    lookup_value_regex = "[A-Za-z0-9_-]{1,60}"

    @extend_schema(responses=KindsSerializer)
    def list(self, request: Request) -> Response:
        policies = {policy.kind: policy for policy in KindPolicy.objects.all()}
        shown = [_shown(kind, policies.get(kind.name)) for kind in kinds.KINDS.values()]
        return Response({"next": None, "previous": None, "results": shown})

    @extend_schema(responses=KindSerializer)
    def retrieve(self, request: Request, pk: str) -> Response:
        try:
            kind = kinds.get(pk)
        except UnknownKind as error:
            raise NotFound(error.detail) from None
        return Response(_shown(kind, KindPolicy.objects.filter(kind=kind.name).first()))


def _shown(kind: Kind, policy: KindPolicy | None) -> dict[str, Any]:
    policy = policy or KindPolicy(kind=kind.name)
    provider = kinds.provider_for(policy) if kind.is_external else None
    return {
        "kind": kind.name,
        "title": kind.title,
        "is_external": kind.is_external,
        "input_schema": kind.schema,
        "policy": {
            "provider": provider.name if provider else "",
            "is_paused": policy.is_paused,
            "concurrency": policy.concurrency,
            "rate_per_minute": policy.rate_per_minute,
            "attempt_limit": policy.attempt_limit,
            "timeout_seconds": policy.timeout_seconds,
            "batch_size": policy.batch_size,
        },
    }
