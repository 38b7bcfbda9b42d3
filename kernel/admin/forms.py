"""Change forms that write what the person changed, and nothing else.

A form shows a row as it was when the page was opened. Saved as a whole it would put back what an API call, another
person or a worker wrote in the meantime. So each field carries along what was shown; what the person left alone keeps
its value of now, and where both sides changed one field, both values are shown and nothing is written.

For admin classes of every app: put `OnlyChangesAdmin` before the other bases. It knows no model.
"""

from __future__ import annotations

import json
from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.db import connection
from django.forms.models import model_to_dict
from django.http import HttpRequest
from django.utils.functional import cached_property

SHOWN_CHARACTERS = 300


class OnlyChangesForm(forms.ModelForm):
    """Mixed into an admin's form for a row that exists. Without the shown values in the post (a script), it compares
    with the row as it stands."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.loaded = dict(self.instance.__dict__)
        for field in self.fields.values():
            field.show_hidden_initial = not field.disabled  # Django renders what was shown beside each widget

    @cached_property
    def changed_data(self) -> list[str]:  # type: ignore[override]
        """What the person changed on the page, whatever became of the row since."""
        return [name for name, field in self.fields.items() if not field.disabled and self._by_person(name, field)]

    def written_fields(self) -> list[str]:
        """Columns to write: those that differ from the row as it was loaded, and the time of the change."""
        now, columns = self.instance.__dict__, self.instance._meta.concrete_fields
        changed = [one.name for one in columns if now.get(one.attname) != self.loaded.get(one.attname)]
        stamps = [one.name for one in columns if getattr(one, "auto_now", False)]
        return [*changed, *(name for name in stamps if name not in changed)] if changed else []

    def _clean_fields(self) -> None:
        super()._clean_fields()  # type: ignore[misc]  # the stubs leave it out
        self._meet()

    def _clean_form(self) -> None:
        """The name service may have been asked in `clean`, so the row is looked at again, now under a lock."""
        super()._clean_form()  # type: ignore[misc]
        if self.errors or not connection.in_atomic_block:
            return
        rows = type(self.instance)._base_manager.select_for_update(no_key=True)
        row = rows.filter(pk=self.instance.pk).first()
        if row is None:
            self.add_error(None, "Somebody deleted it while the form was open. Nothing was saved.")
            return
        self.initial.update(model_to_dict(row, [name for name in self.fields if name in self.initial]))
        self._meet()

    def _meet(self) -> None:
        """What was left alone takes its value of now; what both sides changed is a conflict."""
        for name, field in self.fields.items():
            if name not in self.initial or field.disabled:
                continue
            if name not in self.changed_data:
                self._keep(name, field)
            elif self._moved(name, field) and _differs(field, self._now(name), self[name].data):
                self._conflict(name, field)

    def _by_person(self, name: str, field: forms.Field) -> bool:
        if self._carries_shown:
            return bool(self[name]._has_changed())  # type: ignore[attr-defined]
        return _differs(field, self._now(name), self[name].data)

    @cached_property
    def _carries_shown(self) -> bool:
        begins = self.add_initial_prefix("")
        return any(key.startswith(begins) for key in self.data)

    def _moved(self, name: str, field: forms.Field) -> bool:
        """Whether the row's value is another than the one that was shown."""
        if not self._carries_shown:
            return False
        shown = field.hidden_widget().value_from_datadict(self.data, self.files, self.add_initial_prefix(name))
        return _differs(field, self._now(name), shown)

    def _now(self, name: str) -> Any:
        return self.get_initial_for_field(self.fields[name], name)

    def _keep(self, name: str, field: forms.Field) -> None:
        """The row's own value: the one that was posted lost its microseconds, or its line ends."""
        stands = self.initial[name]
        is_related = isinstance(field, forms.ModelChoiceField)  # whose value is a row, or several
        if is_related and name in self.cleaned_data and not self._moved(name, field):
            return
        self.errors.pop(name, None)
        try:
            self.cleaned_data[name] = field.clean(field.prepare_value(stands)) if is_related else stands
        except ValidationError as error:
            self.add_error(name, error)

    def _conflict(self, name: str, field: forms.Field) -> None:
        if self.has_error(name, "changed_meanwhile"):
            return
        theirs, yours = _words(field, self._now(name)), _words(field, self.cleaned_data.get(name, self[name].data))
        words = (
            f"Somebody changed this while the form was open: it says “{theirs}” now, and you wrote “{yours}”. "
            "Nothing was saved. Save again to write yours, or write theirs here to keep it."
        )
        self.add_error(name, ValidationError(words, code="changed_meanwhile"))
        self._show_now(name, field)

    def _show_now(self, name: str, field: forms.Field) -> None:
        """From here on the person has seen the other value."""
        data: Any = self.data.copy()  # type: ignore[attr-defined]  # a QueryDict
        hidden: Any = field.hidden_widget()
        key, value = self.add_initial_prefix(name), field.prepare_value(self._now(name))
        if isinstance(field, forms.MultiValueField):
            parts: Any = zip(hidden.decompress(value), hidden.widgets, strict=True)
            for number, (part, widget) in enumerate(parts):
                data[f"{key}_{number}"] = widget.format_value(part) or ""
        elif isinstance(hidden, forms.MultipleHiddenInput):
            data.setlist(key, [str(one) for one in value or ()])
        else:
            data[key] = hidden.format_value(value) or ""
        self.data = data


class OnlyChangesAdmin:
    """Before the other bases of an admin class: its change form writes only what was changed on the page."""

    def get_form(self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any) -> Any:
        form = super().get_form(request, obj, change=change, **kwargs)  # type: ignore[misc]
        return form if obj is None else type(form)(form.__name__, (OnlyChangesForm, form), {})

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        if change and isinstance(form, OnlyChangesForm):
            obj.save(update_fields=form.written_fields())
        else:
            super().save_model(request, obj, form, change)  # type: ignore[misc]


def _differs(field: forms.Field, stands: Any, posted: Any) -> bool:
    """Like `has_changed`, but for what a browser does to text: other line ends, and blanks cut off."""
    if isinstance(stands, str) and isinstance(posted, str):
        return _plain(stands) != _plain(posted)
    return field.has_changed(stands, posted)


def _plain(text: str) -> str:
    return text.replace("\r\n", "\n").strip()


def _words(field: forms.Field, value: Any) -> str:
    choices = {str(key): str(label) for key, label in getattr(field, "choices", ())}
    if value in (None, "", [], {}):
        return "nothing"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict):
        text = json.dumps(value, ensure_ascii=False, default=str)
    elif isinstance(value, str):
        text = choices.get(value, value)
    elif hasattr(value, "__iter__"):
        text = ", ".join(choices.get(str(one), str(one)) for one in value)
    else:
        text = choices.get(str(value), str(value))
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]} …"
