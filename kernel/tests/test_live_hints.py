"""Hints go out after commit, together, and never hurt the work that gave them."""

import asyncio
import threading
import time

import pytest
from channels.layers import get_channel_layer
from django.db import transaction
from django.test import override_settings

from kernel import live_hints as module
from kernel.live_hints import GROUP, MAX_TOPICS, Messenger, touched


@pytest.fixture
def told(monkeypatch):
    topics: list[tuple[str, ...]] = []
    monkeypatch.setattr(module._messenger, "add", topics.append)
    return topics


@pytest.mark.django_db(transaction=True)
def test_nothing_is_told_before_commit_nor_after_rollback(told):
    with transaction.atomic():
        touched("task:1")
        assert told == []
    assert told == [("task:1",)]
    with pytest.raises(ZeroDivisionError), transaction.atomic():
        touched("task:2")
        1 / 0  # noqa: B018
    assert told == [("task:1",)]


def test_a_flood_keeps_the_collections_and_drops_single_objects():
    messenger = Messenger()
    messenger._topics = {f"delivery:{number}" for number in range(MAX_TOPICS + 1)} | {"deliveries", "stats"}
    assert messenger.take() == ["deliveries", "stats"]
    assert messenger.take() == []


def test_topics_reach_another_listener_through_the_real_layer():
    async def listen():
        layer = get_channel_layer()
        channel = await layer.new_channel()
        await layer.group_add(GROUP, channel)
        threading.Thread(target=lambda: Messenger().add(("task:7", "stats"))).start()
        async with asyncio.timeout(5):
            return await layer.receive(channel)

    assert asyncio.run(listen()) == {"type": "touched", "topics": ["stats", "task:7"]}


@override_settings(
    CHANNEL_LAYERS={
        "default": {
            "BACKEND": "channels_redis.pubsub.RedisPubSubChannelLayer",
            "CONFIG": {"hosts": ["redis://127.0.0.1:1/0"]},
        }
    }
)
def test_a_dead_layer_costs_the_caller_nothing():
    messenger = Messenger()
    began = time.monotonic()
    messenger.add(("task:1",))
    assert time.monotonic() - began < 1
