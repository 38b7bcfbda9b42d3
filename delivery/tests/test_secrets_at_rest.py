"""Secrets at rest open with any master key, are written with the first, and cannot be searched."""

import pytest
from cryptography.fernet import Fernet
from django.db import connection
from django.test import override_settings

from delivery.models import Endpoint
from kernel import secrets

OLD, NEW = Fernet.generate_key().decode(), Fernet.generate_key().decode()


def stored_url(pk):
    with connection.cursor() as cursor:
        cursor.execute("SELECT url FROM delivery_endpoint WHERE id = %s", [pk])
        return cursor.fetchone()[0]


@pytest.mark.django_db
def test_the_column_holds_no_plaintext_and_the_model_reads_it():
    endpoint = Endpoint.objects.create(url="https://partner.example/in?token=s3cret", host="partner.example")
    assert "s3cret" not in stored_url(endpoint.pk)
    assert Endpoint.objects.get(pk=endpoint.pk).url == "https://partner.example/in?token=s3cret"


@pytest.mark.django_db
def test_json_is_encrypted_as_a_whole_and_none_stays_none():
    endpoint = Endpoint.objects.create(url="https://a.example/", host="a.example", headers={"X-Token": "Łódź"})
    assert Endpoint.objects.get(pk=endpoint.pk).headers == {"X-Token": "Łódź"}
    Endpoint.objects.filter(pk=endpoint.pk).update(headers=None)
    assert Endpoint.objects.get(pk=endpoint.pk).headers is None


@pytest.mark.django_db
def test_a_secret_cannot_be_looked_up():
    with pytest.raises(TypeError, match="encrypted and cannot be searched"):
        list(Endpoint.objects.filter(url="https://a.example/"))


def test_the_second_key_still_opens_and_rotation_moves_to_the_first():
    with override_settings(MASTER_KEYS=[OLD]):
        token = secrets.encrypt("word")
    with override_settings(MASTER_KEYS=[NEW, OLD]):
        assert secrets.decrypt(token) == "word"
        moved = secrets.reencrypt(token)
    with override_settings(MASTER_KEYS=[NEW]):
        assert secrets.decrypt(moved) == "word"
        with pytest.raises(secrets.UndecryptableSecret, match="rotate_master_key"):
            secrets.decrypt(token)


def test_the_key_id_names_a_secret_without_telling_it():
    assert secrets.key_id("whsec_abc") == secrets.key_id("whsec_abc") != secrets.key_id("whsec_abd")
    assert len(secrets.key_id("whsec_abc")) == 8
