"""`/kinds/`: what can be submitted, how it is treated, and the switch that holds a kind."""

from collections.abc import Callable
from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import viewsets
from rest_framework.decorators import action
from rest_framework.exceptions import PermissionDenied
from rest_framework.request import Request
from rest_framework.response import Response

from kernel.api.problems import NotFound
from kernel.auth import HasScope, caller_of, need
from tasks import kinds
from tasks.api.shapes import KindSerializer, KindsSerializer, ReasonSerializer
from tasks.engine import policies
from tasks.errors import UnknownKind
from tasks.kinds import Kind
from tasks.models import KindPolicy


class KindViewSet(viewsets.ViewSet):
    """The kinds of work, their input schemas and their policies."""

    permission_classes = (HasScope("tasks:read", "tasks:write"),)
    lookup_value_regex = "[A-Za-z0-9_-]{1,60}"

    @extend_schema(summary="List kinds", responses=KindsSerializer)
    def list(self, request: Request) -> Response:
        policies = {policy.kind: policy for policy in KindPolicy.objects.all()}
        shown = [_shown(kind, policies.get(kind.name)) for kind in kinds.KINDS.values()]
        return Response({"next": None, "previous": None, "results": shown})

    @extend_schema(summary="Get a kind", responses=KindSerializer)
    def retrieve(self, request: Request, pk: str) -> Response:
        return _answer(_known(pk))

    @extend_schema(summary="Pause: start nothing new of it", request=ReasonSerializer, responses=KindSerializer)
    @action(detail=True, methods=["post"])
    def pause(self, request: Request, pk: str) -> Response:
        """Nothing new of this kind starts; running tasks go on. Pausing twice changes nothing the second time."""
        return self._switch(request, pk, policies.pause_kind)

    @extend_schema(summary="Resume: start what was held", request=ReasonSerializer, responses=KindSerializer)
    @action(detail=True, methods=["post"])
    def resume(self, request: Request, pk: str) -> Response:
        """Waiting tasks of this kind start at once, held ones too. Where nothing held it, nothing changes."""
        return self._switch(request, pk, policies.resume_kind)

    def _switch(self, request: Request, pk: str, verb: Callable[..., bool]) -> Response:
        need(request, "tasks.pause_kind")
        caller = caller_of(request)
        if caller.subscriber is not None:
            raise PermissionDenied("A kind is everybody's: a key bound to a subscriber cannot pause or resume it.")
        asked = ReasonSerializer(data=request.data)
        asked.is_valid(raise_exception=True)
        kind = _known(pk)
        verb(kind.name, actor=caller.name, reason=asked.validated_data["reason"])
        return _answer(kind)


def _known(name: str) -> Kind:
    try:
        return kinds.get(name)
    except UnknownKind as error:
        raise NotFound(error.detail) from None


def _answer(kind: Kind) -> Response:
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
