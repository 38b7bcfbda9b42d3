"""What a demo left in a database that production uses now: refused there, and told, so that somebody removes it."""

from collections.abc import Iterator

from django.conf import settings
from django.contrib.auth import get_user_model

from console.health.checks import Check
from delivery.models import Endpoint
from kernel.models import ApiKey
from kernel.web.log_in import DEMO_EMAIL

SAMPLE_NAME = "Sample receiver"  # the endpoint that `bootstrap_demo` makes


def demo_leftovers() -> Iterator[Check]:
    """In production only: the demo's account, its API key, and its sample endpoint with a secret from the demo."""
    if not settings.PRODUCTION:
        return
    accounts = list(get_user_model().objects.filter(email=DEMO_EMAIL).values_list("username", flat=True))
    keys = list(ApiKey.objects.filter(is_demo=True).values_list("key_id", flat=True))
    endpoints = Endpoint.objects.filter(name=SAMPLE_NAME, subscriber="", deleted_at=None).values_list("pk", flat=True)
    found = [
        *(f"the account {name!r} may not log in" for name in accounts),
        *(f"the API key {key} opens nothing" for key in keys),
        *(f"endpoint {pk} signs with the demo's secret" for pk in endpoints),
    ]
    if found:
        yield Check("demo_leftovers", False, f"This database was a demo's: {'; '.join(found)}. Remove them.")
    else:
        yield Check("demo_leftovers", True, "none")
