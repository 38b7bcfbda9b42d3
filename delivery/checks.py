"""System checks of what the delivery side is configured with, each with a hint that says what to do."""

from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.core.checks import CheckMessage, Error, Tags, Warning, register


@register(Tags.security)
def allowed_networks_are_narrow(**_kwargs: Any) -> list[CheckMessage]:
    """The allow-list opens private networks; one as wide as a continent switches the address guard off."""
    wide = [str(network) for network in settings.DELIVERY_ALLOWED_NETWORKS if network.prefixlen < 8]
    if not wide:
        return []
    return [
        Warning(
            f"DELIVERY_ALLOWED_NETWORKS holds {', '.join(wide)}, which switches the address guard off.",
            hint="List only the networks of receivers you run, e.g. 10.20.0.0/16.",
            id="delivery.W001",
        )
    ]


@register()
def ca_file_can_be_read(**_kwargs: Any) -> list[CheckMessage]:
    if not settings.DELIVERY_CA_FILE or Path(settings.DELIVERY_CA_FILE).is_file():
        return []
    return [
        Error(
            f"DELIVERY_CA_FILE names {settings.DELIVERY_CA_FILE}, which is no file.",
            hint="Every delivery by https would fail. Correct the path, or leave it out for the system's CAs.",
            id="delivery.E001",
        )
    ]


@register()
def proxy_is_a_proxy(**_kwargs: Any) -> list[CheckMessage]:
    parts = urlsplit(settings.DELIVERY_PROXY_URL)
    if not settings.DELIVERY_PROXY_URL or (parts.scheme in ("http", "https") and parts.hostname):
        return []
    return [
        Error(
            "DELIVERY_PROXY_URL is not the URL of an HTTP proxy.",
            hint="Write http://host:port, with user:password@ before the host if the proxy asks for them.",
            id="delivery.E002",
        )
    ]


@register()
def retention_makes_sense(**_kwargs: Any) -> list[CheckMessage]:
    """Dead letters are what people come back for: they should not go before the delivered rows do."""
    if settings.DEAD_LETTER_RETENTION_DAYS >= settings.EVENT_RETENTION_DAYS:
        return []
    return [
        Warning(
            "Dead letters are kept for a shorter time than delivered events.",
            hint="Raise DEAD_LETTER_RETENTION_DAYS to at least EVENT_RETENTION_DAYS.",
            id="delivery.W002",
        )
    ]
