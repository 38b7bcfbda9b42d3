"""A master key is rotated only when every running process that reads secrets has it in front."""

import io
from datetime import timedelta

import pytest
from cryptography.fernet import Fernet
from django.core.management import CommandError, call_command
from django.utils import timezone

from console.health import heartbeat, known_keys
from console.models import Heartbeat
from console.tests.conftest import make_endpoint
from delivery.models import Endpoint
from kernel.secrets import key_id

pytestmark = pytest.mark.django_db


@pytest.fixture
def keys(settings):
    """The old and the new one, of which we have the new one in front."""
    old, new = settings.MASTER_KEYS[0], Fernet.generate_key().decode()
    make_endpoint()
    settings.MASTER_KEYS = [new, old]
    return old, new


def alive(role, key, name="h:1"):
    heartbeat.beat_once(role, *([f"key:{key_id(key)}"] if key else []), process=name)


def rotate():
    call_command("rotate_master_key", stdout=io.StringIO())


def stored():
    return Endpoint.objects.extra(select={"raw": "url"}).values_list("raw", flat=True).get()


@pytest.mark.parametrize("role", [heartbeat.WEB, heartbeat.DELIVERY, heartbeat.TASKS, "worker"])
@pytest.mark.parametrize("knows", [True, False], ids=["an older key", "none told, as by an older release"])
def test_rotation_is_refused_while_a_process_has_another_key_in_front(keys, role, knows):
    old, new = keys
    alive(role, old if knows else None)
    alive(role, new, "h:2")
    before = stored()
    with pytest.raises(CommandError) as refused:
        rotate()
    assert f"another key in front of MASTER_KEYS: {role}@h:1. They could" in str(refused.value)
    assert stored() == before


def test_it_goes_on_when_all_have_it_and_beat_and_the_dead_do_not_count(keys):
    old, new = keys
    alive(heartbeat.WEB, new)
    alive(heartbeat.BEAT, None, "h:2")
    heartbeat.beat_once(heartbeat.SCHEDULE, process="schedule")
    alive(heartbeat.DELIVERY, old, "h:3")
    Heartbeat.objects.filter(process__endswith="h:3").update(seen_at=timezone.now() - timedelta(minutes=1))
    before = stored()
    rotate()
    assert stored() != before


def test_a_process_tells_its_first_key_beside_its_role_and_takes_it_along_at_its_end(settings, monkeypatch):
    told = []
    monkeypatch.setattr(heartbeat, "Pulse", lambda *roles, also: told.append(roles) or type("P", (), {"start": int})())
    monkeypatch.setattr(heartbeat, "_pulse", None)
    heartbeat.start(heartbeat.WEB)
    assert told == [(heartbeat.WEB, f"key:{key_id(settings.MASTER_KEYS[0])}")]
    settings.MASTER_KEYS = []
    assert known_keys.as_roles() == []
