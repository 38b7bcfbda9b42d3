"""A wake-up as a message: good for a while by the database's clock, and few of them wait."""

import contextlib
from datetime import datetime, timedelta

import pytest
from celery import Task

from kernel import clock, messages
from kernel.messages import GOOD_UNTIL, Messenger

pytestmark = pytest.mark.django_db
NAME = "house.look"


@pytest.fixture
def app(monkeypatch):
    monkeypatch.delenv("CELERY_BROKER_URL", raising=False)  # Celery would take it before what is said here
    made = Messenger("under-test", broker="memory://", set_as_current=False)
    made.conf.task_default_queue = "messages-under-test"
    yield made
    with made.connection_for_write() as link:
        link.default_channel.queue_purge("messages-under-test")
    made.close()


def waiting(app):
    """The headers of what waits."""
    with app.connection_for_write() as link:
        queue = link.SimpleQueue("messages-under-test")
        found = []
        with contextlib.suppress(queue.Empty):
            while True:
                found.append(queue.get_nowait())
                found[-1].ack()
        queue.close()
    return found


def test_no_message_expires_by_a_hosts_clock_but_says_until_when_it_is_good(app):
    app.send_task(NAME, expires=10, ignore_result=True)
    (message,) = waiting(app)
    assert message.headers["expires"] is None
    until = datetime.fromisoformat(message.headers[GOOD_UNTIL])
    assert timedelta(seconds=0) < until - clock.now() <= timedelta(seconds=10)
    assert message.properties["expiration"] == "10000"  # RabbitMQ's own, in milliseconds


def test_a_schedules_own_end_is_no_end_of_its_messages(app):
    app.send_task(NAME, expires=datetime(2020, 1, 1))
    (message,) = waiting(app)
    assert message.headers["expires"] is None and GOOD_UNTIL not in message.headers


def test_into_a_full_queue_goes_no_more(app):
    for _ in range(7):
        app.send_task(NAME, at_most=5, expires=10)
    assert len(waiting(app)) == 5
    assert app.send_task(NAME, at_most=0) is None
    assert waiting(app) == []


def test_wake_ups_leave_room_for_beats_ticks():
    assert messages.RUNG_AT_MOST < messages.TICKS_AT_MOST


@pytest.mark.parametrize(
    ("good_until", "runs"), [(-1, False), (60, True), (None, True), ("yesterday", True), (5, True)]
)
def test_what_is_stale_by_the_databases_clock_is_not_run(app, good_until, runs):
    ran = []

    @app.task(name=NAME)
    def look():
        ran.append(1)

    assert isinstance(look, Task)
    if isinstance(good_until, int):
        good_until = (clock.now() + timedelta(seconds=good_until)).isoformat()
    look.push_request(**{GOOD_UNTIL: good_until})
    try:
        look()
    finally:
        look.pop_request()
    assert len(ran) == int(runs)
