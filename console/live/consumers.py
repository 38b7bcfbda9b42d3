"""The websocket at `/ws/live/`: let in, keep a list of topics, pass snapshots on, ping, and look again who it is.

It never reads the domain itself; the hub does, once for all sockets. What waits to be sent is the newest snapshot of
each topic, so a slow browser costs a bounded amount of memory and delays nobody. What one viewer may take is the
business of `shares`; whatever is refused has a reason word, and leaves what is watched already as it is.
"""

import asyncio
import json
from typing import Any
from urllib.parse import parse_qs

import structlog
from channels.generic.websocket import AsyncWebsocketConsumer
from django.db import InterfaceError, OperationalError

from console.live import hub, looks, origins, refusals, shares, viewers
from console.live.snapshots import Snapshot
from console.live.topics import Topic, TopicRefused, parse, permitted
from console.live.viewers import Viewer
from kernel import clock
from kernel.parsing import strict_loads

PROTOCOL = "roundtrip.live"
TOKEN_PROTOCOL = "token."  # noqa: S105 - a browser cannot set headers, so a token may come as subprotocol
PING_SECONDS = 20.0
AGAIN_SECONDS = 20.0
LOGIN_SECONDS = 5.0
MAX_NAMES = 50  # one topic may be asked for under so many names on one socket
MAX_MESSAGE = 4_096
MAX_REFUSALS = 100
UNAUTHENTICATED, FORBIDDEN, TOO_MANY, BUSY = 4401, 4403, 4429, 4503
UNREADABLE = "Who you are cannot be looked up now. Try again in a moment."

log = structlog.get_logger(__name__)
_shares = shares.Shares()
_looks = looks.Looks()


