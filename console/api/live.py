"""`/live/` (a topic's snapshot with an ETag: the polling fallback) and `/live-tokens/` (tokens for other origins)."""

import json
from datetime import timedelta
from typing import Any

from django.http import HttpResponse
from django.utils import timezone
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.permissions import BasePermission
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from console.live import shared_reads, viewers
from console.live.topics import TopicRefused, parse, permitted
from console.live.viewers import Viewer
from kernel.api.lists import CountedListField
from kernel.api.problems import BadInput, NotFound, Problem

DEFAULT_TTL, LEAST_TTL, MAX_TTL = 300, 10, 3600


class IsViewer(BasePermission):
    """Anybody with a key or a console login; each topic is then asked for by itself."""

    def has_permission(self, request: Request, view: Any) -> bool:
        return viewers.of_request(request) is not None


def _viewer(request: Request) -> Viewer:
    viewer = viewers.of_request(request)
    assert viewer is not None  # IsViewer let them in
    return viewer


def _refusal(refusal: TopicRefused) -> Problem:
    if refusal.code in {"permission_denied", "other_subscriber"}:
        return Problem(refusal.detail, code=refusal.code, status=403)
    return BadInput(refusal.detail, code=refusal.code)


class LiveSnapshotSerializer(serializers.Serializer):
    topic = serializers.CharField()
    version = serializers.IntegerField(help_text="Grows; an older one never replaces a newer one.")
    data = serializers.JSONField(  # type: ignore[assignment]
        help_text="The whole small state of the topic."
    )


class LiveView(APIView):
    """One topic's snapshot, the same as `/ws/live/` sends. Send the ETag back as `If-None-Match`; 304 if unchanged."""

    permission_classes = [IsViewer]

    @extend_schema(
        operation_id="live_snapshot",
        summary="Get a topic's snapshot",
        parameters=[OpenApiParameter("topic", OpenApiTypes.STR, required=True)],
        responses={200: LiveSnapshotSerializer, 304: None},
    )
    def get(self, request: Request) -> HttpResponse:
        asked = request.query_params.get("topic", "")
        viewer = _viewer(request)
        try:
            topic = permitted(parse(asked), viewer)
        except TopicRefused as refusal:
            raise _refusal(refusal) from None
        snapshot = shared_reads.read(topic)
        if snapshot is None or not viewer.sees(snapshot.owner):
            raise NotFound("There is nothing here that you may see.")
        etag = f'"{snapshot.etag}"'
        if etag in {one.strip().removeprefix("W/") for one in request.headers.get("if-none-match", "").split(",")}:
            response = HttpResponse(status=304)
        else:
            response = HttpResponse('{"topic":' + json.dumps(asked) + snapshot.tail, content_type="application/json")
        response.headers["ETag"] = etag
        response.headers["Cache-Control"] = "private, no-cache"
        return response


class LiveTokenSerializer(serializers.Serializer):
    topics = CountedListField(child=serializers.CharField(max_length=400), min_length=1, max_length=50)
    ttl = serializers.IntegerField(
        default=DEFAULT_TTL, min_value=LEAST_TTL, max_value=MAX_TTL, help_text="Seconds until it ends; at most an hour."
    )


class IssuedTokenSerializer(serializers.Serializer):
    token = serializers.CharField()
    topics = serializers.ListField(child=serializers.CharField())
    expires_at = serializers.DateTimeField()


class LiveTokensView(APIView):
    """A short-lived token that opens these topics, and no others, on `/ws/live/`: for a browser on another origin."""

    permission_classes = [IsViewer]

    @extend_schema(
        operation_id="live_token_create",
        summary="Issue a token for the websocket",
        request=LiveTokenSerializer,
        responses={201: IssuedTokenSerializer},
    )
    def post(self, request: Request) -> Response:
        asked = LiveTokenSerializer(data=request.data)
        asked.is_valid(raise_exception=True)
        viewer = _viewer(request)
        try:
            topics = [permitted(parse(name), viewer).name for name in asked.validated_data["topics"]]
        except TopicRefused as refusal:
            raise _refusal(refusal) from None
        life = timedelta(seconds=asked.validated_data["ttl"])
        token, until = viewers.issue_token(viewer, topics, life, timezone.now())
        return Response({"token": token, "topics": topics, "expires_at": until}, status=201)
