"""Round trips of small messages: through the channel layer, and through each of Celery's queues to a worker and back.

A worker answers in the channel layer, in a group that only this run knows. Nothing is stored; what nobody takes is not
good any more after some seconds.
"""

import asyncio
import secrets
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Any

from asgiref.sync import async_to_sync
from celery import current_app
from channels.layers import get_channel_layer

from console.health import checks as health
from console.health.checks import Check
from console.health.doctor.findings import Finding, NotTried
from console.wake import ANSWER_DOCTOR

LAYER_SECONDS = 5.0
QUEUE_SECONDS = 10.0
READERS_SECONDS = 2.0
TYPE = "doctor.answer"
_COMMANDS = {role: command for role, _what, command in health.PROCESSES}


def channel_layer_trip() -> Check:
    """A message of our own comes back to us."""
    came = async_to_sync(_exchange)(LAYER_SECONDS, ["ourselves"], answer_here)
    if came:
        return Check("channel_layer_trip", True, "a message went in and came back")
    words = f"A message went in and did not come back within {LAYER_SECONDS:g} s. Is CHANNEL_LAYER_URL a single server?"
    return Check("channel_layer_trip", False, words)


def queues() -> Iterator[Finding]:
    """For each queue: a message went in, and a worker's answer came back through the channel layer."""
    names = _queues()
    came = async_to_sync(_exchange)(QUEUE_SECONDS, names, _ring)
    silent = [name for name in names if name not in came]
    readers = _readers() if silent else {}
    for name in names:
        if name in came:
            yield Check(f"queue_{name}", True, "a worker took a message and answered")
        elif busy := readers.get(name):
            words = f"no answer within {QUEUE_SECONDS:g} s: {busy} read it, and are at work; run the doctor again"
            yield NotTried(f"queue_{name}", words)
        else:
            command = _COMMANDS.get(name) or _COMMANDS["tasks"]
            yield Check(
                f"queue_{name}",
                False,
                f"No worker answers that it reads it. Start one, or restart what hangs: {command}",
            )


def answer(group: str, name: str) -> None:
    """What a worker does with the message. Raises what the channel layer raises: Celery logs it."""
    async_to_sync(answer_here)(group, name)


async def answer_here(group: str, name: str) -> None:
    layer = get_channel_layer()
    if layer is not None:
        await layer.group_send(group, {"type": TYPE, "name": name})


async def _exchange(seconds: float, names: Iterable[str], send: Callable[[str, str], Any]) -> set[str]:
    """Send one message for each name, and hear who answers within so many seconds."""
    layer: Any = get_channel_layer()
    group, wanted = f"doctor_{secrets.token_hex(8)}", set(names)
    came: set[str] = set()
    channel = await layer.new_channel()
    await layer.group_add(group, channel)
    try:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                for name in sorted(wanted):
                    await send(group, name)
                while came < wanted:
                    came.add((await layer.receive(channel))["name"])
    finally:
        await layer.group_discard(group, channel)
    return came


async def _ring(group: str, queue: str) -> None:
    """Through the broker's client, which blocks: in a thread."""
    await asyncio.to_thread(_publish, group, queue)


def _publish(group: str, queue: str) -> None:
    current_app.send_task(
        ANSWER_DOCTOR, args=[group, queue], queue=queue, expires=QUEUE_SECONDS, retry=False, ignore_result=True
    )


def _queues() -> list[str]:
    """Every queue that our routes name."""
    routes = current_app.conf.task_routes.values()
    return sorted({current_app.conf.task_default_queue, *(route["queue"] for route in routes)})


def _readers() -> dict[str, str]:
    """Which workers say that they read each queue; their control messages are taken beside the work."""
    told = current_app.control.inspect(timeout=READERS_SECONDS).active_queues() or {}
    found: dict[str, list[str]] = {}
    for worker, queues_of in sorted(told.items()):
        for queue in queues_of:
            found.setdefault(queue["name"], []).append(worker)
    return {name: f"{len(workers)} workers" if len(workers) > 1 else workers[0] for name, workers in found.items()}
