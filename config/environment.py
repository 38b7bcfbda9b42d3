"""Every environment variable Roundtrip reads, declared once: `docs/reference.md` and `doctor` are made from it.

Only `config.settings` may import this module. Each variable can also come from a file: `NAME_FILE=/run/secrets/name`.
"""

import os
from dataclasses import dataclass
from pathlib import Path

from django.core.exceptions import ImproperlyConfigured

_TRUE = {"1", "true", "yes", "on"}
_FALSE = {"", "0", "false", "no", "off"}


@dataclass(frozen=True)
class Variable:
    """One environment variable: its name, what it is for, its default, and whether its value is a secret."""

    name: str
    purpose: str
    default: str = ""
    secret: bool = False
    required: bool = False  # in production


VARIABLES: tuple[Variable, ...] = (
    Variable("ROUNDTRIP_ENV", "`production`, `demo` (what bin/up runs) or `test`.", "production"),
    Variable("SECRET_KEY", "Django's signing key; at least 50 random characters.", secret=True, required=True),
    Variable(
        "MASTER_KEYS",
        "Comma-separated Fernet keys for secrets at rest: the first encrypts, all decrypt.",
        secret=True,
        required=True,
    ),
    Variable(
        "DATABASE_URL",
        "PostgreSQL 15 or later: postgresql://user:password@host:5432/name",
        secret=True,
        required=True,
    ),
    Variable("DATABASE_POOL_SIZE", "Most connections one process keeps open; 0 turns the pool off.", "10"),
    Variable(
        "CELERY_BROKER_URL",
        "RabbitMQ (amqp://) or Redis/Valkey (redis://) for Celery.",
        secret=True,
        required=True,
    ),
    Variable("CHANNEL_LAYER_URL", "Redis/Valkey for the live pages.", secret=True, required=True),
    Variable("ALLOWED_HOSTS", "Comma-separated host names the site answers to.", required=True),
    Variable(
        "PUBLIC_BASE_URL",
        "Where job providers reach us, e.g. https://jobs.example.com; callback URLs are built from it.",
        required=True,
    ),
    Variable("TRUSTED_PROXIES", "Comma-separated networks of reverse proxies whose X-Forwarded-* headers count."),
    Variable(
        "SECURE_COOKIES",
        "Cookies only over HTTPS, HSTS and the redirect to HTTPS; off only behind plain HTTP.",
        "1",
    ),
    Variable("LOG_FORMAT", "`console` for people, `json` for machines.", "json"),
    Variable("LOG_LEVEL", "Level of our own loggers.", "INFO"),
    Variable("DEBUG", "Django's debug pages. Refused in production.", "0"),
    Variable(
        "DELIVERY_ALLOWED_NETWORKS",
        "Comma-separated private networks that deliveries may reach, e.g. 127.0.0.0/8 for a listener on this machine, "
        "or 10.20.0.0/16:8443 at that port alone. They serve the operators' own endpoints; acme@10.20.0.7/32:8000-8099 "
        "those of subscriber acme, *@10.20.0.0/16:8443 everybody's.",
    ),
    Variable("DELIVERY_PROXY_URL", "Egress proxy (HTTP CONNECT) for all deliveries.", secret=True),
    Variable(
        "DELIVERY_CANARY_NAME",
        "A host name that resolves as long as your name service works; asked only while receivers' names are silent, "
        "to tell their fault from ours.",
    ),
    Variable("DELIVERY_CA_FILE", "CA bundle deliveries trust, instead of the system's."),
    Variable(
        "DELIVERY_MAX_IN_FLIGHT",
        "Transfers one delivery worker keeps in the air; one subscriber gets at most three quarters of them.",
        "200",
    ),
    Variable(
        "DELIVERY_MAX_WAITING",
        "Transfers one delivery worker may have waiting for a second or more, beside those; one subscriber gets at "
        "most half of them. Each takes an open file and about 100 KB.",
        "1000",
    ),
    Variable(
        "DELIVERY_MAX_BYTES_IN_FLIGHT",
        "Bytes of large payloads (each above 64 KiB) one delivery worker holds at once; a larger one goes alone.",
        str(64 * 1024 * 1024),
    ),
    Variable(
        "EVENT_MAX_BYTES",
        "Largest event that a caller may publish, as it is sent; what is stored already is sent whatever it has.",
        str(256 * 1024),
    ),
    Variable("ENDPOINTS_PER_SUBSCRIBER", "Endpoints that one subscriber may have, the operators too.", "50"),
    Variable(
        "DELIVERIES_PER_CALL",
        "Deliveries (events times the endpoints that want them) that one call which publishes several events may make.",
        "10000",
    ),
    Variable(
        "PROVIDER_ALLOWED_NETWORKS",
        "Comma-separated private networks that job providers may live in, with ports or without: 10.20.0.0/16:8443.",
    ),
    Variable("INBOUND_MAX_BYTES", "Largest provider webhook that is accepted.", str(5 * 1024 * 1024)),
    Variable(
        "READ_SECONDS",
        "Longest that reading for one page, list or API answer may take; then it is told what to filter by. 0: no end.",
        "10",
    ),
    Variable(
        "INBOUND_REFUSED_BYTES_A_DAY",
        "Most bytes of refused inbound calls that are stored for one source on one day; beyond, they are only counted.",
        str(10 * 1024 * 1024),
    ),
    Variable(
        "INBOUND_REFUSED_RETENTION_DAYS",
        "Days that refused inbound calls are kept; never longer than EVENT_RETENTION_DAYS.",
        "7",
    ),
    Variable("LIVE_ALLOWED_ORIGINS", "Comma-separated other origins whose pages may open live views with a token."),
    Variable("ATTEMPT_RETENTION_DAYS", "Days that delivery attempts are kept.", "30"),
    Variable("EVENT_RETENTION_DAYS", "Days that delivered events, and the tasks' inbound events, are kept.", "30"),
    Variable("DEAD_LETTER_RETENTION_DAYS", "Days that dead letters are kept; never fewer than 14.", "90"),
    Variable("SANDBOX_PROVIDER_URL", "Simulated job provider (demo and test only)."),
    Variable("SANDBOX_PROVIDER_KEY", "Key of the simulated job provider (demo and test only).", secret=True),
    Variable(
        "SANDBOX_WEBHOOK_SECRET",
        "Signing secret of the simulated provider's webhooks (demo and test only).",
        secret=True,
    ),
    Variable("SANDBOX_RECEIVER_URL", "Sample webhook receiver (demo and test only)."),
    Variable("DEMO_ADMIN_USERNAME", "Operator that `bootstrap_demo` makes (demo only)."),
    Variable("DEMO_ADMIN_PASSWORD", "That operator's password (demo only).", secret=True),
    Variable(
        "DEMO_ENDPOINT_SECRET",
        "Signing secret of the sample endpoint that `bootstrap_demo` makes (demo only).",
        secret=True,
    ),
    Variable("DEMO_API_KEY", "API key that `bootstrap_demo` makes (demo only).", secret=True),
)
_BY_NAME = {variable.name: variable for variable in VARIABLES}


