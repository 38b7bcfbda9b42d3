"""Lists in a request, counted before anything in them is looked at."""

from typing import Any

from rest_framework import serializers


class CountedListField(serializers.ListField):
    """A ListField that refuses a list beyond `max_length` at once: DRF would judge each of a million entries first."""

    def to_internal_value(self, data: Any) -> Any:
        if self.max_length is not None and isinstance(data, list) and len(data) > self.max_length:
            words = self.error_messages["max_length"].format(max_length=self.max_length)
            raise serializers.ValidationError(words, code="max_length")
        return super().to_internal_value(data)
