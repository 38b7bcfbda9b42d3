"""System checks of what the delivery side is configured with, each with a hint that says what to do."""

import ssl
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.core.checks import CheckMessage, Error, Tags, Warning, register

from delivery.policy.certificates import CertificateRefused, certificates_of


@register(Tags.security)
def allowed_networks_are_narrow(**_kwargs: Any) -> list[CheckMessage]:
    """The allow-list opens private networks; one as wide as a continent switches the address guard off."""
    wide = [str(one.network) for one in settings.DELIVERY_ALLOWED_NETWORKS if one.network.prefixlen < 8]
    if not wide:
        return []
    return [
        Warning(
            f"DELIVERY_ALLOWED_NETWORKS holds {', '.join(wide)}, which switches the address guard off.",
            hint="List only the networks of receivers you run, e.g. 10.20.0.0/16.",
            id="delivery.W001",
        )
    ]


@register(Tags.security)
def allowed_networks_name_ports(**_kwargs: Any) -> list[CheckMessage]:
    """What customers may be sent to in a private network is one service and not every service there is."""
    openings = [*settings.DELIVERY_ALLOWED_NETWORKS, *settings.PROVIDER_ALLOWED_NETWORKS]
    every_port = [str(one.network) for one in openings if one.ports is None]
    if not every_port or not settings.PRODUCTION:
        return []
    return [
        Warning(
            f"Every port of {', '.join(every_port)} is open to deliveries or provider calls.",
            hint="Name the ports in DELIVERY_ALLOWED_NETWORKS and PROVIDER_ALLOWED_NETWORKS, e.g. 10.20.0.0/16:8443.",
            id="delivery.W003",
        )
    ]


def ca_file_fault() -> str:
    """What is wrong with DELIVERY_CA_FILE for this process, or ""."""
    name = settings.DELIVERY_CA_FILE
    if not name:
        return ""
    try:
        certificates_of(Path(name).read_text(encoding="utf-8", errors="replace"))
        ssl.create_default_context(cafile=name)
    except OSError as error:  # ssl.SSLError is one
        return f"DELIVERY_CA_FILE names {name}, which cannot be read: {error.strerror or type(error).__name__}."
    except CertificateRefused as refusal:
        return f"DELIVERY_CA_FILE names {name}, which is no bundle of certificates. {refusal}"
    return ""


@register()
def ca_file_can_be_read(**_kwargs: Any) -> list[CheckMessage]:
    fault = ca_file_fault()
    if not fault:
        return []
    return [
        Error(
            fault,
            hint="Every delivery by https would fail. Correct the path, or leave it out for certifi's CAs.",
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
