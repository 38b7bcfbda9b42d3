"""The verbs of an endpoint: `POST /endpoints/{id}/pause/` and its like."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.shortcuts import get_object_or_404
from drf_spectacular.utils import extend_schema
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from delivery import endpoints
from delivery.api.base import ApiViews, need
from delivery.api.endpoint_shapes import EndpointOut, EndpointWithSecret, EndSecretIn, ResumeIn, RotationIn
from delivery.api.serializers import DeliveryOut, ReasonIn
from delivery.models import Endpoint
from kernel.api.idempotency import idempotent
from kernel.api.openapi import IDEMPOTENCY_KEY, problem


class EndpointVerbs(ApiViews):
    """What the views of endpoints are made of, beside reading and changing them."""

    @extend_schema(summary="Pause: hold its deliveries", request=ReasonIn, responses=EndpointOut)
    @action(detail=True, methods=["post"])
    def pause(self, request: Request, pk: str) -> Response:
        need(request, "delivery.pause_endpoint")
        return self._out(endpoints.pause(self.get_object(), actor=self.actor(), reason=self._reason()))

    @extend_schema(
        summary="Resume: send what was held",
        description=(
            "Ends a pause, and the hold after repeated refusals; those refusals' dead letters go too, unless "
            "`redrive_refused` is false. Breaker, counters, a wait and a learned pace begin anew."
        ),
        request=ResumeIn,
        responses={200: EndpointOut, 409: problem("It is disabled: enable it instead")},
    )
    @action(detail=True, methods=["post"])
    def resume(self, request: Request, pk: str) -> Response:
        need(request, "delivery.pause_endpoint")
        return self._out(endpoints.resume(self.get_object(), actor=self.actor(), **self._valid(ResumeIn)))

    @extend_schema(
        summary="Enable a disabled endpoint",
        description="Breaker, counters, a wait and a learned pace begin anew.",
        request=ReasonIn,
        responses=EndpointOut,
    )
    @action(detail=True, methods=["post"])
    def enable(self, request: Request, pk: str) -> Response:
        need(request, "delivery.pause_endpoint")
        return self._out(endpoints.enable(self.get_object(), actor=self.actor(), reason=self._reason()))

    @extend_schema(
        summary="Lift a throttle",
        description="Forgets the wait that the receiver asked for and the pace learned from its answers.",
        request=ReasonIn,
        responses=EndpointOut,
    )
    @action(detail=True, methods=["post"], url_path="lift-throttle")
    def lift_throttle(self, request: Request, pk: str) -> Response:
        need(request, "delivery.pause_endpoint")
        return self._out(endpoints.lift_throttle(self.get_object(), actor=self.actor(), reason=self._reason()))

    @extend_schema(
        summary="Make the learned pace its limit",
        description="Sets `rate_per_minute` to the pace that its answers of 429 have taught us.",
        request=ReasonIn,
        responses={200: EndpointOut, 409: problem("No pace is known")},
    )
    @action(detail=True, methods=["post"], url_path="fix-rate")
    def fix_rate(self, request: Request, pk: str) -> Response:
        need(request, "delivery.change_endpoint")
        return self._out(endpoints.fix_rate(self.get_object(), actor=self.actor(), reason=self._reason()))

    @extend_schema(
        summary="Send it a test event",
        description="Its first attempt goes out at once, whatever holds the endpoint; GET the delivery for the result.",
        request=ReasonIn,
        parameters=[IDEMPOTENCY_KEY],
        responses={202: DeliveryOut},
    )
    @action(detail=True, methods=["post"])
    @idempotent
    def test(self, request: Request, pk: str) -> Response:
        sent = endpoints.send_test(self.get_object(), actor=self.actor(), reason=self._reason())
        return Response(DeliveryOut(sent, context=self.get_serializer_context()).data, status=202)

    @extend_schema(
        summary="Rotate the signing secret",
        description=(
            "The one before it signs until `overlap_seconds` are over, and every earlier one until the time that was "
            "promised for it; at most five sign at once. The answer tells the new one, "
            "this once; for v1a the public key."
        ),
        request=RotationIn,
        parameters=[IDEMPOTENCY_KEY],
        responses={
            200: EndpointWithSecret,
            400: problem("The secret brought along cannot be used"),
            409: problem("Five secrets sign already"),
        },
    )
    @action(detail=True, methods=["post"], url_path="rotate-secret")
    def rotate_secret(self, request: Request, pk: str) -> Response:
        need(request, "delivery.view_secret_endpoint")
        return self._with_secret(self._rotate(request, self.get_object(), self._valid(RotationIn)))

    @idempotent
    def _rotate(self, _request: Request, endpoint: Endpoint, asked: dict[str, Any]) -> Response:
        overlap = timedelta(seconds=asked.pop("overlap_seconds"))
        rotated = endpoints.rotate_secret(endpoint, actor=self.actor(), overlap=overlap, **asked)
        return Response({"id": str(rotated.pk), "changed_at": rotated.secret_changed_at})

    @extend_schema(
        summary="End a secret at once",
        description="After a leak: an earlier secret, named by its id, signs no more from now on.",
        request=EndSecretIn,
        responses={
            200: EndpointOut,
            400: problem("No secret of this id signs"),
            409: problem("It is the standing secret: rotate it with no overlap"),
        },
    )
    @action(detail=True, methods=["post"], url_path="end-secret")
    def end_secret(self, request: Request, pk: str) -> Response:
        need(request, "delivery.view_secret_endpoint")
        endpoint, asked = self.get_object(), self._valid(EndSecretIn)
        return self._out(endpoints.end_secret(endpoint, asked["id"], actor=self.actor(), reason=asked["reason"]))

    def _with_secret(self, kept: Response) -> Response:
        """The whole answer. A repeat is told the secret too, unless it was rotated in the meantime.

        A private key is told to nobody: who has it could sign as we do.
        """
        endpoint = get_object_or_404(self.get_queryset(), pk=kept.data["id"])
        is_same = self._moment(endpoint.secret_changed_at) == self._moment(kept.data["changed_at"])
        secret = endpoint.secret if is_same and not endpoint.public_key else ""
        body = {**self.get_serializer(endpoint).data, "secret": secret}
        headers = {name: value for name, value in kept.headers.items() if name.lower().startswith("idempotent")}
        return Response(body, status=kept.status_code, headers={**headers, "Cache-Control": "no-store"})

    @staticmethod
    def _moment(value: Any) -> str:
        text = value if isinstance(value, str) else value.isoformat()
        return text.replace("Z", "+00:00")[:23]  # a kept answer has milliseconds only

    def _valid(self, serializer: Any, *, partial: bool = False) -> dict[str, Any]:
        asked = serializer(data=self.request.data, partial=partial, context=self.get_serializer_context())
        asked.is_valid(raise_exception=True)
        return dict(asked.validated_data)

    def _reason(self) -> str:
        return self._valid(ReasonIn)["reason"]

    def _out(self, endpoint: Endpoint) -> Response:
        return Response(self.get_serializer(endpoint).data)
