"""Websocket addresses, and what a web process does when its server starts and ends."""

from collections.abc import Awaitable, Callable
from typing import Any

from asgiref.sync import sync_to_async
from channels.routing import URLRouter
from channels.sessions import SessionMiddlewareStack
from django.urls import re_path

from console.alerts import watchman
from console.health import heartbeat
from console.live.consumers import LiveConsumer
from console.live.refusals import unknown_address

websocket_application = SessionMiddlewareStack(
    URLRouter([re_path(r"^ws/live/?$", LiveConsumer.as_asgi()), re_path(r"", unknown_address)])  # type: ignore[arg-type]
)


async def lifespan_application(
    scope: dict[str, Any], receive: Callable[[], Awaitable[dict[str, Any]]], send: Callable[[dict[str, Any]], Any]
) -> None:
    """ASGI lifespan: the web process beats from its start to its end, and keeps an eye on the alert evaluator."""
    while True:
        message = await receive()
        if message["type"] == "lifespan.startup":
            heartbeat.start(heartbeat.WEB, also=watchman.look)
            await send({"type": "lifespan.startup.complete"})
        elif message["type"] == "lifespan.shutdown":
            await sync_to_async(heartbeat.stop)()
            await send({"type": "lifespan.shutdown.complete"})
            return
