"""A master key is rotated only when every running process that reads secrets has it in front."""

import io
from datetime import timedelta

import pytest
from cryptography.fernet import Fernet
from django.core.exceptions import ImproperlyConfigured
from django.core.management import CommandError, call_command
from django.utils import timezone

from console.health import heartbeat, known_keys
from console.models import Heartbeat
from console.tests.conftest import make_endpoint
from delivery.models import Endpoint
from kernel import rotation
from kernel.secrets import UndecryptableSecret, key_id, unreadable_fields

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
    assert f"another key in front of MASTER_KEYS, or tell none: {role}@h:1. They might" in str(refused.value)
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


def test_what_the_refusal_says_of_the_others_is_so(keys, settings):
    old, new = keys
    rotate()
    settings.MASTER_KEYS = [old]
    with pytest.raises(UndecryptableSecret):  # might not open what is rotated
        _ = Endpoint.objects.get().url
    settings.MASTER_KEYS = [old, new]
    endpoint = Endpoint.objects.get()
    assert endpoint.url  # or would go on with the old key
    endpoint.save()
    settings.MASTER_KEYS = [new]
    assert unreadable_fields(Endpoint.objects.get()) == ["url"]


@pytest.mark.parametrize(("seconds", "counts"), [(34, True), (36, False)])
def test_one_that_was_killed_counts_for_as_long_as_the_refusal_says(keys, seconds, counts):
    old, _ = keys
    alive(heartbeat.WEB, old)
    with pytest.raises(CommandError, match=r"one that was killed counts for 35 s more\. Nothing was changed\."):
        rotate()
    Heartbeat.objects.update(seen_at=timezone.now() - timedelta(seconds=seconds))
    before = stored()
    if counts:
        with pytest.raises(CommandError, match="web@h:1"):
            rotate()
    else:
        rotate()
    assert (stored() == before) == counts


def test_one_that_ended_in_order_does_not_count(keys):
    old, _ = keys
    heartbeat.beat_once(heartbeat.WEB, f"key:{key_id(old)}")
    heartbeat.forget(heartbeat.WEB, f"key:{key_id(old)}")
    before = stored()
    rotate()
    assert stored() != before


def test_what_is_written_under_the_old_key_meanwhile_is_named_and_no_key_is_told_to_be_removable(
    keys, settings, monkeypatch
):
    old, new = keys
    reencrypt, out = rotation.reencrypt, io.StringIO()

    def overtaken(token):  # another process, which started with the old key, saves between our read and our write
        settings.MASTER_KEYS = [old]
        Endpoint.objects.update(url="https://acme.example/late")
        settings.MASTER_KEYS = [new, old]
        return reencrypt(token)

    with monkeypatch.context() as patched:
        patched.setattr(rotation, "reencrypt", overtaken)
        with pytest.raises(CommandError) as refused:
            call_command("rotate_master_key", stdout=out)
    pk = Endpoint.objects.get().pk
    assert f"Written under an old key meanwhile: delivery.Endpoint.url of {pk}. Some" in str(refused.value)
    assert "can be removed" not in out.getvalue()
    call_command("rotate_master_key", stdout=out)
    assert "can be removed" in out.getvalue()
    settings.MASTER_KEYS = [new]
    assert Endpoint.objects.get().url == "https://acme.example/late"


def test_without_any_key_it_says_so_and_blames_no_process(keys, settings):
    alive(heartbeat.WEB, keys[0])
    settings.MASTER_KEYS = []
    with pytest.raises(ImproperlyConfigured, match="MASTER_KEYS is missing"):
        rotate()


def test_a_process_tells_its_first_key_beside_its_role_and_takes_it_along_at_its_end(settings, monkeypatch):
    told = []
    monkeypatch.setattr(heartbeat, "Pulse", lambda *roles, also: told.append(roles) or type("P", (), {"start": int})())
    monkeypatch.setattr(heartbeat, "_pulse", None)
    heartbeat.start(heartbeat.WEB)
    assert told == [(heartbeat.WEB, f"key:{key_id(settings.MASTER_KEYS[0])}")]
    settings.MASTER_KEYS = []
    assert known_keys.as_roles() == []
