"""Re-encrypt every stored secret under the first master key, so that an old one can be removed.

Works row by row in bounded chunks and may be stopped and repeated. A row that changed meanwhile is left alone: its
writer used the first key already, or `left_behind` names it. A secret that no key opens is passed over and named; the
others must not wait for it.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from cryptography.fernet import InvalidToken
from django.apps import apps
from django.db import models
from django.db.models import F, TextField, Value
from django.db.models.functions import Cast

from kernel.secrets import EncryptedTextField, is_readable, is_under_first_key, reencrypt

CHUNK = 500


@dataclass(frozen=True)
class Place:
    """One encrypted column."""

    model: type[models.Model]
    field: str

    def __str__(self) -> str:
        return f"{self.model._meta.label}.{self.field}"


def places() -> list[Place]:
    """Every encrypted column of every app."""
    return [
        Place(model, field.name)
        for model in apps.get_models()
        for field in model._meta.concrete_fields
        if isinstance(field, EncryptedTextField)
    ]


def rotate(place: Place, progress: Callable[[int], None] = lambda done: None) -> tuple[int, list[Any]]:
    """Re-encrypt one column; returns how many secrets, and the ids of the rows whose secret no key opens."""
    done = 0
    closed: list[Any] = []
    for chunk in _chunks(place):
        for pk, token in chunk:
            try:
                fresh = Value(reencrypt(token), output_field=TextField())
            except InvalidToken:
                closed.append(pk)
                continue
            done += _rows(place).filter(pk=pk, stored=token).update(**{place.field: fresh})
        progress(done)
    return done, closed


@dataclass
class Sample:
    """What came of opening some secrets of a column. `is_partial`: there are older ones that were not looked at."""

    opened: int = 0
    closed: list[Any] = field(default_factory=list)
    is_partial: bool = False


def sample(place: Place, at_most: int) -> Sample:
    """Open the newest secrets of a column; `closed` are the ids of rows that no master key opens. Changes nothing."""
    found = Sample()
    rows = _rows(place).order_by("-pk").values_list("pk", "stored")[: at_most + 1]
    for position, (pk, token) in enumerate(rows.iterator(chunk_size=CHUNK)):
        if position == at_most:
            found.is_partial = True
        elif is_readable(token):
            found.opened += 1
        else:
            found.closed.append(pk)
    return found


def left_behind(place: Place) -> list[Any]:
    """The ids of the rows whose secret in this column the first master key does not open. Changes nothing."""
    return [pk for chunk in _chunks(place) for pk, token in chunk if not is_under_first_key(token)]


def _rows(place: Place) -> models.QuerySet[Any]:
    stored = Cast(F(place.field), TextField())
    return place.model._base_manager.annotate(stored=stored).exclude(stored="").exclude(stored=None)


def _chunks(place: Place) -> Iterator[list[tuple[Any, str]]]:
    """(id, encrypted text) of every row that holds a secret."""
    rows, last = _rows(place), None
    while True:
        chunk = rows if last is None else rows.filter(pk__gt=last)
        tokens = list(chunk.order_by("pk").values_list("pk", "stored")[:CHUNK])
        if not tokens:
            return
        yield tokens
        last = tokens[-1][0]
