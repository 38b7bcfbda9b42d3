"""Who is looking: a console user, an API key, or a short-lived live token, as one small value with what it may see.

A viewer is made when a page opens and made again while a socket stays open (`again`), so that a logout, a withdrawn
permission or a revoked key ends the view. A live token ends with the login it was issued in: with the logout, a new
password, the user's account. Nothing here trusts what a browser says about itself.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY, load_backend
from django.core import signing
from django.utils.crypto import constant_time_compare
from rest_framework.request import Request

from kernel import clock, secrets
from kernel.auth import Scope, find_key, name_of
from kernel.models import ApiKey

READ_OPERATIONS, READ_ALERTS = "operations:read", "alerts:read"
TASK_FIGURES, DELIVERY_FIGURES = "figures:tasks", "figures:deliveries"  # how many there are, which is less than reading
TOKEN_PREFIX, TOKEN_SALT = "rtl_", "console.live-token"
MAX_TOKEN_LIFE = timedelta(hours=1)


@dataclass(frozen=True)
class Viewer:
    """`grants` are scope words; `subscriber` None sees everybody's rows; `topics` None may ask for any topic."""

    name: str
    grants: frozenset[str]
    subscriber: str | None = None
    topics: frozenset[str] | None = None
    key_id: str = ""
    user_id: int | None = None
    session_key: str = ""
    expires_at: datetime | None = None

    def may(self, grant: str) -> bool:
        return grant in self.grants

    def sees(self, owner: str | None) -> bool:
        """Whether a row of this subscriber is theirs to see. None: the row belongs to no single subscriber."""
        return self.subscriber is None or owner == self.subscriber


def of_user(user: Any, session_key: str = "") -> Viewer | None:
    """A console user; None unless active staff."""
    if not (getattr(user, "is_active", False) and getattr(user, "is_staff", False)):
        return None
    grants = {scope for scope, permission in settings.SCOPE_PERMISSIONS.items() if user.has_perm(permission)}
    if user.has_perm("console.view_operation"):
        grants.add(READ_OPERATIONS)
    if user.has_perm("console.view_alert"):
        grants.add(READ_ALERTS)
    if Scope.TASKS_READ in grants:
        grants.add(TASK_FIGURES)
    if Scope.DELIVERIES_READ in grants:
        grants.add(DELIVERY_FIGURES)
    name = name_of(user)
    return Viewer(name, frozenset(grants), user_id=user.pk, session_key=session_key)


def of_key(key: ApiKey) -> Viewer:
    grants = set(key.scopes)
    if Scope.OPERATIONS_WRITE in grants:
        grants.add(READ_OPERATIONS)
    if Scope.DELIVERIES_READ in grants:  # the scope's own words: “and statistics”, those of tasks too
        grants |= {READ_ALERTS, TASK_FIGURES, DELIVERY_FIGURES}
    if Scope.TASKS_READ in grants:
        grants.add(TASK_FIGURES)
    return Viewer(f"key:{key.key_id}", frozenset(grants), key.subscriber or None, key_id=key.key_id)


def of_request(request: Request) -> Viewer | None:
    """The caller of an API view."""
    if isinstance(request.auth, ApiKey):
        return of_key(request.auth)
    return of_user(request.user, getattr(request.session, "session_key", None) or "")


def of_token(token: str, now: datetime) -> Viewer | None:
    """The viewer that an API key or a live token stands for."""
    if not token.startswith(TOKEN_PREFIX):
        key = find_key(token, now)
        return of_key(key) if key else None
    try:
        claims = signing.loads(token[len(TOKEN_PREFIX) :], salt=TOKEN_SALT)  # its own stamp is the host's time
        expires_at = datetime.fromisoformat(claims["until"])
    except (signing.BadSignature, KeyError, TypeError, ValueError):
        return None
    if expires_at <= now:
        return None
    base = _issuer(claims, now)
    return base and replace(base, topics=frozenset(claims["topics"]), expires_at=expires_at)


def _issuer(claims: dict[str, Any], now: datetime) -> Viewer | None:
    """A token opens no more than its issuer still may."""
    if claims.get("key"):
        return _of_key_id(claims["key"], now)
    try:
        session_key = secrets.decrypt(claims["session"])
    except (KeyError, AttributeError, secrets.UndecryptableSecret):
        return None
    viewer = of_session(_session_store()(session_key))
    return viewer if viewer is not None and viewer.user_id == claims.get("user") else None


def _of_key_id(key_id: str, now: datetime) -> Viewer | None:
    key = ApiKey.objects.filter(key_id=key_id).first()
    is_good = key is not None and key.is_live(now) and not (key.is_demo and settings.PRODUCTION)
    return of_key(key) if key is not None and is_good else None


def issue_token(viewer: Viewer, topics: Iterable[str], life: timedelta, now: datetime) -> tuple[str, datetime]:
    """A signed token for these topics (canonical names, permitted to the viewer) and this long, at most an hour.

    It names the login it was issued in, encrypted: what is signed only can be read by whoever holds the token.
    """
    until = now + min(life, MAX_TOKEN_LIFE)
    claims = {
        "key": viewer.key_id,
        "user": viewer.user_id,
        **({"session": secrets.encrypt(viewer.session_key)} if viewer.session_key else {}),
        "topics": sorted(set(topics)),
        "until": until.isoformat(),
    }
    return TOKEN_PREFIX + signing.dumps(claims, salt=TOKEN_SALT, compress=True), until


def of_session(session: Any) -> Viewer | None:
    """The console user of a stored session, checked like Django's own middleware does."""
    user_id = session.get(SESSION_KEY)
    backend = session.get(BACKEND_SESSION_KEY)
    if user_id is None or backend not in settings.AUTHENTICATION_BACKENDS:
        return None
    user = load_backend(backend).get_user(int(user_id))
    if user is None or not constant_time_compare(session.get(HASH_SESSION_KEY, ""), user.get_session_auth_hash()):
        return None
    return of_user(user, session.session_key)


def again(viewer: Viewer) -> Viewer | None:
    """The same viewer as of now: None once the session, user, key or token is gone."""
    now = clock.now()
    if viewer.expires_at is not None and viewer.expires_at <= now:
        return None
    fresh = _of_key_id(viewer.key_id, now) if viewer.key_id else of_session(_session_store()(viewer.session_key))
    return fresh and replace(fresh, topics=viewer.topics, expires_at=viewer.expires_at)


def _session_store() -> Any:
    from importlib import import_module

    return import_module(settings.SESSION_ENGINE).SessionStore
