"""A topic's whole small state: what a live page shows, never a payload, URL or secret. SQL: the clock.

`read` is the only way in. Readers are registered by kind of topic; each returns the owner (a subscriber, or None where
the rows belong to no single one) and JSON-ready data, or None where there is nothing. Permission is the business of
`console.live.topics`.
"""

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django.core.serializers.json import DjangoJSONEncoder
from django.db import connection

from console.live.snapshots import lists, objects, wholes
from console.live.topics import Topic

Reader = Callable[[Topic], tuple[str | None, dict[str, Any]] | None]
READERS: dict[str, Reader] = {
    "task": objects.task,
    "batch": objects.batch,
    "delivery": objects.delivery,
    "endpoint": objects.endpoint,
    "operation": objects.operation,
    "tasks": lists.tasks,
    "deliveries": lists.deliveries,
    "stats": wholes.stats,
    "alerts": wholes.alerts,
}


@dataclass(frozen=True)
class Snapshot:
    """`version` is the database's clock (µs) before the read: a later read has a greater one, in every process."""

    topic: str
    version: int
    owner: str | None
    body: str
    etag: str

    @property
    def tail(self) -> str:
        """The message without its topic, which each socket names as it asked."""
        return f',"version":{self.version},"data":{self.body}}}'


def read(topic: Topic) -> Snapshot | None:
    """The topic's state now; None if the object does not exist."""
    version = database_clock()
    found = READERS[topic.kind](topic)
    if found is None:
        return None
    owner, data = found
    body = json.dumps(data, cls=DjangoJSONEncoder, ensure_ascii=False, separators=(",", ":"))
    return Snapshot(topic.name, version, owner, body, hashlib.sha256(body.encode()).hexdigest()[:24])


def database_clock() -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint")
        return cursor.fetchone()[0]
