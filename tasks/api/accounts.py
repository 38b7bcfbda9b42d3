"""`/provider-accounts/`: made, looked at, changed, checked, rotated, paused and retired."""

from datetime import timedelta
from typing import Any

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework import serializers, viewsets
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from kernel.api.idempotency import idempotent
from kernel.api.openapi import IDEMPOTENCY_KEY, problem
from kernel.auth import HasScope, IsUnbound, Scope, caller_of, need
from tasks import accounting, accounts
from tasks.api.account_shapes import (
    AccountChangesIn,
    AccountSerializer,
    CheckSerializer,
    NewAccountIn,
    NewKeyIn,
    NewSecretIn,
)
from tasks.api.refusals import as_problems
from tasks.api.shapes import ReasonSerializer
from tasks.models import ProviderAccount

CHANGE, PAUSE = "tasks.change_provideraccount", "tasks.pause_provideraccount"
BY_ENVIRONMENT = problem("Variables of the environment set it")


class AccountViewSet(viewsets.GenericViewSet):
    """Accounts at job providers: keys come in, and never go out."""

    permission_classes = (HasScope(Scope.ACCOUNTS_WRITE), IsUnbound)
    serializer_class = AccountSerializer
    queryset = ProviderAccount.objects.all()
    lookup_value_regex = "[A-Za-z][A-Za-z0-9_-]{0,59}"

    def get_queryset(self) -> QuerySet[ProviderAccount]:
        return ProviderAccount.objects.order_by("-id")

    @extend_schema(summary="List provider accounts")
    def list(self, request: Request) -> Response:
        """All of them, retired ones too, newest first."""
        accounts.available()  # those of the environment are rows only once somebody has asked
        page = self.paginate_queryset(self.get_queryset())
        return self.get_paginated_response(self.get_serializer(page, many=True).data)

    @extend_schema(summary="Get a provider account")
    def retrieve(self, request: Request, pk: str) -> Response:
        with as_problems():
            return self._out(accounting.find(pk))

    @extend_schema(
        summary="Make a provider account",
        request=NewAccountIn,
        responses={201: AccountSerializer},
        parameters=[IDEMPOTENCY_KEY],
    )
    @idempotent
    def create(self, request: Request) -> Response:
        """Kinds send work there once their policy names it. Check it next."""
        need(request, "tasks.add_provideraccount")
        asked = self._asked(NewAccountIn)
        name, adapter, by = asked.pop("name"), asked.pop("adapter"), self._by(asked)
        with as_problems():
            row = accounting.create(name, adapter, asked, **by)
        return self._out(row, 201)

    @extend_schema(summary="Change a provider account", request=AccountChangesIn, responses=AccountSerializer)
    def partial_update(self, request: Request, pk: str) -> Response:
        """Only what is given. Name and adapter stay; a secret is rotated."""
        need(request, CHANGE)
        asked = self._asked(AccountChangesIn)
        with as_problems():
            by = self._by(asked)
            return self._out(accounting.update(accounting.find(pk).name, asked, **by))

    @extend_schema(summary="Check: ask the provider", request=ReasonSerializer, responses=CheckSerializer)
    @action(detail=True, methods=["post"])
    def check(self, request: Request, pk: str) -> Response:
        """One harmless question with its real credentials; what was found is kept on the account."""
        need(request, CHANGE)
        asked = self._asked(ReasonSerializer)
        with as_problems():
            row = accounting.find(pk)
            answer = accounting.check(row.name, **self._by(asked))
        row.refresh_from_db()
        shown = self.get_serializer(row).data
        return Response({"found": answer.found.value, "words": answer.words, "account": shown})

    @extend_schema(
        summary="Rotate the webhook secret",
        request=NewSecretIn,
        responses={200: AccountSerializer, 409: problem("An earlier secret lives, or variables set it")},
    )
    @action(detail=True, methods=["post"], url_path="rotate-secret")
    def rotate_secret(self, request: Request, pk: str) -> Response:
        """The provider makes the new one. The one before is accepted until the overlap is over, seven days at most."""
        need(request, CHANGE)
        asked = self._asked(NewSecretIn)
        with as_problems():
            overlap = timedelta(seconds=asked["overlap_seconds"])
            name, by = accounting.find(pk).name, self._by(asked)
            return self._out(accounting.rotate_secret(name, asked["secret"], overlap=overlap, **by))

    @extend_schema(summary="End the secret before", request=ReasonSerializer, responses=AccountSerializer)
    @action(detail=True, methods=["post"], url_path="end-previous-secret")
    def end_previous_secret(self, request: Request, pk: str) -> Response:
        """After a leak: only the standing secret is accepted from now on. Where there is no other, nothing changes."""
        return self._verb(accounting.end_previous_secret, pk, CHANGE)

    @extend_schema(
        summary="Rotate the API key",
        request=NewKeyIn,
        responses={200: AccountSerializer, 409: BY_ENVIRONMENT},
    )
    @action(detail=True, methods=["post"], url_path="rotate-key")
    def rotate_key(self, request: Request, pk: str) -> Response:
        """The next call carries it, and a hold ends."""
        need(request, CHANGE)
        asked = self._asked(NewKeyIn)
        with as_problems():
            name, by = accounting.find(pk).name, self._by(asked)
            return self._out(accounting.rotate_key(name, asked["api_key"], **by))

    @extend_schema(summary="Pause: start nothing new there", request=ReasonSerializer, responses=AccountSerializer)
    @action(detail=True, methods=["post"])
    def pause(self, request: Request, pk: str) -> Response:
        """Running jobs go on: they are polled, fetched and cancelled. Pausing twice changes nothing."""
        return self._verb(accounting.pause, pk, PAUSE)

    @extend_schema(summary="Resume: start what waited", request=ReasonSerializer, responses=AccountSerializer)
    @action(detail=True, methods=["post"])
    def resume(self, request: Request, pk: str) -> Response:
        """Waiting tasks start at once; a hold ends too."""
        return self._verb(accounting.resume, pk, PAUSE)

    @extend_schema(
        summary="Retire: nothing new for good",
        request=ReasonSerializer,
        responses={200: AccountSerializer, 409: problem("A kind is set to it, or variables make it")},
    )
    @action(detail=True, methods=["post"])
    def retire(self, request: Request, pk: str) -> Response:
        """Jobs in flight finish; nothing new goes there. It cannot be undone, and the name stays taken."""
        return self._verb(accounting.retire, pk, "tasks.delete_provideraccount")

    def _verb(self, verb: Any, pk: str, permission: str) -> Response:
        need(self.request, permission)
        asked = self._asked(ReasonSerializer)
        with as_problems():
            row = accounting.find(pk)
            verb(row.name, **self._by(asked))
        row.refresh_from_db()
        return self._out(row)

    def _asked(self, serializer: type[serializers.Serializer]) -> dict[str, Any]:
        asked = serializer(data=self.request.data)
        asked.is_valid(raise_exception=True)
        return dict(asked.validated_data)

    def _by(self, asked: dict[str, Any]) -> dict[str, str]:
        """Who acts and why; the reason is no field of the account."""
        return {"actor": caller_of(self.request).name, "reason": asked.pop("reason", "")}

    def _out(self, row: ProviderAccount, status: int = 200) -> Response:
        return Response(self.get_serializer(row).data, status=status)
