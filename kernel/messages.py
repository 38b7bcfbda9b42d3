"""A wake-up as a message: how long it is good, judged by the database's clock, and how many may wait.

Celery's own `expires` compares the sender's clock with the worker's: a worker fifteen seconds ahead would discard every
wake-up and do nothing. So no message carries it. Sender and worker both read `kernel.clock`; RabbitMQ throws old ones
away by its own clock; and where a broker cannot do that (Redis, Valkey) nobody adds to a queue that is full already.
What is discarded costs nothing: beat looks again, and the rows are the truth. It must never judge by a host's clock.
"""

from datetime import datetime, timedelta
from typing import Any

import structlog
from celery import Celery, Task

from kernel import clock

GOOD_UNTIL = "good_until"
RUNG_AT_MOST = 100  # wake-ups that wait in one queue; one would do
TICKS_AT_MOST = 1_000  # beat's ticks beside them: some forty minutes without a worker

log = structlog.get_logger(__name__)


class WakeUp(Task):
    """The base of our worker functions: what waited longer than it was good for is not run."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._is_stale():
            log.debug("wake_up_was_stale", worker=self.name)
            return None
        return self.run(*args, **kwargs)

    def _is_stale(self) -> bool:
        try:
            until = datetime.fromisoformat(self.request.get(GOOD_UNTIL) or "")
            return until < clock.now()
        except (TypeError, ValueError):  # it says nothing, or not in our words: run it
            return False


class Messenger(Celery):
    """The Celery application: every message, rung or beat's, goes out through `send_task`."""

    task_cls = WakeUp

    def send_task(  # type: ignore[override]
        self,
        name: str,
        args: Any = None,
        kwargs: Any = None,
        *,
        producer: Any = None,
        expires: Any = None,
        headers: dict[str, Any] | None = None,
        at_most: int = TICKS_AT_MOST,
        **options: Any,
    ) -> Any:
        """Send, unless the queue is full; then None. `expires`: seconds it is good for; a date is for beat alone."""
        if isinstance(expires, int | float) and expires > 0:
            headers = {**(headers or {}), GOOD_UNTIL: (clock.now() + timedelta(seconds=expires)).isoformat()}
            options["expiration"] = expires  # RabbitMQ's own clock, from when it arrives
        with self.producer_or_acquire(producer) as link:
            if self._waiting(link, name, options) >= at_most:
                log.debug("queue_is_full", worker=name)
                return None
            return super().send_task(name, args, kwargs, producer=link, headers=headers, **options)

    def _waiting(self, link: Any, name: str, options: dict[str, Any]) -> int:
        """How many wait where this one would go; 0 where the broker ends old ones itself, or does not say."""
        try:
            size = getattr(link.channel, "_size", None)  # kombu's, of transports without queues of their own
            if size is None:
                return 0
            asked = {key: options[key] for key in ("queue",) if options.get(key)}
            return int(size(self.amqp.router.route(asked, name)["queue"].name))
        except Exception:  # noqa: BLE001 - a broker in trouble is told by the publish itself
            return 0
