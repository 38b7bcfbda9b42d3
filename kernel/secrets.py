"""Secrets at rest: model fields encrypted with the master keys (Fernet; the first key encrypts, all decrypt).

Plaintext must never reach a log, a repr or an index. Decryption is cached, since the engine signs thousands a second.
"""

import hashlib
import json
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.db import models
from django.db.models.query_utils import DeferredAttribute


class UndecryptableSecret(Exception):
    """No master key opens this secret: a key was removed from MASTER_KEYS too early."""


@lru_cache(maxsize=4)
def _keyring(keys: tuple[str, ...]) -> MultiFernet:
    if not keys:
        raise ImproperlyConfigured("MASTER_KEYS is missing: secrets cannot be stored without a master key.")
    try:
        return MultiFernet([Fernet(key) for key in keys])
    except ValueError as error:
        raise ImproperlyConfigured(f"MASTER_KEYS holds something that is no Fernet key: {error}") from error


def master_keyring() -> MultiFernet:
    return _keyring(tuple(settings.MASTER_KEYS))


def encrypt(plaintext: str) -> str:
    return master_keyring().encrypt(plaintext.encode()).decode()


@lru_cache(maxsize=20_000)
def _decrypt(token: str, keys: tuple[str, ...]) -> str:
    try:
        return _keyring(keys).decrypt(token.encode()).decode()
    except InvalidToken:
        raise UndecryptableSecret(
            "A stored secret cannot be opened with any of MASTER_KEYS. Put the old key back, run "
            "`manage.py rotate_master_key`, and only then remove it."
        ) from None


def decrypt(token: str) -> str:
    return _decrypt(token, tuple(settings.MASTER_KEYS))


def is_readable(token: str) -> bool:
    """Whether a master key opens it."""
    try:
        master_keyring().decrypt(token.encode())
    except InvalidToken:
        return False
    return True


def is_under_first_key(token: str) -> bool:
    """Whether it would still be readable were all other master keys removed."""
    try:
        _keyring(tuple(settings.MASTER_KEYS[:1])).decrypt(token.encode())
    except InvalidToken:
        return False
    return True


def reencrypt(token: str) -> str:
    """The same secret under the first master key."""
    return master_keyring().rotate(token.encode()).decode()


def key_id(secret: str) -> str:
    """A short public name of a secret: 8 hex digits of its SHA-256. Says which key signed, and nothing about it."""
    return hashlib.sha256(secret.encode()).hexdigest()[:8]


@dataclass(frozen=True, slots=True)
class Unreadable:
    """Stands where a secret was read that no master key opens. It is written back as it was, and never used."""

    token: str = field(repr=False)
    words: str


class SecretAttribute(DeferredAttribute):
    """The value of an encrypted column: the row can be read whatever it holds, this value only if it was opened.

    One secret that cannot be opened must not take a whole list with it, nor the page on which it is replaced.
    """

    def __get__(self, instance: Any, cls: Any = None) -> Any:
        value = super().__get__(instance, cls)
        if isinstance(value, Unreadable):
            raise UndecryptableSecret(value.words)
        return value

    def __set__(self, instance: Any, value: Any) -> None:
        instance.__dict__[self.field.attname] = value


def unreadable_fields(instance: models.Model) -> list[str]:
    """Names of the encrypted fields, of those that were read, which no master key opens."""
    return [name for name, value in instance.__dict__.items() if isinstance(value, Unreadable)]


class EncryptedTextField(models.TextField):
    """Text stored encrypted. Empty stays empty; nothing can be looked up by it.

    Reading a value that no key opens raises UndecryptableSecret; reading its row, or writing a new value, does not.
    """

    descriptor_class = SecretAttribute

    def get_prep_value(self, value: Any) -> Any:
        if isinstance(value, Unreadable):
            return value.token
        value = super().get_prep_value(value)
        return encrypt(value) if value else value

    def from_db_value(self, value: str | None, expression: Any, connection: Any) -> Any:
        try:
            return self._opened(value) if value else value
        except UndecryptableSecret as error:
            return Unreadable(value or "", str(error))

    def _opened(self, token: str) -> Any:
        return decrypt(token)

    def pre_save(self, model_instance: models.Model, add: bool) -> Any:
        value = model_instance.__dict__.get(self.attname)
        return value if isinstance(value, Unreadable) else super().pre_save(model_instance, add)

    def value_from_object(self, obj: models.Model) -> Any:
        """For forms: an unreadable value is shown as none, so that a new one can be written."""
        try:
            return super().value_from_object(obj)
        except UndecryptableSecret:
            return self.get_default()

    def get_lookup(self, lookup_name: str) -> Any:
        if lookup_name in {"isnull"}:
            return super().get_lookup(lookup_name)
        raise TypeError(f"{self.name} is encrypted and cannot be searched with '{lookup_name}'.")


class EncryptedJSONField(EncryptedTextField):
    """A JSON value stored encrypted as a whole."""

    _pyi_private_set_type: Any  # what mypy's Django plugin takes the attribute for
    _pyi_private_get_type: Any

    def get_prep_value(self, value: Any) -> Any:
        if isinstance(value, Unreadable):
            return value.token
        return None if value is None else encrypt(json.dumps(value, ensure_ascii=False))

    def _opened(self, token: str) -> Any:
        return json.loads(decrypt(token))

    def to_python(self, value: Any) -> Any:
        return json.loads(value) if isinstance(value, str) and value else value

    def value_to_string(self, obj: models.Model) -> str:
        return json.dumps(self.value_from_object(obj))
