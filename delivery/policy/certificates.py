"""PEM texts judged before they are stored: are they certificates, does the key belong to them, until when good.

Pure; takes `now`. No message repeats anything of a key.
"""

from __future__ import annotations

import re
from datetime import datetime

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_private_key

# A block ends at the next beginning, or a text full of beginnings would be read to its end from each of them.
_INSIDE = rb"(?:[^-]|-(?!----BEGIN ))+?"
_KEY = re.compile(rb"-----BEGIN ([A-Z0-9 ]{0,40})PRIVATE KEY-----" + _INSIDE + rb"-----END \1PRIVATE KEY-----")
_CERTIFICATE = re.compile(rb"-----BEGIN CERTIFICATE-----" + _INSIDE + rb"-----END CERTIFICATE-----")


class CertificateRefused(ValueError):
    """What is wrong with the text, in words."""


def certificates_of(pem: str) -> list[x509.Certificate]:
    """The certificates in the text, in their order. Raises CertificateRefused where there is none or one is broken."""
    blocks = _CERTIFICATE.findall(pem.encode())
    if not blocks:
        raise CertificateRefused("There is no certificate in it (-----BEGIN CERTIFICATE-----).")
    try:
        return [x509.load_pem_x509_certificate(block) for block in blocks]
    except (ValueError, UnsupportedAlgorithm):
        raise CertificateRefused("A certificate in it cannot be read: it is cut off, or not the PEM form.") from None


def check_client_certificate(pem: str) -> None:
    """A certificate (its chain may follow) and its private key, in either order. Raises CertificateRefused."""
    certificates = certificates_of(pem)
    keys = list(_KEY.finditer(pem.encode()))
    if len(keys) != 1:
        words = "There is no private key" if not keys else "There is more than one private key"
        raise CertificateRefused(f"{words} in it. Give the certificate and its own private key together, both as PEM.")
    fits = [_same_key(certificate, keys[0].group()) for certificate in certificates]
    if not any(fits):
        raise CertificateRefused(
            "The private key does not belong to the certificate. Give the pair that belongs together."
        )
    if not fits[0]:
        raise CertificateRefused(
            "The private key belongs to a later certificate. Put that one first, its chain behind it."
        )


def _same_key(certificate: x509.Certificate, key: bytes) -> bool:
    try:
        private = load_pem_private_key(key, password=None)
        ours = private.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
        theirs = certificate.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    except TypeError:
        raise CertificateRefused(
            "The private key has a passphrase. Remove it first: openssl pkey -in … -out …."
        ) from None
    except (ValueError, UnsupportedAlgorithm):
        raise CertificateRefused(
            "The private key cannot be read: it is cut off, or of a kind we do not know."
        ) from None
    return ours == theirs


def validity_warnings(pem: str, what: str, now: datetime) -> list[str]:
    """One sentence for each certificate that is no longer or not yet good; nothing where the text cannot be read."""
    try:
        certificates = certificates_of(pem) if pem else []
    except CertificateRefused as refusal:
        return [f"The {what} cannot be read. {refusal}"]
    found = []
    for certificate in certificates:
        if certificate.not_valid_after_utc <= now:
            found.append(f"The {what} expired on {certificate.not_valid_after_utc:%Y-%m-%d}. Give a new one.")
        elif certificate.not_valid_before_utc > now:
            found.append(f"The {what} is valid only from {certificate.not_valid_before_utc:%Y-%m-%d} on.")
    return found
