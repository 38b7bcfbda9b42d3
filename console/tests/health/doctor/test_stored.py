"""Secrets, certificates and keys are opened, each, and what cannot be is named."""

import pytest
from cryptography.fernet import Fernet

from console.health import heartbeat
from console.health.doctor import stored
from console.health.doctor.findings import NotTried
from console.tests.conftest import make_endpoint
from delivery.models import Endpoint
from kernel.secrets import key_id
from kernel.tests import hostile

pytestmark = pytest.mark.django_db


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return hostile.Certificates(tmp_path_factory.mktemp("pem"))


def with_certificates(**values):
    endpoint = make_endpoint()
    for name, value in values.items():
        setattr(endpoint, name, value)
    endpoint.save()
    return endpoint


def test_a_secret_that_no_key_opens_is_named(settings):
    (found,) = stored.stored_secrets()
    assert isinstance(found, NotTried) and "none is stored yet" in found.words
    endpoint = make_endpoint()
    (found,) = stored.stored_secrets()
    assert (found.is_ok, found.words) == (True, "a master key opens each of 1 in 1 columns")
    settings.MASTER_KEYS = [Fernet.generate_key().decode()]
    (found,) = stored.stored_secrets()
    assert not found.is_ok and f"delivery.Endpoint.url of {endpoint.pk}" in found.words


def test_more_secrets_than_are_opened_are_said_to_be_untried(monkeypatch):
    monkeypatch.setattr(stored, "SECRETS_OF_EACH", 2)
    for _ in range(3):
        make_endpoint()
    well, rest = stored.stored_secrets()
    assert well.words == "a master key opens each of 2 in 1 columns"
    assert rest == NotTried("older_secrets", "of delivery.Endpoint.url the newest 2 were opened, not the rest")


def test_without_certificates_there_is_nothing_wrong_with_them():
    make_endpoint()
    (found,) = stored.endpoint_certificates()
    assert (found.is_ok, found.words) == (True, "no endpoint has one of its own")


def test_good_ones_can_be_used(made):
    with_certificates(ca_certificate=made.ca_file.read_text())
    with_certificates(client_certificate=made.pem_file("client.example").read_text())
    (found,) = stored.endpoint_certificates()
    assert (found.is_ok, found.words) == (True, "of 2 endpoints can be used")


def test_each_that_is_broken_expired_or_closed_is_named_and_none_is_shown(made, settings):
    broken = with_certificates(ca_certificate="-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----")
    expired = with_certificates(client_certificate=made.pem_file("old.example", days=(-9, -1)).read_text())
    key = made.pem_file("one.example").read_text().split("-----BEGIN CERTIFICATE-----")[0]
    strange = with_certificates(client_certificate=key + made.ca_file.read_text())
    gone = with_certificates(ca_certificate="junk")
    Endpoint.objects.filter(pk=gone.pk).update(deleted_at=heartbeat.clock.now())
    (found,) = stored.endpoint_certificates()
    assert not found.is_ok
    for endpoint, words in ((broken, "cannot be read"), (expired, "expired on"), (strange, "does not belong")):
        assert f"endpoint {endpoint.pk} (partner.example)" in found.words and words in found.words
    assert f"endpoint {gone.pk} " not in found.words and "PRIVATE KEY" not in found.words
    settings.MASTER_KEYS = [Fernet.generate_key().decode()]
    (found,) = stored.endpoint_certificates()
    assert "no master key opens its client certificate" in found.words


def test_ten_are_named_and_the_others_counted():
    for _ in range(12):
        with_certificates(ca_certificate="junk")
    (found,) = stored.endpoint_certificates()
    assert found.words.count("partner.example") == 10 and "and 2 more" in found.words


def test_more_than_are_opened_are_said_to_be_untried(made, monkeypatch):
    monkeypatch.setattr(stored, "CERTIFICATES", 2)
    for _ in range(3):
        with_certificates(ca_certificate=made.ca_file.read_text())
    well, rest = stored.endpoint_certificates()
    assert well.words == "of 2 endpoints can be used"
    assert rest == NotTried("older_certificates", "those of 1 older endpoints; 2 were opened")


def test_a_process_with_another_first_key_is_named(settings):
    ours, other = settings.MASTER_KEYS[0], Fernet.generate_key().decode()
    heartbeat.beat_once(heartbeat.WEB, f"key:{key_id(ours)}", process="h:1")
    assert stored.process_keys().is_ok
    heartbeat.beat_once(heartbeat.DELIVERY, f"key:{key_id(other)}", process="h:2")
    found = stored.process_keys()
    assert not found.is_ok and "delivery@h:2" in found.words and "web@h:1" not in found.words
