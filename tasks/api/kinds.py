"""`/kinds/`: what can be submitted, how it is treated, and the switch that holds a kind."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import viewsets
from rest_framework.decorators import action
from rest_framework.exceptions import PermissionDenied
from rest_framework.request import Request
from rest_framework.response import Response

from kernel.api.problems import NotFound
from kernel.auth import HasScope, IsUnbound, Scope, caller_of, need
from tasks import accounts, kinds
from tasks.accounting import policies as settings_of
from tasks.api.refusals import as_problems
from tasks.api.shapes import KindSerializer, KindsSerializer, PolicyChangesIn, ReasonSerializer
from tasks.engine import policies
from tasks.errors import InvalidSetting, UnknownKind
from tasks.kinds import Kind
from tasks.models import KindPolicy
from tasks.providers.base import Provider


class KindViewSet(viewsets.ViewSet):
    """The kinds of work, their input schemas and their policies."""

    permission_classes = (HasScope("tasks:read", "tasks:write"),)
    lookup_value_regex = "[A-Za-z0-9_-]{1,60}"

    def get_permissions(self) -> list[Any]:
        """Where work goes and how much of it is set by who may set accounts."""
        if self.action == "partial_update":
            return [HasScope(Scope.ACCOUNTS_WRITE)(), IsUnbound()]
        return list(super().get_permissions())

    @extend_schema(summary="List kinds", responses=KindsSerializer)
    def list(self, request: Request) -> Response:
        policies = {policy.kind: policy for policy in KindPolicy.objects.all()}
        there = accounts.available()
        shown = [_shown(kind, policies.get(kind.name), there) for kind in kinds.KINDS.values()]
        gone = sorted(name for name in policies if not kinds.exists(name))
        return Response({"next": None, "previous": None, "results": shown, "gone": gone})

    @extend_schema(summary="Get a kind", responses=KindSerializer)
    def retrieve(self, request: Request, pk: str) -> Response:
        return _answer(_known(pk))

    @extend_schema(summary="Change a kind's policy", request=PolicyChangesIn, responses=KindSerializer)
    def partial_update(self, request: Request, pk: str) -> Response:
        """Where its new work goes, and how much of it at once. Jobs in flight stay where they are."""
        need(request, "tasks.change_kindpolicy")
        asked = PolicyChangesIn(data=request.data, partial=True)
        asked.is_valid(raise_exception=True)
        values = dict(asked.validated_data)
        reason = values.pop("reason", "")
        kind = _known(pk)
        with as_problems(), _named_as_here():
            settings_of.change(kind.name, values, actor=caller_of(request).name, reason=reason)
        return _answer(kind)

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
        raise NotFound(_gone(name) or error.detail) from None


@contextmanager
def _named_as_here() -> Iterator[None]:
    """The column of the account has another name than the field."""
    try:
        yield
    except InvalidSetting as error:
        rows = [{**row, "field": "account"} if row["field"] == settings_of.ACCOUNT else row for row in error.errors]
        raise InvalidSetting(rows) from None


def _gone(name: str) -> str:
    """Words for a kind that was here; "" for one that never was."""
    was_here = KindPolicy.objects.filter(kind=name.replace("-", "_")).exists()
    return f"The app that brought the kind {name} is gone. Its tasks wait until it is installed again." * was_here


def _answer(kind: Kind) -> Response:
    return Response(_shown(kind, KindPolicy.objects.filter(kind=kind.name).first(), accounts.available()))


def _shown(kind: Kind, policy: KindPolicy | None, there: Mapping[str, Provider]) -> dict[str, Any]:
    """`there`: every account by name."""
    policy = policy or KindPolicy(kind=kind.name)
    return {
        "kind": kind.name,
        "title": kind.title,
        "is_external": kind.is_external,
        "input_schema": kind.schema,
        "policy": {
            "account": _account_of(kind, policy, there),
            "options": policy.options,
            "starts_again_unasked": policy.starts_again_unasked,
            "is_paused": policy.is_paused,
            "concurrency": policy.concurrency,
            "rate_per_minute": policy.rate_per_minute,
            "subscriber_concurrency": policy.subscriber_concurrency,
            "subscriber_rate_per_minute": policy.subscriber_rate_per_minute,
            "memory_mb": policy.memory_mb,
            "attempt_limit": policy.attempt_limit,
            "timeout_seconds": policy.timeout_seconds,
            "batch_size": policy.batch_size,
        },
    }


def _account_of(kind: Kind, policy: KindPolicy, there: Mapping[str, Provider]) -> str:
    """Where new work of it goes; empty for an internal kind, and where nobody can do it."""
    if not kind.is_external:
        return ""
    if policy.provider:
        return policy.provider if policy.provider in there else ""
    return next((name for name, provider in there.items() if kind.name in provider.kinds), "")
