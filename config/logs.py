"""Structured logs: one line per event, each with the correlation id. No URL, query, body or header is ever a field."""

from typing import Any

import structlog

SHARED: list[Any] = [
    structlog.contextvars.merge_contextvars,
    structlog.stdlib.add_log_level,
    structlog.stdlib.add_logger_name,
    structlog.processors.TimeStamper(fmt="iso", utc=True),
    structlog.stdlib.PositionalArgumentsFormatter(),
    structlog.processors.format_exc_info,
]


def logging_config(log_format: str, level: str) -> dict[str, Any]:
    """The `logging.config.dictConfig` mapping; also points structlog at the standard library's loggers."""
    structlog.configure(
        processors=[*SHARED, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=True,
    )
    renderer: Any = (
        structlog.processors.JSONRenderer(ensure_ascii=False)
        if log_format == "json"
        else structlog.processors.KeyValueRenderer(
            key_order=["timestamp", "level", "event", "correlation_id"], drop_missing=True
        )
    )
    formatter = {
        "()": structlog.stdlib.ProcessorFormatter,
        "processors": [structlog.stdlib.ProcessorFormatter.remove_processors_meta, renderer],
        "foreign_pre_chain": SHARED,
    }
    quiet = {"level": "WARNING"}
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"lines": formatter},
        "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "lines", "stream": "ext://sys.stderr"}},
        "root": {"handlers": ["stderr"], "level": "INFO"},
        "loggers": {
            **{name: {"level": level} for name in ("kernel", "delivery", "tasks", "webhooks", "console")},
            **dict.fromkeys(("urllib3", "asyncio", "httpcore", "uvicorn.access", "django.channels.server"), quiet),
            "celery.app.trace": quiet,
            "celery.worker.strategy": quiet,
            "celery.beat": quiet,
            "django_celery_beat": quiet,
        },
    }
