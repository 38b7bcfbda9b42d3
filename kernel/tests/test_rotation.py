"""Opening a sample of what is stored: every encrypted column, the newest first, and never more than asked for."""

import pytest
from cryptography.fernet import Fernet
from django.apps import apps

from kernel import rotation
from kernel.secrets import EncryptedTextField

pytestmark = pytest.mark.django_db
Endpoint = apps.get_model("delivery", "Endpoint")  # the kernel has no encrypted column of its own
PLACE = rotation.Place(Endpoint, "url")


def make(count):
    return [Endpoint.objects.create(url=f"https://a.example/{n}", host="a.example").pk for n in range(count)]


def test_every_encrypted_column_of_every_app_is_a_place():
    columns = {
        f"{model._meta.label}.{field.name}"
        for model in apps.get_models()
        for field in model._meta.get_fields()
        if isinstance(field, EncryptedTextField)
    }
    assert {str(place) for place in rotation.places()} == columns
    assert {"delivery.Endpoint.url", "delivery.Endpoint.headers", "delivery.Endpoint.client_certificate"} <= columns


def test_a_column_without_secrets_has_opened_nothing():
    assert rotation.sample(PLACE, 5) == rotation.Sample(0, [], False)


def test_so_many_of_the_newest_are_opened_and_that_there_are_more_is_said(settings, django_assert_num_queries):
    make(2)
    settings.MASTER_KEYS = [Fernet.generate_key().decode()]
    make(3)
    with django_assert_num_queries(1):
        assert rotation.sample(PLACE, 3) == rotation.Sample(3, [], True)


def test_those_that_no_key_opens_are_named(settings):
    closed = make(2)
    settings.MASTER_KEYS = [Fernet.generate_key().decode()]
    make(1)
    assert rotation.sample(PLACE, 3) == rotation.Sample(1, closed[::-1], False)
