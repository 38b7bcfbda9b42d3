"""Servers and clocks: beat's last tick with its age, and variables that are not set."""

from datetime import timedelta

import pytest
from django.db.models.functions import Now

from console.health import heartbeat
from console.health.doctor import servers
from console.models import Heartbeat

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    ("age", "is_ok", "words"),
    [
        (timedelta(seconds=7), True, "beat's last tick reached a worker 7 s ago"),
        (timedelta(seconds=90), False, "the last one came 90 s ago"),
        (timedelta(minutes=5), False, "the last one came 5 min ago"),
        (timedelta(hours=3), False, "the last one came 3 h ago"),
    ],
)
def test_beats_last_tick_has_its_age(age, is_ok, words):
    heartbeat.beat_once(heartbeat.SCHEDULE, process="schedule")
    Heartbeat.objects.update(seen_at=Now() - age)
    found = servers.schedule()
    assert found.is_ok is is_ok and words in found.words


def test_a_tick_that_never_came_is_told():
    found = servers.schedule()
    assert not found.is_ok and "none has come yet" in found.words


@pytest.mark.parametrize(
    ("look", "name"), [(servers.broker, "CELERY_BROKER_URL"), (servers.channel_layer, "CHANNEL_LAYER_URL")]
)
def test_a_server_that_is_not_named_is_a_fault_whatever_listens_at_the_default_port(settings, look, name):
    setattr(settings, name, "")
    found = look()
    assert not found.is_ok and found.words.startswith(f"{name} is not set")


def test_a_process_whose_clock_is_off_is_named():
    heartbeat.beat_once(heartbeat.WEB, process="h:1")
    Heartbeat.objects.update(clock_ahead_ms=3_600_000)
    found = servers.process_clocks()
    assert not found.is_ok and "web@h:1 (60 min ahead)" in found.words
