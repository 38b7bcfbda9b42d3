"""Forms of the delivery admin: an endpoint judged by the same rules as in the API, and the rotation of its secret."""

from __future__ import annotations

import secrets
from functools import partial
from typing import Any

from django import forms
from django.contrib.postgres.forms import SimpleArrayField
from unfold.widgets import (
    UnfoldAdminSelectWidget,
    UnfoldAdminTextareaWidget,
    UnfoldAdminTextInputWidget,
    UnfoldBooleanSwitchWidget,
)

from delivery import endpoint_rules, endpoints
from delivery.endpoint_rules import InvalidEndpoint
from delivery.endpoint_secrets import Earlier
from delivery.errors import WrongState
from delivery.models import Endpoint
from delivery.policy.quotas import MAX_URL
from delivery.states import DeadLetters
from kernel.admin.confirm import OptionalReasonForm, ReasonForm
from kernel.json_fields import StrictDecoder


class EndpointForm(forms.ModelForm):
    """Asks the name service where the URL leads, before anything is stored."""

    url = forms.CharField(
        max_length=MAX_URL,
        widget=UnfoldAdminTextInputWidget(attrs={"autocomplete": "off", "spellcheck": "false"}),
        label="URL",
        help_text="https://…; for a postback with fields in braces, such as ?click={data.click_id}.",
    )
    event_types = SimpleArrayField(
        forms.CharField(max_length=100),
        required=False,
        widget=UnfoldAdminTextInputWidget(attrs={"placeholder": "order.paid, task.*"}),
        help_text="With commas between; none: all events.",
    )
    retry_delays = SimpleArrayField(
        forms.IntegerField(min_value=0),
        required=False,
        widget=UnfoldAdminTextInputWidget(attrs={"placeholder": "30, 300, 3600"}),
        help_text="Seconds, with commas between; for the custom profile.",
    )
    transient_codes = SimpleArrayField(
        forms.IntegerField(),
        required=False,
        widget=UnfoldAdminTextInputWidget(attrs={"placeholder": "401, 404"}),
        help_text="Status codes to retry although they usually mean no.",
    )
    headers = forms.JSONField(
        required=False,
        decoder=StrictDecoder,
        widget=UnfoldAdminTextareaWidget(attrs={"rows": 3}),
        help_text='Extra request headers, e.g. {"x-api-key": "…"}.',
    )

    new_client_certificate = forms.CharField(
        required=False,
        label="Client certificate",
        widget=UnfoldAdminTextareaWidget(attrs={"rows": 3, "autocomplete": "off", "spellcheck": "false"}),
        help_text="For receivers that ask for one: certificate and private key, both as PEM. Never shown again; "
        "left empty, the stored one stays.",
    )

    class Meta:
        model = Endpoint
        fields = (
            "name",
            "subscriber",
            "url",
            "event_types",
            "request_form",
            "signature_scheme",
            "retry_profile",
            "retry_delays",
            "max_attempts",
            "timeout_ms",
            "max_concurrency",
            "rate_per_minute",
            "rate_burst",
            "transient_codes",
            "breaker_threshold",
            "breaker_cooldown_seconds",
            "method",
            "body_template",
            "body_content_type",
            "missing_field",
            "missing_default",
            "headers",
            "body_rule",
            "ordering_key",
            "ca_certificate",
        )
        labels = {"ca_certificate": "CA certificate"}

    def clean(self) -> dict[str, Any]:
        values = super().clean() or {}
        standing = self._standing()
        judged = self.fields if standing is None else self.changed_data  # what stands is no fault of this change
        given = {name: value for name, value in values.items() if name in judged}
        if pem := given.pop("new_client_certificate", ""):
            given["client_certificate"] = pem
        try:
            cleaned = endpoint_rules.clean(given, standing)
            if "url" in self.changed_data and not self.errors:
                subscriber = (standing or values).get("subscriber") or ""
                endpoint_rules.check_destination(cleaned["url"], subscriber, tells_addresses=True)
            if standing is None and not self.errors:
                endpoints.refuse_one_more(values.get("subscriber", ""))
        except WrongState as error:
            self.add_error("subscriber", error.detail)
            return values
        except InvalidEndpoint as error:
            for row in error.errors:
                name = {"client_certificate": "new_client_certificate"}.get(row["field"], row["field"])
                self.add_error(name if name in self.fields else None, row["detail"])
            return values
        return {**values, **{name: value for name, value in cleaned.items() if name in self.fields}}

    def _standing(self) -> dict[str, Any] | None:
        if self.instance.pk is None:
            return None
        return endpoint_rules.standing_of(Endpoint.objects.get(pk=self.instance.pk))


class DeadLettersForm(ReasonForm):
    """What becomes of an endpoint's dead letters; `dead_letters_form` knows what this person may choose."""

    def clean(self) -> dict[str, Any]:
        values = super().clean() or {}
        move, to = values.get("dead_letters") == DeadLetters.MOVE, values.get("move_to")
        if move and not to and "move_to" not in self.errors:
            self.add_error("move_to", "Say where to move them.")
        return {**values, "move_to": int(to) if move and to else None}


def dead_letters_form(choices: list[tuple[str, str]], targets: list[Endpoint]) -> type[DeadLettersForm]:
    """Asks for one of these; without any, only why."""
    if not choices:
        return DeadLettersForm

    class ChoosingForm(DeadLettersForm):
        dead_letters = forms.ChoiceField(choices=choices, widget=UnfoldAdminSelectWidget(), label="Its dead letters")
        if targets:
            move_to = forms.ChoiceField(
                choices=[("", "—"), *((str(one.pk), str(one)) for one in targets)],
                required=False,
                widget=UnfoldAdminSelectWidget(),
                label="Move them to",
                help_text="The same events under the same ids; what it has or waits for already is not sent twice.",
            )

    return ChoosingForm


class ResumeForm(OptionalReasonForm):
    redrive_refused = forms.BooleanField(
        required=False,
        initial=True,
        widget=UnfoldBooleanSwitchWidget(),
        label="Redrive its refused dead letters too",
        help_text="If it was held after repeated refusals: those that are dead letters by now go with the held ones.",
    )


class RotationForm(ReasonForm):
    """The token is this page's: pressed twice, it rotates once."""

    token = forms.CharField(
        max_length=32, required=False, initial=partial(secrets.token_hex, 16), widget=forms.HiddenInput()
    )
    overlap = forms.BooleanField(
        required=False,
        initial=True,
        widget=UnfoldBooleanSwitchWidget(),
        label="Both sign for 24 hours",
        help_text=(
            "Switch this off only if the present secret has leaked: the receiver must then have the new one at once."
        ),
    )


def end_secret_form(live: list[Earlier]) -> type[ReasonForm]:
    """Which of these secrets to end; they are named by id and time."""

    class EndSecretForm(ReasonForm):
        secret = forms.ChoiceField(
            choices=[(one.id, f"{one.id}, would sign until {one.ends_at:%Y-%m-%d %H:%M} UTC") for one in live],
            widget=UnfoldAdminSelectWidget(),
            help_text="The same id stands on each attempt that it signed.",
        )

    return EndSecretForm
