"""Sessions end by themselves and are forgotten."""

from datetime import timedelta

import pytest
from django.contrib.sessions.models import Session
from django.utils import timezone

from kernel.web import sessions

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
