"""Secrets of an endpoint: each signs until the time promised for it, and none of them is ever shown again."""

import io
from datetime import timedelta

import pytest
from django.db import connection
from django.db.models.functions import Now
from django.utils import timezone

from delivery import endpoint_secrets, endpoints
from delivery.endpoint_rules import InvalidEndpoint
from delivery.engine.requests import config_of
from delivery.errors import WrongState
from delivery.models import Endpoint
from delivery.policy import signing

pytestmark = pytest.mark.django_db
WHO = {"actor": "user:1:ada", "reason": "test"}
HOUR = timedelta(hours=1)


def _made(**values):
    return endpoints.create(url="https://hooks.example.com/in", **WHO, **values)


def _database_now():
    return Endpoint.objects.annotate(at=Now()).values_list("at", flat=True)[0]


def _signing(endpoint, after=timedelta(0)):
    return config_of(Endpoint.objects.get(pk=endpoint.pk)).secrets((_database_now() + after).timestamp())


def test_every_secret_signs_until_the_time_promised_for_it():
    first = _made()
    second = endpoints.rotate_secret(first, overlap=24 * HOUR, **WHO)
    third = endpoints.rotate_secret(first, overlap=2 * HOUR, **WHO)
    assert _signing(first) == [third.secret, second.secret, first.secret]
    assert _signing(first, 3 * HOUR) == [third.secret, first.secret]
    assert _signing(first, 25 * HOUR) == [third.secret]
    leaked = endpoints.rotate_secret(first, overlap=timedelta(0), **WHO)
    assert _signing(first) == [leaked.secret, second.secret, first.secret]
    assert leaked.version == 4


def test_a_sixth_secret_is_refused_in_words_and_nothing_changes():
    endpoint = _made()
    for _ in range(endpoint_secrets.MOST - 1):
        endpoint = endpoints.rotate_secret(endpoint, overlap=HOUR, **WHO)
    with pytest.raises(WrongState, match="5 secrets sign for this endpoint already") as caught:
        endpoints.rotate_secret(endpoint, overlap=HOUR, **WHO)
    assert caught.value.code == "too_many_secrets"
    assert len(_signing(endpoint)) == 5 and _signing(endpoint)[0] == endpoint.secret
    assert len(_signing(endpoints.rotate_secret(endpoint, overlap=timedelta(0), **WHO))) == 5


def test_ended_secrets_make_room():
    endpoint = _made()
    for _ in range(4):
        endpoint = endpoints.rotate_secret(endpoint, overlap=HOUR, **WHO)
    rows = Endpoint.objects.get().earlier_secrets
    Endpoint.objects.update(earlier_secrets=[{**row, "ends_at": (_database_now() - HOUR).isoformat()} for row in rows])
    rotated = endpoints.rotate_secret(endpoint, overlap=HOUR, **WHO)
    assert _signing(rotated) == [rotated.secret, endpoint.secret]
    assert len(rotated.earlier_secrets) == 1


def test_a_leaked_secret_is_ended_at_once_by_its_id():
    first = _made()
    second = endpoints.rotate_secret(first, **WHO)
    third = endpoints.rotate_secret(first, **WHO)
    ended = endpoints.end_secret(first, endpoint_secrets.id_of(first.secret), **WHO)
    assert _signing(first) == [third.secret, second.secret]
    assert ended.version == third.version + 1  # workers read it again
    with pytest.raises(InvalidEndpoint, match="has ended, or never was one"):
        endpoints.end_secret(first, endpoint_secrets.id_of(first.secret), **WHO)


def test_the_standing_secret_cannot_be_ended():
    endpoint = _made()
    for _ in range(2):
        with pytest.raises(WrongState, match="Rotate it with no overlap"):
            endpoints.end_secret(endpoint, endpoint_secrets.id_of(endpoint.secret), **WHO)
        endpoint = endpoints.rotate_secret(endpoint, **WHO)
    assert len(_signing(endpoint)) == 3


