"""The rows of `/dead-letters/` and its groups, told apart by `side`. Only for the document."""

from typing import Any

from drf_spectacular.utils import PolymorphicProxySerializer, extend_schema_field
from rest_framework import serializers

from console import dead_letters

Shape = type[serializers.Serializer]


class DeliveryDeadLetter(serializers.Serializer):
    """A delivery that gave up."""

    side = serializers.ChoiceField([dead_letters.DELIVERY])
    id = serializers.CharField()
    fingerprint = serializers.CharField(help_text="Names its cause; a group has one.")
    endpoint = serializers.CharField()
    host = serializers.CharField()
    subscriber = serializers.CharField()
    type = serializers.CharField(help_text="Of its event.")
    outcome = serializers.CharField(help_text="Of its last attempt.")
    status_code = serializers.IntegerField(allow_null=True)
    error = serializers.CharField(help_text="The first 200 characters.")
    attempt_count = serializers.IntegerField()
    finished_at = serializers.DateTimeField(allow_null=True)


class TaskDeadLetter(serializers.Serializer):
    """A task that gave up."""

    side = serializers.ChoiceField([dead_letters.TASK])
    id = serializers.CharField()
    fingerprint = serializers.CharField(help_text="Its cause: `kind/error_code`.")
    kind = serializers.CharField()
    batch = serializers.CharField(allow_null=True)
    subscriber = serializers.CharField()
    error_code = serializers.CharField()
    error = serializers.CharField(help_text="The first 200 characters.")
    attempt_count = serializers.IntegerField()
    finished_at = serializers.DateTimeField(allow_null=True)


class DeliveryGroup(serializers.Serializer):
    """Deliveries that gave up for one cause."""

    side = serializers.ChoiceField([dead_letters.DELIVERY])
    fingerprint = serializers.CharField()
    endpoint = serializers.CharField()
    endpoint_name = serializers.CharField()
    subscriber = serializers.CharField()
    host = serializers.CharField()
    outcome = serializers.CharField()
    status_code = serializers.IntegerField(allow_null=True)
    error = serializers.CharField()
    count = serializers.IntegerField()
    first_at = serializers.DateTimeField()
    last_at = serializers.DateTimeField()
    sample = serializers.CharField(help_text="The id of one of them.")
    what_to_do = serializers.CharField()


class TaskGroup(serializers.Serializer):
    """Tasks that gave up for one cause."""

    side = serializers.ChoiceField([dead_letters.TASK])
    fingerprint = serializers.CharField()
    kind = serializers.CharField()
    error_code = serializers.CharField()
    error = serializers.CharField()
    count = serializers.IntegerField()
    first_at = serializers.DateTimeField(allow_null=True)
    last_at = serializers.DateTimeField(allow_null=True)
    sample = serializers.CharField(help_text="The id of one of them.")
    what_to_do = serializers.CharField()


def _rows(name: str, delivery: Shape, task: Shape) -> serializers.Field:
    """A class of its own for each: DRF copies fields by making them anew, which loses an instance's annotation."""
    sides: Any = {dead_letters.DELIVERY: delivery, dead_letters.TASK: task}
    either = PolymorphicProxySerializer(name, sides, resource_type_field_name="side", many=True)
    return extend_schema_field(either)(type(f"{name}RowsField", (serializers.JSONField,), {}))()


class DeadLetterPage(serializers.Serializer):
    next = serializers.URLField(
        allow_null=True, help_text="Where the list goes on, also from a short page; null at its end."
    )
    results = _rows("DeadLetter", DeliveryDeadLetter, TaskDeadLetter)


class DeadLetterGroups(serializers.Serializer):
    among_newest = serializers.IntegerField(
        allow_null=True,
        help_text="The groups were counted among so many of the newest dead letters; null where they are all in them.",
    )
    results = _rows("DeadLetterGroup", DeliveryGroup, TaskGroup)
