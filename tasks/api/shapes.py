"""What goes in and out: serializers of tasks, batches, jobs and transitions."""

from typing import Any

from drf_spectacular.utils import extend_schema_serializer
from rest_framework import serializers
from rest_framework.request import Request

from tasks import kinds
from tasks.models import Batch, Task
from tasks.reading import bodies
from tasks.states import Cause, JobState, State

ROOT = "/api/v1"


def url_of(request: Request, collection: str, pk: int) -> str:
    return request.build_absolute_uri(f"{ROOT}/{collection}/{pk}/")


class BodyField(serializers.JSONField):
    """An input or a result where it may be shown here and is short; else it is not even read."""

    def get_attribute(self, task: Task) -> Any:
        if not self.context.get("may_see_payloads", True):
            return None
        return bodies.inline(task, str(self.field_name), may_read=self.context.get("reads_bodies", True))


class TaskSerializer(serializers.ModelSerializer):
    """A task. `input` and `result` are null in lists (ask with `payload=true` for what fits), where they are longer
    than 1 MiB (see `input_url`, `result_url`), and for console users who may not see payloads."""

    id = serializers.CharField(read_only=True)
    batch = serializers.CharField(source="batch_id", allow_null=True, read_only=True)
    position = serializers.IntegerField(read_only=True, help_text="Its place in the batch, from 0.")
    final = serializers.BooleanField(source="is_final", read_only=True)
    state_label = serializers.CharField(source="get_state_display", read_only=True)
    input = BodyField(read_only=True, allow_null=True)
    result = BodyField(read_only=True, allow_null=True)
    input_bytes = serializers.IntegerField(read_only=True, help_text="How long the download of it is.")
    result_bytes = serializers.IntegerField(read_only=True, allow_null=True, help_text="Null while there is none.")
    input_url = serializers.SerializerMethodField(help_text="The whole of it, however long.")
    result_url = serializers.SerializerMethodField(help_text="The whole of it; null while there is none.")
    url = serializers.SerializerMethodField()

    class Meta:
        model = Task
        fields = (
            "id",
            "kind",
            "state",
            "state_label",
            "final",
            "progress",
            "batch",
            "position",
            "subscriber",
            "reference",
            "input",
            "input_bytes",
            "input_url",
            "result",
            "result_bytes",
            "result_url",
            "error_code",
            "error_text",
            "attempt_count",
            "attempt_limit",
            "redrive_count",
            "run_at",
            "next_attempt_at",
            "cancel_requested_at",
            "created_at",
            "started_at",
            "finished_at",
            "updated_at",
            "correlation_id",
            "url",
        )
        read_only_fields = fields

    def get_url(self, task: Task) -> str:
        return url_of(self.context["request"], "tasks", task.pk)

    def get_input_url(self, task: Task) -> str:
        return f"{self.get_url(task)}input/"

    def get_result_url(self, task: Task) -> str | None:
        return None if task.result_bytes is None else f"{self.get_url(task)}result/"


class BatchSerializer(serializers.ModelSerializer):
    """A batch. A redrive opens it again; its next completion has the next `revision`."""

    id = serializers.CharField(read_only=True)
    state = serializers.ChoiceField(["running", "completed"], read_only=True)
    outcome = serializers.SerializerMethodField()
    counts = serializers.DictField(child=serializers.IntegerField(), read_only=True)
    url = serializers.SerializerMethodField()

    class Meta:
        model = Batch
        fields = (
            "id",
            "kind",
            "state",
            "outcome",
            "revision",
            "counts",
            "total",
            "subscriber",
            "reference",
            "correlation_id",
            "created_at",
            "completed_at",
            "url",
        )
        read_only_fields = fields

    def get_outcome(self, batch: Batch) -> str | None:
        return batch.outcome or None

    def get_url(self, batch: Batch) -> str:
        return url_of(self.context["request"], "batches", batch.pk)


