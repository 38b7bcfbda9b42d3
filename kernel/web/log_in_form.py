"""The log-in form of the console: Django's, with a limit on attempts.

The admin site imports it while it is made itself, so it must not import what registers with the site (`kernel.admin`).
"""

from typing import Any

from django.core.exceptions import ValidationError
from unfold.forms import AuthenticationForm

from kernel.web import log_in


class LogInForm(AuthenticationForm):
    def clean(self) -> Any:
        username = self.cleaned_data.get("username")
        if username is None or not self.cleaned_data.get("password"):
            return super().clean()
        minutes = log_in.begin(username, self.request)
        if minutes:
            self.request.throttled_minutes = minutes  # the answer becomes a 429: `kernel.web.refusals`
            raise ValidationError(
                f"Too many attempts for this account or from your address. Try again in {minutes} min.",
                code="throttled",
            )
        cleaned = super().clean()
        log_in.succeeded(username, self.request)
        return cleaned
