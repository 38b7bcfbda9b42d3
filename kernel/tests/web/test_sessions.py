"""Sessions end by themselves, by the database's clock, and are forgotten."""

from datetime import UTC, datetime, timedelta

import pytest
from asgiref.sync import async_to_sync
from django.conf import settings
from django.contrib.sessions.models import Session
from django.utils import timezone

from kernel import clock
from kernel.web import sessions
from kernel.web.session_store import SessionStore

pytestmark = pytest.mark.django_db


def make(key, ends_in):
    return Session.objects.create(session_key=key, session_data="", expire_date=timezone.now() + ends_in)


def test_expired_sessions_go_and_the_others_stay(monkeypatch):
    for number in range(3):
        make(f"old{number}", -timedelta(minutes=1))
    make("live", timedelta(minutes=1))
    monkeypatch.setattr(sessions, "CHUNK", 2)
    assert [sessions.sweep() for _ in range(3)] == [2, 1, 0]
    assert Session.objects.get().session_key == "live"


@pytest.fixture(params=[timedelta(days=30), -timedelta(days=30)], ids=["host ahead", "host behind"])
def host_off(request, monkeypatch):
    """A web host whose clock is further off than a session lasts."""
    monkeypatch.setattr("django.utils.timezone.now", lambda: datetime.now(UTC) + request.param)


def begun():
    session = SessionStore()
    session["who"] = "Ada"
    session.save()
    return session.session_key


def test_the_settings_name_our_store():
    assert settings.SESSION_ENGINE == "kernel.web.session_store"


def test_a_session_begun_at_a_host_that_is_off_lasts_two_weeks(host_off):
    ends = Session.objects.get(pk=begun()).expire_date
    assert abs(ends - clock.now() - timedelta(weeks=2)) < timedelta(minutes=1)
    assert SessionStore().get_expiry_age(expiry=clock.now() + timedelta(hours=1)) in range(3540, 3601)


def test_a_host_that_is_off_neither_ends_a_session_nor_revives_one(host_off):
    key = begun()
    assert SessionStore(key).load() == {"who": "Ada"}
    Session.objects.filter(pk=key).update(expire_date=clock.now() - timedelta(seconds=1))
    ended = SessionStore(key)
    assert ended.load() == {}
    assert ended.session_key is None


@pytest.mark.django_db(transaction=True)
def test_the_same_holds_for_sockets(host_off):
    key = begun()
    assert async_to_sync(SessionStore(key).aload)() == {"who": "Ada"}
    Session.objects.filter(pk=key).update(expire_date=clock.now() - timedelta(seconds=1))
    assert async_to_sync(SessionStore(key).aload)() == {}
    assert abs(async_to_sync(SessionStore().aget_expiry_date)() - clock.now() - timedelta(weeks=2)) < timedelta(
        minutes=1
    )
    assert async_to_sync(SessionStore().aget_expiry_age)() == 14 * 86_400
