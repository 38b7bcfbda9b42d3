"""One request type per kind for the OpenAPI, made from the kinds' own JSON Schemas, told apart by `kind`.

So a generated client has one typed method body per mutation. Only for the document: requests are checked by the kinds.
"""

from typing import Any

from drf_spectacular.utils import PolymorphicProxySerializer, extend_schema_field
from rest_framework import serializers

from tasks import kinds
from tasks.api.shapes import NewBatchSerializer, NewTaskSerializer
from tasks.kinds import Kind


def _input_field(kind: Kind) -> serializers.Field:
    """A class of its own for each kind: DRF copies fields by making them anew, which loses an instance's annotation."""
    field = _class(f"{_camel(kind)}InputField", serializers.JSONField, {}, kind.title)
    return extend_schema_field(dict(kind.schema))(field)()


def _class(name: str, base: type, fields: dict[str, Any], words: str) -> type:
    return type(name, (base,), {**fields, "__doc__": words})


def _camel(kind: Kind) -> str:
    return "".join(part.capitalize() for part in kind.name.split("_"))


def _task_of(kind: Kind) -> type[serializers.Serializer]:
    fields = {"kind": serializers.ChoiceField([kind.name]), "input": _input_field(kind)}
    return _class(f"{_camel(kind)}TaskSerializer", NewTaskSerializer, fields, f"{kind.title}: one task.")


def _batch_of(kind: Kind) -> type[serializers.Serializer]:
    reference = serializers.CharField(max_length=200, required=False)
    item = _class(
        f"{_camel(kind)}BatchItemSerializer",
        serializers.Serializer,
        {"input": _input_field(kind), "reference": reference},
        f"{kind.title}: one task of a batch.",
    )
    fields = {"kind": serializers.ChoiceField([kind.name]), "tasks": item(many=True)}
    return _class(f"{_camel(kind)}BatchSerializer", NewBatchSerializer, fields, f"{kind.title}: a batch.")


def _by_kind(name: str, make: Any) -> PolymorphicProxySerializer:
    types = {kind.name: make(kind) for kind in kinds.KINDS.values()}
    return PolymorphicProxySerializer(component_name=name, serializers=types, resource_type_field_name="kind")


NEW_TASK = _by_kind("NewTask", _task_of)
NEW_BATCH = _by_kind("NewBatch", _batch_of)
