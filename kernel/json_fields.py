"""JSON in columns and forms, within the depth that can be read and written back: a deeper row is shown, never a 500."""

import json
from typing import Any

from django.db import models

from kernel.parsing import HostileJSON, cut, shown_loads, strict_loads


class TextBytes(models.Func):
    """How many bytes a JSON column has as text: what a download of it has."""

    function = "octet_length"
    template = "%(function)s((%(expressions)s)::text)"
    output_field = models.IntegerField()


class StrictDecoder(json.JSONDecoder):
    """For a form's `JSONField`: what the API refuses is no valid JSON there either."""

    def decode(self, s: str, *_: Any) -> Any:  # type: ignore[override]
        try:
            return strict_loads(s.encode())
        except (HostileJSON, UnicodeEncodeError) as error:
            raise json.JSONDecodeError(str(error), s, 0) from None


class ShownJSONField(models.JSONField):
    """A JSONField that can be read whatever a row holds: what is nested too deeply comes back cut, with a word of it.

    For columns that are shown and never written back from what was read.
    """

    def from_db_value(self, value: Any, expression: Any, connection: Any) -> Any:
        try:
            found = super().from_db_value(value, expression, connection)  # type: ignore[misc]
        except RecursionError:
            return shown_loads(value)
        return cut(found)

    def formfield(self, **kwargs: Any) -> Any:
        return super().formfield(**{"decoder": StrictDecoder, **kwargs})

    def deconstruct(self) -> Any:
        """As Django's own field: the column is the same, so no migration."""
        name, _, args, kwargs = super().deconstruct()
        return name, "django.db.models.JSONField", args, kwargs
