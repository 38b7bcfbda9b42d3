"""Who calls, and what they may: API keys with scopes, and console users with model permissions.

Every API view names its scope with `HasScope(...)`; a view that names none is closed (`DenyAll`).
"""

import hashlib
import hmac
import secrets
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import models
from rest_framework import exceptions
from rest_framework.authentication import BaseAuthentication, SessionAuthentication
from rest_framework.permissions import BasePermission
from rest_framework.request import Request

from kernel import clock
from kernel.models import ApiKey

PREFIX = "rt"
LAST_USED_GRAIN = timedelta(minutes=1)
CALLER_LENGTH = 80
NO_RIGHT = "You may not do this; ask an administrator for the right."


class Scope(models.TextChoices):
    """What an API key may be allowed to do."""

    TASKS_READ = "tasks:read", "Read tasks, batches and kinds"
    TASKS_WRITE = "tasks:write", "Submit, cancel and redrive tasks"
    EVENTS_WRITE = "events:write", "Publish events"
    DELIVERIES_READ = "deliveries:read", "Read events, deliveries, endpoints and statistics"
    DELIVERIES_WRITE = "deliveries:write", "Redrive, discard and send deliveries at once"
    ENDPOINTS_WRITE = "endpoints:write", "Create, change and remove endpoints"
    OPERATIONS_WRITE = "operations:write", "Start and steer bulk operations; acknowledge alerts"


@dataclass(frozen=True)
class Caller:
    """Whoever made the request: a stable name for logs and records, and the subscriber they are bound to, if any."""

    name: str
    subscriber: str | None = None


class ApiKeyUser:
    """Stands in for `request.user` when an API key calls: no Django user, no session."""

    is_authenticated = True
    is_anonymous = False
    is_active = True
    is_staff = False
    pk = None

    def __init__(self, key: ApiKey) -> None:
        self.username = f"key:{key.key_id}"

    def has_perm(self, _perm: str, _obj: object = None) -> bool:
        return False


def create_key(
    name: str, scopes: list[str], *, subscriber: str = "", is_demo: bool = False, token: str | None = None
) -> tuple[ApiKey, str]:
    """Make a key; returns it with its bearer token, which is shown this once. Unknown scopes raise ValueError."""
    unknown = sorted(set(scopes) - set(Scope.values))
    if unknown:
        raise ValueError(f"Unknown scope {unknown[0]!r}; choose from {', '.join(Scope.values)}.")
    token = token or f"{PREFIX}_{secrets.token_hex(6)}_{secrets.token_hex(32)}"
    key_id, secret = split_token(token)
    key = ApiKey.objects.create(
        name=name,
        key_id=key_id,
        secret_sha256=hashlib.sha256(secret.encode()).hexdigest(),
        scopes=sorted(set(scopes)),
        subscriber=subscriber,
        is_demo=is_demo,
    )
    return key, token


def split_token(token: str) -> tuple[str, str]:
    """`rt_<key id>_<secret>` → (key id, secret); ValueError for anything else."""
    parts = token.split("_")
    if len(parts) != 3 or parts[0] != PREFIX or not (parts[1] and parts[2]) or "\x00" in token:
        raise ValueError("not a Roundtrip API key")
    return parts[1], parts[2]


def find_key(token: str, now: datetime) -> ApiKey | None:
    """The live key that this bearer token opens, or None."""
    try:
        key_id, secret = split_token(token)
    except ValueError:
        return None
    key = ApiKey.objects.filter(key_id=key_id).first()
    if key is None or not key.is_live(now) or (key.is_demo and settings.PRODUCTION):
        return None
    digest = hashlib.sha256(secret.encode()).hexdigest()
    return key if hmac.compare_digest(digest, key.secret_sha256) else None


def _note_use(key: ApiKey, now: datetime) -> None:
    if key.last_used_at is None or now - key.last_used_at > LAST_USED_GRAIN:
        ApiKey.objects.filter(pk=key.pk).update(last_used_at=now)