class _Known(serializers.Serializer):
    """A request whose fields are all known: a misspelt one is refused instead of ignored."""

    def to_internal_value(self, data: Any) -> dict[str, Any]:
        value = super().to_internal_value(data)
        unknown = sorted(set(data) - set(self.fields))
        if unknown:
            words = f"There is no such field; there are {', '.join(self.fields)}."
            raise serializers.ValidationError(
                {str(name)[:60]: serializers.ErrorDetail(words, code="unknown_field") for name in unknown}
            )
        return value


class NewTaskSerializer(_Known):
    kind = serializers.CharField(max_length=60)
    input = serializers.JSONField()
    subscriber = serializers.CharField(max_length=100, required=False, allow_blank=True, default="")
    run_at = serializers.DateTimeField(required=False, allow_null=True, default=None)
    reference = serializers.CharField(max_length=200, required=False, allow_blank=True, default="")


class NewBatchSerializer(_Known):
    """The items are checked by the submit verb: ten thousand of them are too many for nested serializers."""

    kind = serializers.CharField(max_length=60)
    subscriber = serializers.CharField(max_length=100, required=False, allow_blank=True, default="")
    reference = serializers.CharField(max_length=200, required=False, allow_blank=True, default="")
    tasks = serializers.JSONField(help_text="A list of {input, reference?} objects.")


class ReasonSerializer(serializers.Serializer):
    """The body of a verb; it may be left out."""

    reason = serializers.CharField(max_length=300, required=False, allow_blank=True, default="")


class CancelledBatchSerializer(serializers.Serializer):
    """How many tasks: stopped at once, left to the provider's answer, and already final."""

    cancelled = serializers.IntegerField()
    cancelling = serializers.IntegerField()
    refused = serializers.IntegerField()
    batch = BatchSerializer()


class TimelineEntrySerializer(serializers.Serializer):
    """One thing that happened to a task. `type` says which of the other fields it has."""

    at = serializers.DateTimeField()
    type = serializers.ChoiceField(["transition", "external_job", "event", "delivery"])
    text = serializers.CharField(help_text="In words, for people.")
    from_state = serializers.ChoiceField(State.choices, allow_blank=True, required=False)
    to_state = serializers.ChoiceField(State.choices, required=False)
    cause = serializers.ChoiceField(Cause.choices, required=False)
    reason = serializers.CharField(required=False)
    detail = serializers.CharField(required=False)
    actor = serializers.CharField(required=False)
    attempt = serializers.IntegerField(required=False)
    provider = serializers.CharField(required=False)
    job_id = serializers.CharField(required=False)
    state = serializers.CharField(required=False, help_text=f"Of an external job: {', '.join(JobState.values)}.")
    provider_status = serializers.CharField(required=False)
    event = serializers.CharField(required=False, help_text="The event's uid, which is the webhook-id.")
    event_type = serializers.CharField(required=False)
    delivery = serializers.CharField(required=False)
    endpoint = serializers.CharField(required=False)
    last_outcome = serializers.CharField(required=False)


class PolicySerializer(serializers.Serializer):
    provider = serializers.CharField(help_text="Where new work goes; empty for internal kinds.")
    is_paused = serializers.BooleanField()
    concurrency = serializers.IntegerField()
    rate_per_minute = serializers.IntegerField(allow_null=True)
    attempt_limit = serializers.IntegerField()
    timeout_seconds = serializers.IntegerField()
    batch_size = serializers.IntegerField()


class KindSerializer(serializers.Serializer):
    kind = serializers.ChoiceField(list(kinds.KINDS))
    title = serializers.CharField()
    is_external = serializers.BooleanField()
    input_schema = serializers.DictField(help_text="JSON Schema, draft 2020-12.")
    policy = PolicySerializer()


@extend_schema_serializer(many=False)
class KindsSerializer(serializers.Serializer):
    """All kinds, in the frame of every list; there is one page of them."""

    next = serializers.CharField(allow_null=True)
    previous = serializers.CharField(allow_null=True)
    results = KindSerializer(many=True)
