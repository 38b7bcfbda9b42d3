"""`Idempotency-Key`: a repeat gets the first answer; key row and effect share a transaction. SQL: its insert."""

import hashlib
import json
from collections.abc import Callable
from functools import wraps
from typing import Any

from django.db import OperationalError, connection, transaction
from django.utils import timezone
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.utils.encoders import JSONEncoder

from kernel.api.problems import BadInput, Conflict, Unprocessable
from kernel.auth import caller_of
from kernel.models import IDEMPOTENCY_WINDOW, IdempotencyRecord

HEADER = "idempotency-key"
REPLAYED = "Idempotent-Replayed"
WAIT = "2s"


def idempotent(handler: Callable[..., Response]) -> Callable[..., Response]:
    """Decorate a view's creating method. Without the header the handler just runs in a transaction."""

    @wraps(handler)
    def handle(view: Any, request: Request, *args: Any, **kwargs: Any) -> Response:
        key = request.headers.get(HEADER)
        digest = hashlib.sha256(request.body).hexdigest()
        if key is None:
            with transaction.atomic():
                return handler(view, request, *args, **kwargs)
        if not 1 <= len(key) <= 255 or not key.isprintable():
            raise BadInput(
                "The Idempotency-Key must have 1 to 255 printable characters.",
                code="bad_idempotency_key",
            )
        identity = {
            "caller": caller_of(request).name,
            "method": request.method,
            "path": f"{request.path.rstrip('/')}/",  # one address, with and without its slash
            "key": key,
        }
        with transaction.atomic():
            earlier = _reserve(identity, digest)
            if earlier is not None:
                return _again(earlier, digest)
            response = handler(view, request, *args, **kwargs)
            _keep(identity, response)
            return response

    return handle


def _reserve(identity: dict[str, Any], digest: str) -> IdempotencyRecord | None:
    """Insert our row; returns the earlier record if there is one. A twin in progress is waited for, two seconds."""
    IdempotencyRecord.objects.filter(**identity, created_at__lt=timezone.now() - IDEMPOTENCY_WINDOW).delete()
    try:
        with connection.cursor() as cursor:
            cursor.execute(f"SET LOCAL lock_timeout = '{WAIT}'")
            cursor.execute(
                "INSERT INTO kernel_idempotencyrecord (caller, method, path, key, body_sha256, created_at)"
                " VALUES (%(caller)s, %(method)s, %(path)s, %(key)s, %(digest)s, clock_timestamp())"
                " ON CONFLICT DO NOTHING",
                {**identity, "digest": digest},
            )
            inserted = cursor.rowcount == 1
            cursor.execute("SET LOCAL lock_timeout = 0")
    except OperationalError as error:
        if getattr(error.__cause__, "sqlstate", "") == "55P03":  # lock_not_available: the twin is still at work
            raise Conflict(
                "The first request with this Idempotency-Key is still in progress; ask again.",
                code="idempotency_in_progress",
                headers={"Retry-After": "1"},
            ) from None
        raise
    return None if inserted else IdempotencyRecord.objects.get(**identity)


def _again(earlier: IdempotencyRecord, digest: str) -> Response:
    if earlier.body_sha256 != digest:
        raise Unprocessable(
            "This Idempotency-Key was used with another body. Use a new key for a new request.",
            code="idempotency_key_reused",
        )
    return Response(earlier.answer, status=earlier.status_code, headers={REPLAYED: "true"})


def _keep(identity: dict[str, Any], response: Response) -> None:
    """Only answers in the 200s are kept; after anything else the same key may try again."""
    if 200 <= response.status_code < 300:
        answer = json.loads(json.dumps(response.data, cls=JSONEncoder))
        IdempotencyRecord.objects.filter(**identity).update(status_code=response.status_code, answer=answer)
    else:
        IdempotencyRecord.objects.filter(**identity).delete()
