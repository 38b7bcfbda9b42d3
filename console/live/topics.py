"""The names of live topics: how they are written, and who may watch which.

`task:12`, `batch:3`, `delivery:9`, `endpoint:4`, `operation:2`, `tasks?state=queued&kind=map_search`, `deliveries?…`,
`stats`, `alerts`. Parsing gives one canonical name for one meaning, so that viewers share a snapshot.
"""

from dataclasses import dataclass
from urllib.parse import parse_qsl, urlencode

from console.live.viewers import DELIVERY_FIGURES, READ_ALERTS, READ_OPERATIONS, TASK_FIGURES, Viewer
from kernel.auth import Scope

MAX_LENGTH = 400
OBJECTS = {
    "task": Scope.TASKS_READ.value,
    "batch": Scope.TASKS_READ.value,
    "delivery": Scope.DELIVERIES_READ.value,
    "endpoint": Scope.DELIVERIES_READ.value,
    "operation": READ_OPERATIONS,
}
LISTS = {
    "tasks": (Scope.TASKS_READ.value, frozenset({"state", "kind", "batch", "subscriber", "reference"})),
    "deliveries": (
        Scope.DELIVERIES_READ.value,
        frozenset({"state", "endpoint", "subscriber", "type", "last_outcome", "fingerprint", "event"}),
    ),
}
WHOLES = {"stats": "", "alerts": READ_ALERTS}  # the start page's figures are narrowed to what each viewer may see
SIDES = {"tasks": TASK_FIGURES, "deliveries": DELIVERY_FIGURES}
NUMBERS = {"batch", "endpoint", "event"}
MAY_BE_EMPTY = {"subscriber", "reference", "fingerprint", "last_outcome"}  # columns with empty values: exactly those
MAX_ID = 2**63 - 1


class TopicRefused(Exception):
    """A topic that cannot be watched: `code` is the reason word, the text says what to do."""

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(detail)
        self.code, self.detail = code, detail


@dataclass(frozen=True)
class Topic:
    """`kind` with an id, a filter, or neither. `name` is canonical."""

    kind: str
    object_id: int | None = None
    filter: tuple[tuple[str, str], ...] = ()

    @property
    def pk(self) -> int:
        """The id of a topic that has one; 0, which no row has, otherwise."""
        return self.object_id or 0

    @property
    def name(self) -> str:
        if self.object_id is not None:
            return f"{self.kind}:{self.object_id}"
        return f"{self.kind}?{urlencode(self.filter)}" if self.filter else self.kind


def parse(text: object) -> Topic:
    """TopicRefused with `unknown_topic` or `bad_filter` where it is not one."""
    if not isinstance(text, str) or not 0 < len(text) <= MAX_LENGTH:
        raise TopicRefused("unknown_topic", "A topic is a short text such as batch:12 or tasks?state=queued.")
    kind, colon, identity = text.partition(":")
    if colon and kind in OBJECTS and identity.isascii() and identity.isdigit() and int(identity) <= MAX_ID:
        return Topic(kind, int(identity))
    kind, _, query = text.partition("?")
    if kind in LISTS:
        return Topic(kind, filter=_filter(kind, query))
    if text in WHOLES:
        return Topic(text)
    if text in {f"stats?side={side}" for side in SIDES}:
        return Topic("stats", filter=(("side", text.partition("=")[2]),))
    known = ", ".join([*(f"{name}:<id>" for name in OBJECTS), *(f"{name}?<filter>" for name in LISTS), *WHOLES])
    raise TopicRefused("unknown_topic", f"There is no such topic. Known: {known}.")


def _filter(kind: str, query: str) -> tuple[tuple[str, str], ...]:
    allowed = LISTS[kind][1]
    pairs: dict[str, str] = {}
    for name, value in parse_qsl(query, keep_blank_values=True):
        if name not in allowed:
            raise TopicRefused(
                "bad_filter", f"{kind} cannot be filtered by {name!r}; use {', '.join(sorted(allowed))}."
            )
        if not value and name not in MAY_BE_EMPTY:
            raise TopicRefused("bad_filter", f"{name} is empty; leave it out, or say which.")
        if name in pairs:
            raise TopicRefused("bad_filter", f"{name} is given twice; say one.")
        if "\x00" in value or (name in NUMBERS and not (value.isascii() and value.isdigit() and int(value) <= MAX_ID)):
            raise TopicRefused("bad_filter", f"{name} must be {'a number' if name in NUMBERS else 'plain text'}.")
        pairs[name] = value
    return tuple(sorted(pairs.items()))


def permitted(topic: Topic, viewer: Viewer) -> Topic:
    """The topic as this viewer may watch it (lists are narrowed to their subscriber); TopicRefused otherwise."""
    if not any(viewer.may(grant) for grant in _grants(topic)):
        raise TopicRefused(
            "permission_denied", f"You may not watch {topic.kind}: ask an operator for the right or scope to read it."
        )
    narrowed = _narrow(topic, viewer)
    if viewer.topics is not None and topic.name not in viewer.topics and narrowed.name not in viewer.topics:
        raise TopicRefused("permission_denied", "This live token was not issued for that topic.")
    return narrowed


def _grants(topic: Topic) -> list[str]:
    """Any of them opens the topic; what is then shown of it may still be less."""
    if topic.kind == "stats":
        asked = dict(topic.filter).get("side")
        return [grant for side, grant in SIDES.items() if asked in (None, side)]
    return [OBJECTS.get(topic.kind) or WHOLES.get(topic.kind) or LISTS[topic.kind][0]]


def _figures(topic: Topic, viewer: Viewer) -> Topic:
    """Of both sides' figures only that side's which the viewer may see."""
    sides = [side for side, grant in SIDES.items() if viewer.may(grant)]
    return Topic("stats", filter=(("side", sides[0]),)) if not topic.filter and len(sides) == 1 else topic


def _narrow(topic: Topic, viewer: Viewer) -> Topic:
    if viewer.subscriber is None:
        return _figures(topic, viewer) if topic.kind == "stats" else topic
    if topic.kind in WHOLES or topic.kind == "operation":
        raise TopicRefused("other_subscriber", f"A key bound to one subscriber cannot watch {topic.kind}.")
    if topic.kind not in LISTS:
        return topic  # the snapshot names its owner, and that is checked before it is sent
    asked = dict(topic.filter)
    if asked.get("subscriber", viewer.subscriber) != viewer.subscriber:
        raise TopicRefused("other_subscriber", f"This key is bound to subscriber {viewer.subscriber!r}.")
    return Topic(topic.kind, filter=tuple(sorted({**asked, "subscriber": viewer.subscriber}.items())))
