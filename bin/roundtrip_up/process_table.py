"""The processes of one Roundtrip and the environment they get. Logs and `deploy/` use the names given here."""

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from roundtrip_up.folders import ROOT
from roundtrip_up.ports import HOST
from roundtrip_up.process import Program

# Warnings that say nothing to an operator: a widget that django-unfold deprecates itself, Celery on running as root,
# WhiteNoise on a folder for collected files (the demo serves them from where they are).
NOISY = ("django.forms.fields", "celery.platforms", "django.core.handlers.base")
QUIET = ("--without-gossip", "--without-mingle", "--without-heartbeat")
# What only the preparation of the demo and the sandbox need: no process that talks to strangers holds it.
OF_PREPARATION = ("DEMO_", "SANDBOX_RECEIVER_SECRETS")


@dataclass(frozen=True)
class Addresses:
    """Where the parts of one instance listen. `sandbox` is 0 where there is none."""

    web: int
    sandbox: int = 0

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.web}"

    @property
    def provider_url(self) -> str:
        return f"http://{HOST}:{self.sandbox}/provider" if self.sandbox else ""

    @property
    def receiver_url(self) -> str:
        return f"http://{HOST}:{self.sandbox}/receiver" if self.sandbox else ""


def settings(
    addresses: Addresses, kept: Mapping[str, str], urls: Mapping[str, str], environ: Mapping[str, str]
) -> dict[str, str]:
    """What the product is told. Whatever the environment says already (`NAME` or `NAME_FILE`) wins."""
    ours = {
        "ROUNDTRIP_ENV": "demo",
        "SECRET_KEY": kept["secret_key"],
        "MASTER_KEYS": kept["master_keys"],
        "ALLOWED_HOSTS": "localhost,127.0.0.1,[::1]",
        "PUBLIC_BASE_URL": addresses.url,
        "DELIVERY_ALLOWED_NETWORKS": f"127.0.0.0/8,roundtrip-doctor@127.0.0.0/8:{addresses.web}",
        "LOG_FORMAT": "console",
        "DEMO_ADMIN_USERNAME": kept["admin_username"],
        "DEMO_ADMIN_PASSWORD": kept["admin_password"],
        "DEMO_API_KEY": kept["api_key"],
    }
    if addresses.sandbox:
        ours |= {
            "SANDBOX_PROVIDER_URL": addresses.provider_url,
            "SANDBOX_RECEIVER_URL": addresses.receiver_url,
            "SANDBOX_PROVIDER_KEY": kept["sandbox_provider_key"],
            "SANDBOX_WEBHOOK_SECRET": kept["sandbox_webhook_secret"],
            # The sample endpoint signs with it, and the receiver, which starts later and forgets, verifies with it.
            "DEMO_ENDPOINT_SECRET": kept["demo_endpoint_secret"],
            "SANDBOX_RECEIVER_SECRETS": json.dumps({"/ok": kept["demo_endpoint_secret"]}),
        }
    chosen = {name: environ.get(name, value) for name, value in ours.items() if f"{name}_FILE" not in environ}
    # All that was said, not only what we would have said: `manage.py prune` beside us must keep what our workers keep.
    known = declared()
    said = {name: value for name, value in environ.items() if name.removesuffix("_FILE") in known}
    return {**chosen, **said, **urls}


def declared() -> frozenset[str]:
    """The product's own variables. Their declaration is read, not imported: there may be no Django here yet."""
    text = (ROOT / "config" / "environment.py").read_text(encoding="utf-8")
    return frozenset(re.findall(r'\bVariable\(\s*"([A-Z][A-Z0-9_]*)"', text))


def environment(product: Mapping[str, str], environ: Mapping[str, str]) -> dict[str, str]:
    """The whole environment of a child: the caller's, without what would lead Python astray, and the product's."""
    inherited = {
        name: value for name, value in environ.items() if not name.startswith("PYTHON") and name != "VIRTUAL_ENV"
    }
    return {
        **inherited,
        **product,
        "DJANGO_SETTINGS_MODULE": "config.settings",
        "PYTHONUNBUFFERED": "1",
        "PYTHONUTF8": "1",
        # glibc keeps what each thread has freed, large blocks too: with dozens of threads, hundreds of megabytes.
        "MALLOC_ARENA_MAX": "2",
        "MALLOC_MMAP_THRESHOLD_": "262144",
        "PYTHONWARNINGS": ",".join(f"ignore::UserWarning:{module}" for module in NOISY),
    }


def only(env: Mapping[str, str], withheld: tuple[str, ...]) -> dict[str, str]:
    """An environment without the product's variables (`NAME_FILE` included) whose names begin so, whoever set them."""
    known = declared()
    return {
        name: value
        for name, value in env.items()
        if not ((bare := name.removesuffix("_FILE")).startswith(withheld) and (bare in known or bare in OF_PREPARATION))
    }


def programs(python: Path, addresses: Addresses, workers: int, env: dict[str, str]) -> list[Program]:
    """Every process of the product but the sandbox, the slowest to start first."""
    web = (
        "uvicorn", "config.asgi:application", "--http", "config.server:BoundedProtocol",
        "--host", HOST, "--port", str(addresses.web),
        "--no-access-log", "--no-proxy-headers", "--no-server-header", "--log-level", "warning",
        "--ws-max-size", "65536", "--timeout-graceful-shutdown", "8",
    )  # fmt: skip
    beat = (
        "celery",
        "-q",
        "-A",
        "config",
        "beat",
        "-S",
        "config.beat:Scheduler",
        "--pidfile=",
        "--loglevel",
        "WARNING",
    )
    return [
        _python(python, "web", web, env),
        *(delivery_worker(python, number, env) for number in range(1, workers + 1)),
        _worker(python, "worker-tasks", "tasks,default", 4, env),
        _python(python, "beat", beat, only(env, ("MASTER_KEYS",))),
    ]


def delivery_worker(python: Path, number: int, env: dict[str, str]) -> Program:
    """One process that drains deliveries: one thread, hundreds of transfers."""
    return _worker(python, f"worker-delivery-{number}", "delivery", 1, env)


def sandbox(python: Path, addresses: Addresses, env: dict[str, str]) -> Program:
    """The simulated provider and the sample receiver; stopped after the workers, who may still be talking to it."""
    argv = (str(python), "-m", "sandbox", "--host", HOST, "--port", str(addresses.sandbox))
    told = only(env, tuple(name for name in declared() if not name.startswith("SANDBOX_")))
    return Program("sandbox", argv, env=told, cwd=ROOT, grace_seconds=5.0, rank=10)


def _worker(python: Path, name: str, queues: str, threads: int, env: dict[str, str]) -> Program:
    celery = (
        "celery",
        "-q",
        "-A",
        "config",
        "worker",
        "-n",
        f"{name}.{os.getpid()}@%h",  # RabbitMQ keeps a second worker of one name out; other instances may use it too
        "-Q",
        queues,
        "-P",
        "threads",
        "-c",
        str(threads),
    )
    return _python(python, name, (*celery, *QUIET, "--loglevel", "WARNING"), env)


def _python(python: Path, name: str, module: tuple[str, ...], env: dict[str, str]) -> Program:
    return Program(name, (str(python), "-m", *module), env=only(env, OF_PREPARATION), cwd=ROOT, grace_seconds=25.0)
