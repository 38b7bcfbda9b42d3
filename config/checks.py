"""System checks of the configuration, each with a hint that says what to do."""

from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Tags, Warning, register


@register(Tags.security, deploy=True)
def public_base_url_is_https(**_kwargs: Any) -> list[CheckMessage]:
    """Providers sign their webhooks, but only HTTPS keeps the payload from being read on the way."""
    if settings.PUBLIC_BASE_URL.startswith("https://"):
        return []
    return [
        Warning(
            "PUBLIC_BASE_URL is not an https:// address.",
            hint="Set PUBLIC_BASE_URL to the public https:// address of this site; providers call back there.",
            id="roundtrip.W001",
        )
    ]