def test_the_overlap_ends_by_the_databases_clock(monkeypatch):
    """A web host whose clock is an hour off neither stretches nor shortens a promise."""
    endpoint = _made()
    real = timezone.now
    monkeypatch.setattr(timezone, "now", lambda: real() + HOUR)
    rotated = endpoints.rotate_secret(endpoint, overlap=HOUR, **WHO)
    (one,) = endpoint_secrets.earlier(rotated)
    assert abs(one.ends_at - _database_now() - HOUR) < timedelta(minutes=5)
    assert abs(rotated.secret_changed_at - _database_now()) < timedelta(minutes=5)
    assert _signing(endpoint, HOUR + timedelta(minutes=5)) == [rotated.secret]


def test_asked_twice_by_one_page_it_is_rotated_once():
    endpoint = _made()
    first = endpoints.rotate_secret(endpoint, token="page-1", **WHO)
    again = endpoints.rotate_secret(endpoint, token="page-1", **WHO)
    assert (again.secret, again.version) == (first.secret, first.version)
    assert endpoints.rotate_secret(endpoint, token="page-2", **WHO).secret != first.secret


def test_a_secret_brought_back_stands_once():
    first = _made()
    endpoints.rotate_secret(first, **WHO)
    back = endpoints.rotate_secret(first, secret=first.secret, **WHO)
    assert _signing(first).count(first.secret) == 1 and back.secret == first.secret
    with pytest.raises(InvalidEndpoint, match="stands already"):
        endpoints.rotate_secret(first, secret=first.secret, **WHO)


def test_both_schemes_sign_while_one_is_replaced_by_the_other():
    endpoint = _made()
    rotated = endpoints.rotate_secret(endpoint, signature_scheme="v1a", **WHO)
    signed = signing.sign(_signing(endpoint), "evt_1", 1, b"{}")
    assert [entry[:3] for entry in signed.signature.split(" ")] == ["v1a", "v1,"]
    assert signing.proves([rotated.public_key], "evt_1", 1, signed.signature, b"{}")
    assert signing.proves([endpoint.secret], "evt_1", 1, signed.signature, b"{}")
    assert len(signed.key_ids) <= 60


def test_earlier_secrets_are_encrypted_and_come_with_a_new_master_key(settings):
    from cryptography.fernet import Fernet
    from django.core.management import call_command

    first = _made()
    endpoints.rotate_secret(first, **WHO)
    with connection.cursor() as cursor:
        cursor.execute("SELECT earlier_secrets FROM delivery_endpoint")
        assert first.secret not in cursor.fetchone()[0]
    new, old = Fernet.generate_key().decode(), settings.MASTER_KEYS[0]
    settings.MASTER_KEYS = [new, old]
    call_command("rotate_master_key", stdout=io.StringIO())
    settings.MASTER_KEYS = [new]
    assert first.secret in _signing(first)


def test_the_migration_keeps_a_running_overlap_both_ways(transactional_db, django_db_blocker):
    from django.db.migrations.executor import MigrationExecutor

    def move(name):
        executor = MigrationExecutor(connection)
        executor.migrate([("delivery", name)])
        return (
            MigrationExecutor(connection)
            .loader.project_state([("delivery", name)])
            .apps.get_model("delivery", "Endpoint")
        )

    loader = MigrationExecutor(connection).loader
    newest = loader.graph.leaf_nodes("delivery")
    one_before = loader.get_migration("delivery", "0009_endpoint_secrets").dependencies[0][1]
    try:
        before = move(one_before)
        until = timezone.now() + HOUR
        values = {"url": "https://a.example/", "host": "a.example", "secret": "whsec_new"}
        one = before.objects.create(**values, previous_secret="whsec_old", previous_secret_until=until)
        before.objects.create(**values)
        after = move("0009_endpoint_secrets")
        (moved,) = endpoint_secrets.earlier(after.objects.get(pk=one.pk))
        assert (moved.secret, moved.ends_at) == ("whsec_old", until)
        assert after.objects.exclude(pk=one.pk).get().earlier_secrets is None
        back = move(one_before).objects.get(pk=one.pk)
        assert (back.previous_secret, back.previous_secret_until) == ("whsec_old", until)
    finally:
        executor = MigrationExecutor(connection)
        executor.migrate(newest)
        Endpoint.objects.all().delete()