class LiveConsumer(AsyncWebsocketConsumer):
    """One socket. Its messages are the contract's, and `{"type": "auth", "token"}` first where no header can be set."""

    channel_layer_alias = ""  # the hub listens for all sockets; none needs a channel of its own

    async def connect(self) -> None:
        self.viewer: Viewer | None = None
        self.account = ""  # the viewer's name, as long as the socket counts as theirs
        self.is_counted = self.is_stranger = False
        self.topics: dict[str, tuple[Topic, set[str]]] = {}  # canonical name → topic, names as asked
        self.waiting: dict[str, Snapshot | dict[str, Any]] = {}
        self.sent: dict[str, tuple[int, str]] = {}
        self.has_news = asyncio.Event()
        self.jobs: list[asyncio.Task[None]] = []
        self.refusals = 0
        self.is_over = False
        self.hub = hub.of_this_loop()
        protocols = self.scope.get("subprotocols", [])
        if not _shares.has_room(for_stranger=False):
            await self._turn_away(TOO_MANY, "too_many_sockets")
            return
        try:
            viewer = await _looks.find(self._find_viewer, protocols)
        except (OperationalError, InterfaceError):
            await self._turn_away(BUSY, "unavailable")
            return
        if viewer is None and not origins.may_bring_token(self.scope):
            await self._turn_away(FORBIDDEN, "foreign_origin")
            return
        if not _shares.has_room(for_stranger=viewer is None):
            await self._turn_away(TOO_MANY, "too_many_sockets")
            return
        self._count(is_stranger=viewer is None)
        await self.accept(PROTOCOL if PROTOCOL in protocols else None)
        self.jobs = [asyncio.create_task(job()) for job in (self._send_news, self._ping, self._look_again)]
        if viewer is not None:
            await self._enter(viewer)

    async def _turn_away(self, close_code: int, code: str) -> None:
        """Before the handshake is answered; browsers are told 403, so the word stands in the log."""
        self.is_over = True
        refusals.tell(self.scope, 403, code)
        await self.close(close_code)

    def _count(self, *, is_stranger: bool) -> None:
        self.is_counted, self.is_stranger = True, is_stranger
        _shares.sockets += 1
        _shares.strangers += is_stranger

    def _uncount(self) -> None:
        if self.is_counted:
            _shares.sockets -= 1
            self._no_stranger()
            self.is_counted = False
        if not _shares.sockets:
            _looks.rest()

    def _no_stranger(self) -> None:
        _shares.strangers -= self.is_stranger
        self.is_stranger = False

    def _find_viewer(self, protocols: list[str]) -> Viewer | None:
        """By token (header, subprotocol, query) or by the console's session; None leaves the first message to say."""
        token = self._token(protocols)
        if token:
            return viewers.of_token(token, clock.now()) if origins.may_bring_token(self.scope) else None
        session = self.scope.get("session")
        return viewers.of_session(session) if session is not None and origins.is_own(self.scope) else None

    def _token(self, protocols: list[str]) -> str:
        scheme, _, token = origins.header(self.scope, b"authorization").partition(" ")
        if scheme.lower() == "bearer":
            return token.strip()
        offered = next((one for one in protocols if one.startswith(TOKEN_PROTOCOL)), "")
        query = parse_qs(self.scope.get("query_string", b"").decode("latin-1"))
        return offered.removeprefix(TOKEN_PROTOCOL) or query.get("token", [""])[0]

    async def _enter(self, viewer: Viewer) -> None:
        if not _shares.has_socket_left(viewer.name):
            most = shares.MAX_SOCKETS_OF_VIEWER
            await self._end(TOO_MANY, "too_many_sockets", f"At most {most} live views at once; close some pages.")
            return
        self._no_stranger()
        _shares.enter(viewer.name)
        self.viewer, self.account = viewer, viewer.name

    async def disconnect(self, code: int) -> None:
        for job in self.jobs:
            job.cancel()
        for name in list(self.topics):
            self._drop(name)
        if self.account:
            _shares.leave(self.account)
        self.viewer, self.account = None, ""
        self._uncount()

    # What the client says

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        if self.is_over:  # closed; what was on its way still arrives
            return
        message = _parsed(text_data)
        kind = message.get("type")
        if kind == "auth" and self.viewer is None:
            await self._authenticate(message.get("token"))
        elif self.viewer is None:
            await self._end(
                UNAUTHENTICATED, "not_authenticated", "Log in to the console, or send an API key or live token."
            )
        elif kind == "subscribe":
            self._subscribe(message.get("topic"))
        elif kind == "unsubscribe":
            self._unsubscribe(message.get("topic"))
        elif kind != "pong":
            self._refuse(
                "bad_message", 'Send {"type": "subscribe", "topic": …} or {"type": "unsubscribe", "topic": …}.'
            )
        if self.refusals > MAX_REFUSALS:
            self.is_over = True
            await self.close(TOO_MANY)

    async def _authenticate(self, token: object) -> None:
        viewer = None
        try:
            if isinstance(token, str):
                viewer = await _looks.find(viewers.of_token, token, clock.now())
        except (OperationalError, InterfaceError):
            await self._end(BUSY, "unavailable", UNREADABLE)
            return
        if viewer is None:
            await self._end(UNAUTHENTICATED, "not_authenticated", "This token is unknown, revoked or expired.")
        else:
            await self._enter(viewer)

    def _subscribe(self, asked: object) -> None:
        assert self.viewer is not None
        try:
            topic = permitted(parse(asked), self.viewer)
        except TopicRefused as refusal:
            self._refuse(refusal.code, refusal.detail, asked)
            return
        if topic.name not in self.topics and not self._has_room_for(topic, asked):
            return
        if topic.name not in self.topics:
            _shares.watch(self.account, topic.name)
        _topic, names = self.topics.setdefault(topic.name, (topic, set()))
        if len(names) < MAX_NAMES:
            names.add(str(asked))
        self.sent.pop(topic.name, None)
        self.hub.watch(topic, self)

    def _has_room_for(self, topic: Topic, asked: object) -> bool:
        """Whether one more topic fits; what does not is refused, and what is watched goes on."""
        if len(self.topics) >= shares.MAX_TOPICS_OF_SOCKET:
            words = f"At most {shares.MAX_TOPICS_OF_SOCKET} topics on one socket; unsubscribe some."
            self._refuse("too_many_topics", words, asked)
            return False
        if not _shares.has_topic_left(self.account, topic.name):
            words = f"At most {shares.MAX_TOPICS_OF_VIEWER} topics over all your live views; close some pages."
            self._refuse("too_many_topics", words, asked)
            return False
        return True

    def _unsubscribe(self, asked: object) -> None:
        for name, (_topic, names) in list(self.topics.items()):
            names.discard(str(asked))
            if not names:
                self._drop(name)

    def _drop(self, name: str) -> None:
        if self.topics.pop(name, None) is not None:
            _shares.unwatch(self.account, name)
        self.waiting.pop(name, None)
        self.sent.pop(name, None)
        self.hub.leave(name, self)

    # What the hub says (never blocks)

    def offer(self, snapshot: Snapshot) -> None:
        version, etag = self.sent.get(snapshot.topic, (0, ""))
        if snapshot.version < version or snapshot.etag == etag:
            return
        if self.viewer is None or not self.viewer.sees(snapshot.owner):
            self.complain(snapshot.topic, "not_found", "There is nothing here that you may see.")
            return
        self.sent[snapshot.topic] = (snapshot.version, snapshot.etag)
        self.waiting.pop(f"!{snapshot.topic}", None)  # what was to complain of is over
        self._queue(snapshot.topic, snapshot)

    def complain(self, topic: str, code: str, detail: str) -> None:
        names = sorted(self.topics.get(topic, (None, set()))[1])
        self.sent.pop(topic, None)  # the next good snapshot is sent even if nothing changed
        error = {"type": "error", "code": code, "detail": detail, "topic": names[0] if names else topic}
        self._queue(f"!{topic}", error)
        if code == "not_found":
            self._drop(topic)

    def _refuse(self, code: str, detail: str, topic: object = None) -> None:
        self.refusals += 1
        error = {"type": "error", "code": code, "detail": detail}
        if isinstance(topic, str):
            error["topic"] = topic[:400]
        self._queue(f"!{self.refusals}", error)

    def _queue(self, name: str, message: Snapshot | dict[str, Any]) -> None:
        self.waiting.pop(name, None)  # behind what waits already, so that the newest word on a topic is the last
        self.waiting[name] = message
        self.has_news.set()

    # What the socket says

    async def _send_news(self) -> None:
        while True:
            await self.has_news.wait()
            self.has_news.clear()
            while self.waiting:
                name, message = next(iter(self.waiting.items()))
                del self.waiting[name]
                if isinstance(message, dict):
                    await self.send(json.dumps(message, ensure_ascii=False))
                    continue
                for asked in sorted(self.topics.get(name, (None, set()))[1]):
                    await self.send(
                        '{"type":"snapshot","topic":' + json.dumps(asked, ensure_ascii=False) + message.tail
                    )

    async def _ping(self) -> None:
        while True:
            await asyncio.sleep(PING_SECONDS)
            self._queue("!ping", {"type": "ping"})

    async def _look_again(self) -> None:
        """Close when nobody logged in, and when the login, a permission or the key is gone."""
        await asyncio.sleep(LOGIN_SECONDS)
        if self.viewer is None:
            await self._end(
                UNAUTHENTICATED, "not_authenticated", "Log in to the console, or send an API key or live token."
            )
            return
        while True:
            await asyncio.sleep(AGAIN_SECONDS)
            try:
                fresh = await _looks.find(viewers.again, self.viewer)
            except (OperationalError, InterfaceError):
                continue  # a database that is away ends no view; the hub says that it is stale
            except Exception as error:
                log.exception("live_look_failed", error=type(error).__name__)
                await self._end(BUSY, "internal_error", "A fault of ours; the log has it as live_look_failed.")
                return
            if fresh is None:
                await self._end(UNAUTHENTICATED, "not_authenticated", "Your login or key has ended. Log in again.")
                return
            self._narrow(fresh)

    def _narrow(self, fresh: Viewer) -> None:
        """Go on with what the viewer may see now."""
        self.viewer = fresh
        for name, (topic, names) in list(self.topics.items()):
            try:
                still = permitted(topic, fresh).name == name
            except TopicRefused:
                still = False
            if not still:
                asked = sorted(names)
                self._drop(name)
                self._refuse("permission_denied", "You may no longer watch this.", asked[0] if asked else name)

    async def _end(self, close_code: int, code: str, detail: str) -> None:
        self.is_over = True
        if close_code != BUSY:
            refusals.tell(self.scope, close_code, code, self.account)
        await self.send(json.dumps({"type": "error", "code": code, "detail": detail}))
        await self.close(close_code)


def _parsed(text: str | None) -> dict[str, Any]:
    """The client's message, or an empty one where it is not a small JSON object."""
    if text is None or len(text) > MAX_MESSAGE:
        return {}
    try:
        message = strict_loads(text.encode())  # half a character could not be said back to the client
    except ValueError:
        return {}
    return message if isinstance(message, dict) else {}
