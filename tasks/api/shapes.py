"""What goes in and out: serializers of tasks, batches, jobs and transitions."""

from typing import Any

from drf_spectacular.utils import extend_schema_field, extend_schema_serializer
from rest_framework import serializers
from rest_framework.request import Request

from kernel import clock
from tasks import kinds
from tasks.accounting import policies
from tasks.models import Batch, KindPolicy, Task
from tasks.reading import bodies
from tasks.reading.waiting import WhyWaiting
from tasks.states import Cause, JobState, KeyHeld, State, Waiting, When
from tasks.terms import PRIORITIES

ROOT = "/api/v1"


def url_of(request: Request, collection: str, pk: int) -> str:
    return request.build_absolute_uri(f"{ROOT}/{collection}/{pk}/")


class BodyField(serializers.JSONField):
    """An input or a result where it may be shown here and is short; else it is not even read."""

    def get_attribute(self, task: Task) -> Any:
        if not self.context.get("may_see_payloads", True):
            return None
        return bodies.inline(task, str(self.field_name), may_read=self.context.get("reads_bodies", True))


class StepSerializer(serializers.Serializer):
    """One step of what follows. `on`: `completed` (from what succeeded, once all has ended) or `succeeded` (once
    everything has)."""

    kind = serializers.CharField(max_length=60)
    on = serializers.ChoiceField(When.choices, required=False, default=When.COMPLETED)


@extend_schema_field(StepSerializer(many=True))
class ThenField(serializers.JSONField):
    """Steps, each of which follows the one before; checked by the submit verb."""


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
    then = ThenField(read_only=True, allow_null=True)
    url = serializers.SerializerMethodField()

    priority = serializers.CharField(source="get_priority_display", read_only=True, help_text="high, normal or low.")
    waiting_reason = serializers.SerializerMethodField(
        help_text="Why it does not run now, in one word; null otherwise."
    )
    waiting_words = serializers.SerializerMethodField(help_text="The same in a sentence that says what to do.")

    class Meta:
        model = Task
        fields = (
            "id",
            "kind",
            "state",
            "state_label",
            "final",
            "waiting_reason",
            "waiting_words",
            "priority",
            "progress",
            "progress_note",
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
            "then",
            "run_at",
            "next_attempt_at",
            "expires_at",
            "unique_key",
            "unique_while",
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

    @extend_schema_field(serializers.ChoiceField(Waiting.choices, allow_null=True))
    def get_waiting_reason(self, task: Task) -> str | None:
        found = self._waiting(task)
        return found[0].value if found else None

    def get_waiting_words(self, task: Task) -> str | None:
        found = self._waiting(task)
        return found[1] if found else None

    def _waiting(self, task: Task) -> tuple[Waiting, str] | None:
        """Looked up once for all tasks of a page."""
        whole: Any = self.root
        if not hasattr(whole, "why_waiting"):
            whole.why_waiting = WhyWaiting(clock.now())
        found: tuple[Waiting, str] | None = whole.why_waiting.of(task)
        return found

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
    then = ThenField(read_only=True, allow_null=True)
    follow_up = serializers.CharField(source="follow_up_id", allow_null=True, read_only=True, help_text="What made it.")
    follow_ups_url = serializers.SerializerMethodField(help_text="What was made from it.")
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
            "then",
            "follow_up",
            "follow_ups_url",
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

    def get_follow_ups_url(self, batch: Batch) -> str:
        return self.context["request"].build_absolute_uri(f"{ROOT}/follow-ups/?batch={batch.pk}")


UNIQUE = "While another task of its kind and subscriber holds this key there is no second one: 409, with its id."


class KnownFields(serializers.Serializer):
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


class NewTaskSerializer(KnownFields):
    kind = serializers.CharField(max_length=60)
    input = serializers.JSONField()
    subscriber = serializers.CharField(max_length=100, required=False, allow_blank=True, default="")
    run_at = serializers.DateTimeField(required=False, allow_null=True, default=None)
    reference = serializers.CharField(max_length=200, required=False, allow_blank=True, default="")
    priority = serializers.ChoiceField(list(PRIORITIES), required=False, default="normal")
    expires_at = serializers.DateTimeField(
        required=False, allow_null=True, default=None, help_text="Not started after it: it then ends as cancelled."
    )
    unique_key = serializers.CharField(max_length=200, required=False, allow_blank=True, default="", help_text=UNIQUE)
    unique_while = serializers.ChoiceField(KeyHeld.choices, required=False, default=KeyHeld.OPEN)
    then = ThenField(required=False, allow_null=True, default=None, help_text="What follows it, step by step.")


class NewBatchSerializer(KnownFields):
    """The items are checked by the submit verb: ten thousand of them are too many for nested serializers."""

    kind = serializers.CharField(max_length=60)
    subscriber = serializers.CharField(max_length=100, required=False, allow_blank=True, default="")
    reference = serializers.CharField(max_length=200, required=False, allow_blank=True, default="")
    priority = serializers.ChoiceField(list(PRIORITIES), required=False, default="normal")
    expires_at = serializers.DateTimeField(
        required=False, allow_null=True, default=None, help_text="Its tasks are not started after it."
    )
    unique_while = serializers.ChoiceField(KeyHeld.choices, required=False, default=KeyHeld.OPEN)
    tasks = serializers.JSONField(help_text="A list of {input, reference?, priority?, unique_key?} objects.")
    then = ThenField(required=False, allow_null=True, default=None, help_text="What follows it, step by step.")


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
    account = serializers.CharField(help_text="Where new work goes; empty for internal kinds, and where nobody can.")
    options = serializers.DictField(help_text="For the provider, over the account's own.")
    starts_again_unasked = serializers.BooleanField(
        help_text="A start that was never answered, at a provider that cannot be asked, is made again by itself."
    )
    is_paused = serializers.BooleanField()
    concurrency = serializers.IntegerField()
    rate_per_minute = serializers.IntegerField(allow_null=True)
    subscriber_concurrency = serializers.IntegerField(allow_null=True)
    subscriber_rate_per_minute = serializers.IntegerField(allow_null=True)
    memory_mb = serializers.IntegerField(allow_null=True)
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
    gone = serializers.ListField(
        child=serializers.CharField(), help_text="Kinds with a policy whose app is gone: their tasks wait for it."
    )


class PolicyChangesIn(KnownFields, serializers.ModelSerializer):
    """What a kind may be told. Whatever is left out stays as it is."""

    account = serializers.CharField(
        source="provider",
        max_length=60,
        required=False,
        allow_blank=True,
        help_text="The account's name; empty: the first whose adapter was made for it.",
    )
    options = serializers.DictField(required=False, help_text="For the provider, over the account's own.")
    reason = serializers.CharField(max_length=300, required=False, allow_blank=True, default="")

    class Meta:
        model = KindPolicy
        fields = ("account", *(name for name in policies.fields() if name != policies.ACCOUNT), "reason")