class ApiKeyAuthentication(BaseAuthentication):
    """`Authorization: Bearer rt_<id>_<secret>`."""

    def authenticate(self, request: Request) -> tuple[ApiKeyUser, ApiKey] | None:
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer":
            return None
        now = clock.now()
        key = find_key(token.strip(), now)
        if key is None:
            raise exceptions.AuthenticationFailed(
                "This API key is unknown, revoked or expired. Send a whole one, or ask an operator for a new one.",
                code="invalid_api_key",
            )
        _note_use(key, now)
        return ApiKeyUser(key), key

    def authenticate_header(self, request: Request) -> str:
        return 'Bearer realm="roundtrip"'


class ConsoleSessionAuthentication(SessionAuthentication):
    """A console user's session, with CSRF; only staff."""

    def authenticate(self, request: Request) -> tuple[Any, None] | None:
        found = super().authenticate(request)
        return found if found is None or found[0].is_staff else None


class DenyAll(BasePermission):
    """The default: a view that names no scope answers nobody."""

    def has_permission(self, request: Request, view: Any) -> bool:
        return False


def HasScope(read: str, write: str | None = None) -> type[BasePermission]:
    """Permission: `read` for GET, HEAD and OPTIONS, `write` (default: the same) for the rest.

    A console user needs the model permission that `settings.SCOPE_PERMISSIONS` names for the scope.
    """

    class ScopePermission(BasePermission):
        def has_permission(self, request: Request, view: Any) -> bool:
            scope = read if request.method in {"GET", "HEAD", "OPTIONS"} else (write or read)
            self.message = lack_of(request, scope)
            return allows(request, scope)

    return ScopePermission


def allows(request: Request, scope: str) -> bool:
    """Whether the caller of this request has the scope."""
    if isinstance(request.auth, ApiKey):
        return scope in request.auth.scopes
    user = request.user
    return bool(user and user.is_authenticated and user.is_staff and user.has_perm(settings.SCOPE_PERMISSIONS[scope]))


def lack_of(request: Request, scope: str) -> str:
    """What whoever lacks the scope is told."""
    if isinstance(request.auth, ApiKey):
        return f"This key lacks the scope {scope}; ask an operator for a key that has it."
    return NO_RIGHT


def lacking(user: Any, scope: str) -> list[str]:
    """What a console user may not do that a key with this scope could: nobody hands on more than they have."""
    return [permission for permission in settings.KEY_PERMISSIONS[scope] if not user.has_perm(permission)]


def need(request: Request, *permissions: str) -> None:
    """A console user needs these model permissions too; an API key has been judged by its scope."""
    if not isinstance(request.auth, ApiKey) and not request.user.has_perms(permissions):
        raise exceptions.PermissionDenied(NO_RIGHT)


def may_see_payloads(request: Request, permission: str) -> bool:
    """API callers see their own payloads; a console user needs the `view_payload` permission of the model."""
    return isinstance(request.auth, ApiKey) or request.user.has_perm(permission)


def is_key(request: Request | None) -> bool:
    """Whether an API key calls, and no console user; where nobody is known, it counts as one."""
    return request is None or isinstance(request.auth, ApiKey)


def caller_of(request: Request) -> Caller:
    if isinstance(request.auth, ApiKey):
        return Caller(f"key:{request.auth.key_id}", request.auth.subscriber or None)
    return Caller(name_of(request.user))


def name_of(user: Any) -> str:
    """How records name a console user. Cut to what their columns hold; the number at its front keeps it unique."""
    return f"user:{user.pk}:{user.get_username()}"[:CALLER_LENGTH]


def narrow(queryset: models.QuerySet, request: Request, field: str = "subscriber") -> models.QuerySet:
    """Only the rows of the subscriber that the key is bound to; all rows for an unbound caller."""
    subscriber = caller_of(request).subscriber
    return queryset if subscriber is None else queryset.filter(**{field: subscriber})


def subscriber_for(request: Request, asked: str) -> str:
    """The subscriber a new row gets: the one asked for, or the key's own. Another's is a 403."""
    bound = caller_of(request).subscriber
    if bound is None or asked in ("", bound):
        return bound or asked
    raise exceptions.PermissionDenied(f"This key is bound to subscriber {bound!r}.", code="other_subscriber")
