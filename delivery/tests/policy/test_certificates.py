"""Certificates and keys as people paste them: what fits, what does not, and that the words say which."""

from datetime import UTC, datetime, timedelta

import pytest
from cryptography.hazmat.primitives import serialization

from delivery.policy.certificates import (
    CertificateRefused,
    certificates_of,
    check_client_certificate,
    validity_warnings,
)
from kernel.tests import hostile

NOW = datetime.now(UTC)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return hostile.Certificates(tmp_path_factory.mktemp("pem"))


def parts(text: str) -> tuple[str, str]:
    """Key and certificate of one PEM file."""
    at = text.index("-----BEGIN CERTIFICATE-----")
    return text[:at], text[at:]


def refusal(pem: str) -> str:
    with pytest.raises(CertificateRefused) as caught:
        check_client_certificate(pem)
    return str(caught.value)


def test_a_pair_passes_in_either_order_and_with_its_chain(made):
    key, certificate = parts(made.pem_file("client.example").read_text())
    for pem in (
        key + certificate,
        certificate + made.ca_file.read_text() + key,
        f"{certificate}{key}".replace("\n", "\r\n"),
    ):
        assert check_client_certificate(pem) is None  # raises where it is refused


def test_each_fault_has_its_words(made):
    key, certificate = parts(made.pem_file("client.example").read_text())
    other_key, _ = parts(made.pem_file("other.example").read_text())
    locked = (
        serialization.load_pem_private_key(key.encode(), None)
        .private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"hush"),
        )
        .decode()
    )
    junk = "-----BEGIN CERTIFICATE-----\nbm90IGEgY2VydGlmaWNhdGU=\n-----END CERTIFICATE-----\n"
    assert "does not belong" in refusal(certificate + other_key)
    assert "Put that one first" in refusal(made.ca_file.read_text() + certificate + key)
    assert "passphrase" in refusal(certificate + locked)
    assert "There is no private key" in refusal(certificate)
    assert "more than one private key" in refusal(certificate + key + other_key)
    assert "There is no certificate" in refusal(key)
    assert "cannot be read" in refusal(junk + key)
    broken = "-----BEGIN PRIVATE KEY-----\nbm9uc2Vuc2U=\n-----END PRIVATE KEY-----\n"
    assert "private key cannot be read" in refusal(certificate + broken)


def test_an_expired_one_is_warned_about(made):
    expired = made.pem_file("old.example", days=(-10, -1)).read_text()
    check_client_certificate(expired)
    (words,) = validity_warnings(expired, "client certificate", NOW)
    assert words.startswith("The client certificate expired on ")
    early = made.pem_file("new.example", days=(5, 10)).read_text()
    assert "is valid only from" in validity_warnings(early, "client certificate", NOW)[0]
    assert validity_warnings(early, "client certificate", NOW + timedelta(days=6)) == []
    assert validity_warnings("", "client certificate", NOW) == []


def test_a_bundle_is_read_whole(made):
    assert len(certificates_of(made.ca_file.read_text() * 3)) == 3


@pytest.mark.parametrize("kind", ["CERTIFICATE", "PRIVATE KEY", "RSA PRIVATE KEY"])
def test_a_text_full_of_beginnings_is_refused_at_once(kind):
    """Read from each beginning to the end, this would take hours."""
    with pytest.raises(CertificateRefused):
        check_client_certificate(f"-----BEGIN {kind}-----\n" * 100_000)


def test_a_block_that_is_cut_off_does_not_swallow_the_next(made):
    key, certificate = parts(made.pem_file("client.example").read_text())
    assert len(certificates_of("-----BEGIN CERTIFICATE-----\nMII\n" + certificate)) == 1
    check_client_certificate(key + certificate)