def read(name: str) -> str:
    """The value of a declared variable: from `NAME`, from the file that `NAME_FILE` names, or its default."""
    variable = _BY_NAME[name]
    if name in os.environ:
        return os.environ[name]
    path = os.environ.get(f"{name}_FILE")
    if path is None:
        return variable.default
    try:
        return Path(path).read_text(encoding="utf-8").strip()
    except OSError as error:
        raise ImproperlyConfigured(f"{name}_FILE names {path}, which cannot be read: {error.strerror}.") from error


def read_bool(name: str) -> bool:
    value = read(name).strip().lower()
    if value in _TRUE:
        return True
    if value in _FALSE:
        return False
    raise ImproperlyConfigured(f"{name} must be 1 or 0, not {value!r}.")


def read_int(name: str) -> int:
    value = read(name).strip()
    try:
        return int(value)
    except ValueError:
        raise ImproperlyConfigured(f"{name} must be a whole number, not {value!r}.") from None


def read_positive(name: str) -> int:
    """A whole number that counts something: a nought would not mean "no limit" but "nothing at all"."""
    value = read_int(name)
    if value < 1:
        raise ImproperlyConfigured(f"{name} must be 1 or more, not {value}.")
    return value


def read_list(name: str) -> list[str]:
    return [item.strip() for item in read(name).split(",") if item.strip()]


def missing_in_production() -> list[str]:
    """Names of required variables that have no value."""
    return [variable.name for variable in VARIABLES if variable.required and not read(variable.name).strip()]


def names(prefix: str) -> list[str]:
    """The variables whose names begin so."""
    return [variable.name for variable in VARIABLES if variable.name.startswith(prefix)]


def table() -> list[dict[str, object]]:
    """Every variable: its purpose, whether it is set, its value (empty for a secret); for `manage.py doctor`."""
    return [
        {
            "name": variable.name,
            "purpose": variable.purpose,
            "secret": variable.secret,
            "is_set": variable.name in os.environ or f"{variable.name}_FILE" in os.environ,
            "value": "" if variable.secret else read(variable.name),
        }
        for variable in VARIABLES
    ]
