"""The shapes of `/provider-accounts/`. No key and no secret ever goes out: only whether one is set, and its id."""

from datetime import timedelta
from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from kernel import clock
from kernel.secrets import UndecryptableSecret, key_id, unreadable_fields
from tasks import providers
from tasks.accounting import rules
from tasks.accounting.credentials import LONGEST_OVERLAP, USUAL_OVERLAP, has_previous
from tasks.accounts import environment
from tasks.api.shapes import KnownFields
from tasks.models import MAX_CONCURRENCY, MAX_RATE_PER_MINUTE, ProviderAccount
from tasks.reading import account_words
from tasks.states import AccountState


class HeldSecret(serializers.Serializer):
    """A key or secret that is stored. `id` names it and says nothing about it: 8 hex digits of its SHA-256."""

    is_set = serializers.BooleanField()
    id = serializers.CharField(help_text="Empty where none is set, or no master key opens it.")
    variable = serializers.CharField(help_text="The variable of the environment that sets it; empty: it is set here.")


class EarlierSecret(serializers.Serializer):
    id = serializers.CharField()
    accepted_until = serializers.DateTimeField()


class AccountSerializer(serializers.ModelSerializer):
    """An account at a job provider."""

    state = serializers.SerializerMethodField()
    state_words = serializers.SerializerMethodField(help_text="Why nothing starts there; empty where work starts.")
    title = serializers.SerializerMethodField(help_text="The provider's name for people.")
    api_key = serializers.SerializerMethodField()
    webhook_secret = serializers.SerializerMethodField()
    previous_secret = serializers.SerializerMethodField(help_text="Accepted beside the standing one, for its overlap.")
    unreadable = serializers.SerializerMethodField(help_text="Fields that no master key opens: set them anew.")
    callback_url = serializers.SerializerMethodField(help_text="What the provider is told to call, per account.")

    class Meta:
        model = ProviderAccount
        fields = (
            "name",
            "adapter",
            "title",
            "state",
            "state_words",
            "is_from_environment",
            "base_url",
            "api_key",
            "webhook_secret",
            "previous_secret",
            "unreadable",
            "options",
            *rules.LIMITS,
            "is_paused",
            "held_until",
            "hold_reason",
            "hold_text",
            "retired_at",
            "checked_at",
            "check_words",
            "callback_url",
            "created_at",
            "updated_at",
        )
        read_only_fields = fields

    @extend_schema_field(serializers.ChoiceField(AccountState.choices))
    def get_state(self, row: ProviderAccount) -> str:
        return account_words.state(row, clock.now())

    def get_state_words(self, row: ProviderAccount) -> str:
        return account_words.why_held(row, clock.now())

    def get_title(self, row: ProviderAccount) -> str:
        adapter = providers.adapter(row.adapter)
        return rules.title(adapter) if adapter else row.adapter

    @extend_schema_field(HeldSecret)
    def get_api_key(self, row: ProviderAccount) -> dict[str, Any]:
        return _held(row, "api_key")

    @extend_schema_field(HeldSecret)
    def get_webhook_secret(self, row: ProviderAccount) -> dict[str, Any]:
        return _held(row, "webhook_secret")

    @extend_schema_field(EarlierSecret(allow_null=True))
    def get_previous_secret(self, row: ProviderAccount) -> dict[str, Any] | None:
        if not has_previous(row, clock.now()):
            return None
        return {"id": _id(row, "previous_secret"), "accepted_until": row.previous_secret_until}

    @extend_schema_field(serializers.ListField(child=serializers.CharField()))
    def get_unreadable(self, row: ProviderAccount) -> list[str]:
        return unreadable_fields(row)

    def get_callback_url(self, row: ProviderAccount) -> str:
        return account_words.callback_url(row.name)


def _held(row: ProviderAccount, field: str) -> dict[str, Any]:
    return {
        "is_set": bool(row.__dict__[field]),
        "id": _id(row, field),
        "variable": environment.variables_of(row).get(field, ""),
    }


def _id(row: ProviderAccount, field: str) -> str:
    try:
        value = getattr(row, field)
    except UndecryptableSecret:
        return ""
    return key_id(value) if value else ""


class AccountChangesIn(KnownFields):
    """What a caller may set. Whatever is left out stays as it is."""

    base_url = serializers.CharField(
        max_length=500, required=False, allow_blank=True, help_text="Where the adapter takes one. Needs the key again."
    )
    api_key = serializers.CharField(max_length=rules.LONGEST_SECRET, required=False, write_only=True)
    options = serializers.DictField(required=False, help_text="The adapter's own, such as model or actor.")
    concurrency = serializers.IntegerField(
        min_value=1, max_value=MAX_CONCURRENCY, required=False, allow_null=True, help_text="Most open jobs."
    )
    starts_per_minute = serializers.IntegerField(
        min_value=1, max_value=MAX_RATE_PER_MINUTE, required=False, allow_null=True
    )
    calls_per_minute = serializers.IntegerField(
        min_value=1,
        max_value=MAX_RATE_PER_MINUTE,
        required=False,
        allow_null=True,
        help_text="Starts, polls, fetches and cancels together.",
    )
    reason = serializers.CharField(max_length=300, required=False, allow_blank=True, default="")


class NewAccountIn(AccountChangesIn):
    name = serializers.CharField(max_length=60, help_text="Part of callback URLs; it stays.")
    adapter = serializers.CharField(max_length=60, help_text="Which provider: the name of its adapter.")
    webhook_secret = serializers.CharField(max_length=rules.LONGEST_SECRET, required=False, write_only=True)


class NewSecretIn(KnownFields):
    secret = serializers.CharField(max_length=rules.LONGEST_SECRET, write_only=True)
    overlap_seconds = serializers.IntegerField(
        min_value=0,
        max_value=int(LONGEST_OVERLAP / timedelta(seconds=1)),
        default=int(USUAL_OVERLAP / timedelta(seconds=1)),
        help_text="How long the one before is accepted as well.",
    )
    reason = serializers.CharField(max_length=300, required=False, allow_blank=True, default="")


class NewKeyIn(KnownFields):
    api_key = serializers.CharField(max_length=rules.LONGEST_SECRET, write_only=True)
    reason = serializers.CharField(max_length=300, required=False, allow_blank=True, default="")


class CheckSerializer(serializers.Serializer):
    """What the provider answered."""

    found = serializers.ChoiceField(["well", "lacking", "unclear", "wrong"])
    words = serializers.CharField()
    account = AccountSerializer()
