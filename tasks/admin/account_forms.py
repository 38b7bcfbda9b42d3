"""Forms of accounts: one for each adapter, made from what it says of itself; keys go in and never come out."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from django import forms
from unfold.widgets import UnfoldAdminIntegerFieldWidget, UnfoldAdminSelectWidget, UnfoldAdminTextInputWidget

from kernel.admin.confirm import OptionalReasonForm, ReasonForm
from kernel.json_fields import StrictDecoder
from tasks.accounting import rules
from tasks.accounting.credentials import USUAL_OVERLAP
from tasks.errors import InvalidSetting
from tasks.models import ProviderAccount
from tasks.providers.base import Provider

NEW = "new_"  # before the name of a secret: as the model's own field it would be shown with what is stored
OPTION = "option_"  # before the name of an option, where it is a field of a form
OVERLAPS = (
    (0, "not at all: it has leaked"),
    (1, "for an hour"),
    (24, "for a day"),
    (72, "for three days"),
    (168, "for seven days"),
)
LIMIT_WORDS = {
    "concurrency": "Most open jobs",
    "starts_per_minute": "Most starts a minute",
    "calls_per_minute": "Most calls a minute",
}


class SecretInput(UnfoldAdminTextInputWidget):
    """Never given back: what was typed is gone when the form is shown again."""

    input_type = "password"

    def __init__(self) -> None:
        super().__init__(attrs={"autocomplete": "off", "spellcheck": "false"})

    def get_context(self, name: str, value: Any, attrs: Any) -> dict[str, Any]:
        return super().get_context(name, None, attrs)


class AccountForm(forms.ModelForm):
    """What every account has; `form_for` adds what its adapter asks for."""

    adapter_class: type[Provider]

    class Meta:
        model = ProviderAccount
        fields: tuple[str, ...] = ()

    def clean(self) -> dict[str, Any]:
        values = super().clean() or {}
        if self.errors:
            return values
        try:
            rules.clean(self.adapter_class, self.account_values(values))
            if self.instance.pk is None:
                rules.clean_name(values["name"])
            elif "base_url" in self.changed_data and NEW + "api_key" in self.fields and not values[NEW + "api_key"]:
                raise rules.refuse("api_key", "required", rules.KEY_AGAIN)
        except InvalidSetting as error:
            self.show(error)
        return values

    def account_values(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """The fields as the verbs take them: options together, and no secret that was left empty."""
        given = {name: value for name, value in values.items() if name in rules.FIELDS}
        given |= {name: values[NEW + name] for name in rules.SECRETS if values.get(NEW + name)}
        options = {name.removeprefix(OPTION): value for name, value in values.items() if name.startswith(OPTION)}
        return {**given, "options": options} if options else given

    def show(self, error: InvalidSetting) -> None:
        """What a rule refuses, at its field."""
        for row in error.errors:
            names = (row["field"], NEW + row["field"])
            self.add_error(next((name for name in names if name in self.fields), None), row["detail"])


class OptionField(forms.CharField):
    """A text; or JSON, where it begins as an object or a list does."""

    def __init__(self, words: str, **kwargs: Any) -> None:
        super().__init__(required=False, help_text=words, widget=UnfoldAdminTextInputWidget(), **kwargs)

    def prepare_value(self, value: Any) -> Any:
        return value if isinstance(value, str) or value is None else json.dumps(value, ensure_ascii=False)

    def to_python(self, value: Any) -> Any:
        text = super().to_python(value) or ""
        if text in _WORDS:
            return _WORDS[text]
        if not text.startswith(("{", "[")):
            return int(text) if text.isascii() and text.isdigit() else text
        try:
            return json.loads(text, cls=StrictDecoder)
        except json.JSONDecodeError as error:
            raise forms.ValidationError(f"This is no JSON: {error.msg}.") from None

    def has_changed(self, initial: Any, data: Any) -> bool:
        return super().has_changed(self.prepare_value(initial), data)


_WORDS = {"true": True, "false": False}


def form_for(adapter: type[Provider], row: ProviderAccount | None, fixed: Mapping[str, str]) -> type[AccountForm]:
    """The form of an account at this provider; `fixed` are the fields that variables set, which are not in it."""
    fields: dict[str, Any] = {}
    if row is None:
        fields["name"] = forms.CharField(
            max_length=60, widget=UnfoldAdminTextInputWidget(), help_text="Part of its callback URLs; it stays."
        )
    if adapter.takes_base_url and "base_url" not in fixed:
        fields["base_url"] = forms.CharField(
            required=False,
            label="Address",
            widget=UnfoldAdminTextInputWidget(),
            help_text=_address_words(adapter, is_new=row is None),
        )
    fields |= _secret_fields(adapter, row, fixed)
    stored = row.options if row is not None else {}
    for name, words in adapter.option_words.items():
        label = name.replace("_", " ").capitalize()
        fields[f"{OPTION}{name}"] = OptionField(words, label=label, initial=stored.get(name))
    for name, most in rules.LIMITS.items():
        fields[name] = forms.IntegerField(
            required=False,
            min_value=1,
            max_value=most,
            label=LIMIT_WORDS[name],
            widget=UnfoldAdminIntegerFieldWidget(),
            help_text="Of all kinds together; empty: no limit.",
        )
    names = ("name", "base_url", *rules.LIMITS)
    meta = type("Meta", (), {"model": ProviderAccount, "fields": [name for name in names if name in fields]})
    return type("AccountForm", (AccountForm,), {**fields, "Meta": meta, "adapter_class": adapter})


def _secret_fields(
    adapter: type[Provider], row: ProviderAccount | None, fixed: Mapping[str, str]
) -> dict[str, forms.Field]:
    """A standing secret is rotated by its verb; a key is asked for again with another address."""
    fields: dict[str, forms.Field] = {}
    if adapter.needs_api_key and "api_key" not in fixed and (row is None or adapter.takes_base_url):
        words = "Never shown again." if row is None else "Only with another address; Rotate key changes it alone."
        fields[f"{NEW}api_key"] = forms.CharField(
            label="API key", required=row is None, widget=SecretInput(), help_text=words
        )
    if row is None and adapter.needs_webhook_secret:
        fields[f"{NEW}webhook_secret"] = forms.CharField(
            label="Webhook secret",
            required=False,
            widget=SecretInput(),
            help_text="What the provider signs its webhooks with. Never shown again; Rotate secret sets it later.",
        )
    return fields


def _address_words(adapter: type[Provider], *, is_new: bool) -> str:
    words = f"Empty: {adapter.default_base_url}" if adapter.default_base_url else "Where it is: https://…"
    return words if is_new else f"{words} Another address needs the key again; open jobs are asked for there."


class KeyForm(ReasonForm):
    api_key = forms.CharField(
        max_length=rules.LONGEST_SECRET, widget=SecretInput(), label="New API key", help_text="Never shown again."
    )
    field_order = ("api_key", "reason")


class SecretForm(ReasonForm):
    secret = forms.CharField(
        max_length=rules.LONGEST_SECRET,
        widget=SecretInput(),
        label="New webhook secret",
        help_text="As the provider shows it. Never shown again.",
    )
    overlap = forms.TypedChoiceField(
        choices=[(str(hours), words) for hours, words in OVERLAPS],
        coerce=lambda text: timedelta(hours=int(text)),
        initial=str(USUAL_OVERLAP // timedelta(hours=1)),
        widget=UnfoldAdminSelectWidget(),
        label="The one before is accepted as well",
    )
    field_order = ("secret", "overlap", "reason")


__all__ = ["NEW", "OPTION", "AccountForm", "KeyForm", "OptionalReasonForm", "SecretForm", "form_for"]
