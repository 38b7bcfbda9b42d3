"""What one viewer may take of a web process: so many sockets, and so many topics over all of them together.

Counted in the memory of the process: with n web processes one viewer gets n times as much. A viewer is a console user
or an API key; the live tokens that either has issued count as theirs. Lives on one event loop.
"""

from collections import Counter

MAX_TOPICS_OF_SOCKET = 50
MAX_SOCKETS_OF_VIEWER = 30
MAX_TOPICS_OF_VIEWER = 100  # different ones; a topic that several of their pages show counts once
MAX_SOCKETS_OF_PROCESS = 1_000
MAX_STRANGERS = 100  # sockets that have not said yet who they are


class Shares:
    def __init__(self) -> None:
        self.sockets = 0
        self.strangers = 0
        self._sockets: Counter[str] = Counter()
        self._topics: dict[str, Counter[str]] = {}

    def has_room(self, *, for_stranger: bool) -> bool:
        """Whether the process takes one more socket."""
        return self.sockets < MAX_SOCKETS_OF_PROCESS and not (for_stranger and self.strangers >= MAX_STRANGERS)

    def has_socket_left(self, viewer: str) -> bool:
        return self._sockets[viewer] < MAX_SOCKETS_OF_VIEWER

    def enter(self, viewer: str) -> None:
        self._sockets[viewer] += 1

    def leave(self, viewer: str) -> None:
        self._sockets[viewer] -= 1
        if self._sockets[viewer] <= 0:
            del self._sockets[viewer]

    def has_topic_left(self, viewer: str, topic: str) -> bool:
        watched = self._topics.get(viewer, Counter())
        return topic in watched or len(watched) < MAX_TOPICS_OF_VIEWER

    def watch(self, viewer: str, topic: str) -> None:
        self._topics.setdefault(viewer, Counter())[topic] += 1

    def unwatch(self, viewer: str, topic: str) -> None:
        watched = self._topics.get(viewer, Counter())
        watched[topic] -= 1
        if watched[topic] <= 0:
            del watched[topic]
        if not watched:
            self._topics.pop(viewer, None)
