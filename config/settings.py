"""Django's settings, made from the environment (`config.environment`). The environment is read nowhere else."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from urllib.parse import unquote, urlsplit

from django.core.exceptions import ImproperlyConfigured

from config import environment as env
from config import production
from config.logs import logging_config
from kernel.network.addresses import parse_networks
from kernel.network.openings import OPERATORS, Network, Opening, parse_openings

BASE_DIR = Path(__file__).resolve().parent.parent
VERSION = "0.1.0"
ENVIRONMENT = env.read("ROUNDTRIP_ENV")
DEMO = ENVIRONMENT == "demo"
TESTING = ENVIRONMENT == "test"
PRODUCTION = not (DEMO or TESTING)
ENVIRONMENT_TABLE = env.table()  # what `manage.py doctor` shows; secrets are not in it
DEBUG = env.read_bool("DEBUG")

_TEST_KEY = "test-only-" + "0" * 50
_TEST_MASTER_KEY = "dGVzdC1vbmx5LW1hc3Rlci1rZXktMDAwMDAwMDAwMDA="

SECRET_KEY = env.read("SECRET_KEY") or (_TEST_KEY if TESTING else "")
MASTER_KEYS = env.read_list("MASTER_KEYS") or ([_TEST_MASTER_KEY] if TESTING else [])


def _refuse_unsafe_production() -> None:
    problems = [f"{name} is missing" for name in env.missing_in_production()]
    if DEBUG:
        problems.append("DEBUG is on")
    problems += production.faults_of_secret_key(SECRET_KEY)
    problems += production.faults_of_master_keys(MASTER_KEYS, published=[_TEST_MASTER_KEY])
    problems += production.faults_of_hosts(env.read_list("ALLOWED_HOSTS"))
    problems += production.faults_of_proxies(env.read_list("TRUSTED_PROXIES"))
    if any(env.read(name) for name in ("DEMO_ADMIN_PASSWORD", "DEMO_API_KEY", "DEMO_ENDPOINT_SECRET")):
        problems.append("demo credentials are configured (DEMO_ADMIN_PASSWORD, DEMO_API_KEY or DEMO_ENDPOINT_SECRET)")
    if any(env.read(name) for name in env.names("SANDBOX_")):
        problems.append(f"the sandbox is configured ({', '.join(env.names('SANDBOX_'))})")
    problems += production.faults_in_form(_readers())
    if problems:
        raise ImproperlyConfigured(
            "Roundtrip will not start in production: " + "; ".join(problems) + ". See docs/reference.md."
        )


def _readers() -> list[Callable[[], object]]:
    """How each variable with a form of its own is read further down, where the first fault would be the only one."""
    numbers = [variable.name for variable in env.VARIABLES if variable.default.isdigit() and len(variable.default) > 1]
    return [
        partial(_networks, "TRUSTED_PROXIES"),
        partial(_openings, "DELIVERY_ALLOWED_NETWORKS"),
        _provider_openings,
        *(partial(env.read_int, name) for name in numbers),
        partial(env.read_bool, "SECURE_COOKIES"),
        partial(_database, env.read("DATABASE_URL") or "postgresql://"),
    ]


def _networks(name: str) -> list[Network]:
    try:
        return list(parse_networks(env.read_list(name)))
    except ValueError as error:
        raise ImproperlyConfigured(f"{name} must list networks such as 10.0.0.0/8: {error}.") from error


def _openings(name: str) -> list[Opening]:
    try:
        return list(parse_openings(env.read_list(name)))
    except ValueError as error:
        raise ImproperlyConfigured(f"{name} must list networks: {error}.") from error


def _provider_openings() -> list[Opening]:
    found = _openings("PROVIDER_ALLOWED_NETWORKS")
    if any(opening.who != OPERATORS for opening in found):
        raise ImproperlyConfigured(
            "PROVIDER_ALLOWED_NETWORKS takes no subscriber@: providers are called for the operators, whosoever the"
            " task is."
        )
    return found


def _database(url: str) -> dict:
    parts = urlsplit(url)
    if parts.scheme not in {"postgres", "postgresql"}:
        raise ImproperlyConfigured(
            "DATABASE_URL must start with postgresql:// (Roundtrip needs PostgreSQL 15 or later)."
        )
    pool_size = 0 if TESTING else env.read_int("DATABASE_POOL_SIZE")
    options: dict = {"connect_timeout": 5, "application_name": "roundtrip"}
    if pool_size:
        options["pool"] = {"min_size": 0, "max_size": pool_size, "max_idle": 120, "timeout": 10}
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": unquote(parts.path.lstrip("/")),
        "USER": unquote(parts.username or ""),
        "PASSWORD": unquote(parts.password or ""),
        "HOST": parts.hostname or "",
        "PORT": str(parts.port or ""),
        "CONN_MAX_AGE": 0,
        "OPTIONS": options,
    }


if ENVIRONMENT not in {"production", "demo", "test"}:
    raise ImproperlyConfigured(f"ROUNDTRIP_ENV must be production, demo or test, not {ENVIRONMENT!r}.")
if PRODUCTION:
    _refuse_unsafe_production()

ALLOWED_HOSTS = env.read_list("ALLOWED_HOSTS") or (["localhost", "127.0.0.1", "testserver"] if not PRODUCTION else [])
PUBLIC_BASE_URL = env.read("PUBLIC_BASE_URL").rstrip("/")

INSTALLED_APPS = [
    "config.apps.RoundtripConfig",
    "unfold",
    "unfold.contrib.filters",
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django.contrib.postgres",
    "django.contrib.humanize",
    "rest_framework",
    "django_filters",
    "drf_spectacular",
    "drf_spectacular_sidecar",
    "channels",
    "django_celery_beat",
    "kernel",
    "delivery",
    "tasks",
    "webhooks",
    "console",
]

MIDDLEWARE = [
    "kernel.web.correlation_header.CorrelationMiddleware",
    "kernel.web.refusals.LogRefusalsMiddleware",
    "console.pages.security.SecurityHeadersMiddleware",
    "kernel.api.error_views.RefuseNulMiddleware",
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "kernel.api.body_caps.RefuseLargeBodiesMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "kernel.web.budget.ReadBudgetMiddleware",
]

ROOT_URLCONF = "config.urls"
ASGI_APPLICATION = "config.asgi.application"
APPEND_SLASH = False  # a redirect loses a webhook's body; every URL is routed with and without its slash
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    }
]


DATABASES = {"default": _database(env.read("DATABASE_URL") or "postgresql://127.0.0.1/roundtrip")}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

CELERY_BROKER_URL = env.read("CELERY_BROKER_URL")
CHANNEL_LAYER_URL = env.read("CHANNEL_LAYER_URL")
CHANNEL_LAYERS = {
    "default": {
        "BACKEND": "channels_redis.pubsub.RedisPubSubChannelLayer",
        "CONFIG": {"hosts": [CHANNEL_LAYER_URL or "redis://127.0.0.1:6379/0"], "prefix": "roundtrip"},
    }
}

AUTHENTICATION_BACKENDS = ["kernel.web.log_in.PasswordBackend"]
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.UserAttributeSimilarityValidator"},
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator", "OPTIONS": {"min_length": 10}},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]
LOGIN_URL = "admin:login"
LOGIN_REDIRECT_URL = "/"

LANGUAGE_CODE = "en"
TIME_ZONE = "UTC"
USE_TZ = True
FORMAT_MODULE_PATH = ["config.formats"]
STATIC_URL = "/static/"
STATIC_ROOT = BASE_DIR / "var" / "static"
STATICFILES_DIRS = [BASE_DIR / "console" / "assets"]
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"},
}
WHITENOISE_USE_FINDERS = True

_secure = env.read_bool("SECURE_COOKIES") and PRODUCTION
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = SECURE_SSL_REDIRECT = _secure
SECURE_HSTS_SECONDS = 31536000 if _secure else 0
SECURE_HSTS_INCLUDE_SUBDOMAINS = SECURE_HSTS_PRELOAD = _secure
SECURE_REDIRECT_EXEMPT = [r"^healthz/?$", r"^readyz/?$", r"^webhooks/"]  # a redirect loses a callback's body
SECURE_REFERRER_POLICY = "same-origin"
SESSION_COOKIE_HTTPONLY = True
SESSION_ENGINE = "kernel.web.session_store"  # Django's, by the database's clock
X_FRAME_OPTIONS = "DENY"
CSRF_TRUSTED_ORIGINS = [PUBLIC_BASE_URL] if PUBLIC_BASE_URL else []
DATA_UPLOAD_MAX_MEMORY_SIZE = 32 * 1024 * 1024  # the largest body of all; most doors take less (BODY_CAPS)
DATA_UPLOAD_MAX_NUMBER_FIELDS = 20_000  # a selection of ten thousand rows in the admin


TRUSTED_PROXIES = _networks("TRUSTED_PROXIES")
if TRUSTED_PROXIES:
    SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")

REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "kernel.auth.ApiKeyAuthentication",
        "kernel.auth.ConsoleSessionAuthentication",
    ],
    "DEFAULT_PERMISSION_CLASSES": ["kernel.auth.DenyAll"],  # every view names its own scope
    "DEFAULT_PAGINATION_CLASS": "kernel.api.pages.CursorPages",
    "DEFAULT_FILTER_BACKENDS": ["kernel.filters.ExactFilters"],
    "DEFAULT_SCHEMA_CLASS": "drf_spectacular.openapi.AutoSchema",
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_CONTENT_NEGOTIATION_CLASS": "kernel.api.negotiation.JsonForJson",
    "DEFAULT_PARSER_CLASSES": ["kernel.parsing.StrictJSONParser"],
    "EXCEPTION_HANDLER": "kernel.api.problems.exception_handler",
    "DATETIME_FORMAT": "iso-8601",
    "UNAUTHENTICATED_USER": "django.contrib.auth.models.AnonymousUser",
}
SCOPE_PERMISSIONS = {  # what a console user needs where an API key needs the scope
    "tasks:read": "tasks.view_task",
    "tasks:write": "tasks.add_task",
    "events:write": "delivery.add_event",
    "deliveries:read": "delivery.view_delivery",
    "deliveries:write": "delivery.redrive_delivery",
    "endpoints:write": "delivery.change_endpoint",
    "operations:write": "console.add_operation",
}
_EACH_BULK_VERB = ["delivery.redrive_delivery", "delivery.discard_delivery", "delivery.change_endpoint"]
_EACH_BULK_VERB += ["tasks.redrive_task", "tasks.cancel_task"]
KEY_PERMISSIONS = {  # all that a key with the scope can do, as a console user would need it: who makes one has these
    "tasks:read": [
        "tasks.view_task", "tasks.view_payload_task",
        "webhooks.view_inboundevent", "webhooks.view_payload_inboundevent",
    ],
    "tasks:write": [
        "tasks.add_task", "tasks.redrive_task", "tasks.cancel_task", "tasks.cancel_batch", "tasks.pause_kind",
        "webhooks.replay_inboundevent",
    ],
    "events:write": ["delivery.add_event"],
    "deliveries:read": ["delivery.view_delivery", "delivery.view_payload_delivery", "delivery.view_payload_event"],
    "deliveries:write": ["delivery.redrive_delivery", "delivery.discard_delivery"],
    "endpoints:write": [
        "delivery.add_endpoint", "delivery.change_endpoint", "delivery.delete_endpoint", "delivery.pause_endpoint",
        "delivery.view_secret_endpoint", "delivery.view_payload_event",
    ],
    "operations:write": ["console.add_operation", "console.change_alert", *_EACH_BULK_VERB],
}  # fmt: skip
SPECTACULAR_SETTINGS = {
    "TITLE": "Roundtrip",
    "DESCRIPTION": "Runs work at external job providers and delivers webhooks, and loses neither.",
    "VERSION": VERSION,
    "SERVE_INCLUDE_SCHEMA": False,
    "SERVE_PERMISSIONS": ["rest_framework.permissions.AllowAny"],
    "COMPONENT_SPLIT_REQUEST": True,
    "SCHEMA_PATH_PREFIX": "/api/v1/",
    "ENUM_NAME_OVERRIDES": {
        "TaskState": "tasks.states.State",
        "ExternalJobState": "tasks.states.JobState",
        "TransitionCause": "tasks.states.Cause",
        "DeliveryState": "delivery.states.State",
        "InboundOutcome": "webhooks.models.InboundOutcome",
        "InboundVerdict": "webhooks.models.InboundVerdict",
        "AlertState": "console.models.Alert.State",
        "OperationState": "console.models.Operation.State",
        "OperationVerb": "console.models.Operation.Verb",
        "BatchState": ["running", "completed"],
        "EventState": ["queued", "unmatched"],
        "EndpointState": ["active", "paused", "needs_attention", "disabled", "deleted"],
        "MissingField": "delivery.states.MissingField",
        "WaitReason": "delivery.states.WaitReason",
        "SignatureScheme": "delivery.states.SignatureScheme",
        "KindName": "tasks.kinds.KINDS",
        "AttemptOutcome": "delivery.policy.outcomes.Outcome",
        "BreakerState": "delivery.states.BreakerState",
        "RequestForm": "delivery.states.RequestForm",
        "RetryProfile": "delivery.states.RetryProfile",
    },
    "OAS_VERSION": "3.1.1",
    "POSTPROCESSING_HOOKS": [
        "config.openapi.keep_constants",
        "drf_spectacular.hooks.postprocess_schema_enums",
        "kernel.api.openapi.tell_refusals",
        "config.openapi.complete",
    ],
    "SWAGGER_UI_DIST": "SIDECAR",  # no CDN: the pages work on a closed network, under a strict CSP
    "SWAGGER_UI_FAVICON_HREF": "SIDECAR",
}

# Delivery engine
DELIVERY_ALLOWED_NETWORKS = _openings("DELIVERY_ALLOWED_NETWORKS")
DELIVERY_PROXY_URL = env.read("DELIVERY_PROXY_URL")
DELIVERY_CANARY_NAME = env.read("DELIVERY_CANARY_NAME")
DELIVERY_CA_FILE = env.read("DELIVERY_CA_FILE")
DELIVERY_MAX_IN_FLIGHT = env.read_int("DELIVERY_MAX_IN_FLIGHT")
DELIVERY_MAX_BYTES_IN_FLIGHT = env.read_int("DELIVERY_MAX_BYTES_IN_FLIGHT")
DELIVERY_MAX_WAITING = env.read_int("DELIVERY_MAX_WAITING")
EVENT_MAX_BYTES = env.read_positive("EVENT_MAX_BYTES")
ENDPOINTS_PER_SUBSCRIBER = env.read_positive("ENDPOINTS_PER_SUBSCRIBER")
DELIVERIES_PER_CALL = env.read_positive("DELIVERIES_PER_CALL")
ATTEMPT_RETENTION_DAYS = env.read_int("ATTEMPT_RETENTION_DAYS")
EVENT_RETENTION_DAYS = env.read_int("EVENT_RETENTION_DAYS")
DEAD_LETTER_RETENTION_DAYS = max(14, env.read_int("DEAD_LETTER_RETENTION_DAYS"))
HELD_TOO_LONG_DAYS = 14

# Providers and inbound
PROVIDER_ALLOWED_NETWORKS = _provider_openings()
INBOUND_MAX_BYTES = env.read_int("INBOUND_MAX_BYTES")
INBOUND_REFUSED_BYTES_A_DAY = env.read_int("INBOUND_REFUSED_BYTES_A_DAY")
INBOUND_REFUSED_RETENTION_DAYS = min(env.read_int("INBOUND_REFUSED_RETENTION_DAYS"), EVENT_RETENTION_DAYS)
SANDBOX_PROVIDER_URL = env.read("SANDBOX_PROVIDER_URL").rstrip("/")
SANDBOX_PROVIDER_KEY = env.read("SANDBOX_PROVIDER_KEY")
SANDBOX_WEBHOOK_SECRET = env.read("SANDBOX_WEBHOOK_SECRET")
SANDBOX_RECEIVER_URL = env.read("SANDBOX_RECEIVER_URL").rstrip("/")
if SANDBOX_PROVIDER_URL:  # the simulated provider lives on this machine
    PROVIDER_ALLOWED_NETWORKS += parse_openings("127.0.0.0/8")

# The most bytes of a body that each door takes; the first prefix that fits counts. Beyond: 413.
_ONE_EVENT = 4 * EVENT_MAX_BYTES + 64 * 1024  # JSON may come in with escapes and spaces that do not go out
BODY_CAPS = {
    "/webhooks/": INBOUND_MAX_BYTES,
    "/doctor/": 16 * 1024,
    "/api/v1/events/bulk": max(4 * 1024 * 1024, _ONE_EVENT),
    "/api/v1/events": _ONE_EVENT,
    "/api/v1/endpoints": max(1024 * 1024, _ONE_EVENT),  # templates, certificates, ten thousand ids, an event to preview
    "/api/v1/batches": DATA_UPLOAD_MAX_MEMORY_SIZE,
    "/api/v1/tasks": 1024 * 1024,
    "/api/": 256 * 1024,
    "/": 4 * 1024 * 1024,  # forms, and selections of ten thousand rows
}

READ_SECONDS = env.read_int("READ_SECONDS")
LIVE_ALLOWED_ORIGINS = env.read_list("LIVE_ALLOWED_ORIGINS")

# What `manage.py bootstrap_demo` makes; it refuses anywhere but in the demo.
DEMO_ADMIN_USERNAME = env.read("DEMO_ADMIN_USERNAME") if DEMO else ""
DEMO_ADMIN_PASSWORD = env.read("DEMO_ADMIN_PASSWORD") if DEMO else ""
DEMO_API_KEY = env.read("DEMO_API_KEY") if DEMO else ""
DEMO_ENDPOINT_SECRET = env.read("DEMO_ENDPOINT_SECRET") if DEMO else ""

LOGGING_CONFIG = None
LOGGING = logging_config(env.read("LOG_FORMAT"), env.read("LOG_LEVEL"))

import logging.config  # noqa: E402

logging.config.dictConfig(LOGGING)

from config.unfold import UNFOLD  # noqa: E402, F401
