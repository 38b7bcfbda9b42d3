"""Forms of beat's schedule: what beat could not run is refused on saving, in words."""

from typing import Any

from celery import current_app
from django import forms
from django.core.exceptions import ValidationError
from django.core.validators import RegexValidator
from django_celery_beat.admin import PeriodicTaskForm as BeatPeriodicTaskForm
from django_celery_beat.admin import TaskSelectWidget
from django_celery_beat.models import CrontabSchedule, IntervalSchedule
from unfold.widgets import UnfoldAdminSelectWidget, UnfoldAdminTextInputWidget

from console.health import schedule

MAX_PRIORITY = 255  # of a message, in AMQP


class TaskSelect(UnfoldAdminSelectWidget, TaskSelectWidget):
    """The list of worker functions, in our look."""


class PeriodicTaskForm(BeatPeriodicTaskForm):
    """A row as beat will read it."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["task"].widget = UnfoldAdminTextInputWidget()
        self.fields["regtask"].widget = TaskSelect()

    def _clean_json(self, field: str) -> str:
        text: str = self.cleaned_data[field]
        if words := schedule.why_not_json(field, text):
            raise ValidationError(words)
        return text

    def clean_headers(self) -> str:
        return self._clean_json("headers")

    def clean(self) -> dict[str, Any]:
        if "task" not in self.cleaned_data:  # its own field has said why
            self.cleaned_data["task"] = ""
        cleaned = super().clean()
        current_app.loader.import_default_modules()
        if cleaned["task"] not in current_app.tasks:
            self.add_error("task", "There is no worker function of this name; choose one of the registered.")
        for name, most in (("priority", MAX_PRIORITY), ("expire_seconds", int(schedule.LONGEST_WAIT.total_seconds()))):
            if (cleaned.get(name) or 0) > most:
                self.add_error(name, f"This may be at most {most}.")
        return cleaned

    def _post_clean(self) -> None:
        super()._post_clean()  # type: ignore[misc]
        if not self.errors and (words := schedule.why_unusable(self.instance)):
            self.add_error(None, words)


class _Timing(forms.ModelForm):
    def _post_clean(self) -> None:
        super()._post_clean()  # type: ignore[misc]
        if not self.errors and (words := schedule.why_no_schedule(self.instance)):
            self.add_error(None, words)


class IntervalForm(_Timing):
    class Meta:
        model = IntervalSchedule
        fields = ("every", "period")


class CrontabForm(_Timing):
    class Meta:
        model = CrontabSchedule
        fields = ("minute", "hour", "day_of_month", "month_of_year", "day_of_week", "timezone")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for name in _TIMES:
            self.fields[name].validators = [_plain]  # the row is judged as a whole, by beat's own reader

    def _get_validation_exclusions(self) -> set[str]:
        """The package's validators fail on `-1` and `1,2,` in ways that are no refusal."""
        return {*super()._get_validation_exclusions(), *_TIMES}  # type: ignore[misc]


_TIMES = ("minute", "hour", "day_of_month", "month_of_year", "day_of_week")
_plain = RegexValidator(r"\A[0-9A-Za-z*/,-]+\Z", "Use digits, commas, hyphens, slashes and asterisks.")
