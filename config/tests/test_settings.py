"""Production refuses to start half configured, and says everything that is wrong at once."""

import os
import subprocess
import sys

import pytest
from cryptography.fernet import Fernet
from django.conf import settings

COMPLETE = {
    "SECRET_KEY": "p" * 30 + "q4-+" * 8,
    "MASTER_KEYS": Fernet.generate_key().decode(),
    "DATABASE_URL": "postgresql://u:p@127.0.0.1:1/none",
    "CELERY_BROKER_URL": "redis://127.0.0.1:1/0",
    "CHANNEL_LAYER_URL": "redis://127.0.0.1:1/1",
    "ALLOWED_HOSTS": "jobs.example.com",
    "PUBLIC_BASE_URL": "https://jobs.example.com",
}


def start(*command, **changes):
    environment = {"PATH": os.environ["PATH"], "DJANGO_SETTINGS_MODULE": "config.settings"}
    environment |= {name: value for name, value in {**COMPLETE, **changes}.items() if value is not None}
    return subprocess.run(
        [sys.executable, "manage.py", *(command or ("check",))],
        cwd=settings.BASE_DIR,
        env=environment,
        capture_output=True,
        text=True,
    )


def test_a_complete_production_passes_the_deployment_check_without_a_warning():
    done = start("check", "--deploy", "--fail-level", "WARNING")
    assert done.returncode == 0, done.stderr
    assert "System check identified no issues" in done.stdout


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"SECRET_KEY": None}, "SECRET_KEY is missing"),
        ({"MASTER_KEYS": ""}, "MASTER_KEYS is missing"),
        ({"SECRET_KEY": "demo-" + "x" * 60}, "SECRET_KEY is a demo key"),
        ({"DEBUG": "1"}, "DEBUG is on"),
        ({"SANDBOX_PROVIDER_URL": "http://127.0.0.1:9"}, "the sandbox is configured"),
        ({"SANDBOX_WEBHOOK_SECRET": "whsec_x"}, "the sandbox is configured"),
        ({"DEMO_ENDPOINT_SECRET": "whsec_x"}, "demo credentials are configured"),
        ({"SECRET_KEY": "abcde"}, "SECRET_KEY is too weak (5 characters"),
        ({"SECRET_KEY": "ab" * 40}, "SECRET_KEY is too weak (80 characters, 2 of them different"),
        ({"SECRET_KEY": "django-insecure-" + "q4-+" * 20}, "SECRET_KEY is a demo key"),
        ({"MASTER_KEYS": "abc"}, "MASTER_KEYS holds something that is no Fernet key (number 1"),
        ({"MASTER_KEYS": COMPLETE["MASTER_KEYS"] + ",é"}, "is no Fernet key (number 2"),
        ({"TRUSTED_PROXIES": "10.0.0.0/8,::/0"}, "TRUSTED_PROXIES trusts everybody"),
        ({"MASTER_KEYS": "dGVzdC1vbmx5LW1hc3Rlci1rZXktMDAwMDAwMDAwMDA="}, "MASTER_KEYS holds a published key"),
        ({"ALLOWED_HOSTS": "jobs.example.com,*"}, "ALLOWED_HOSTS lets any name in (*)"),
        ({"ALLOWED_HOSTS": ".com"}, "ALLOWED_HOSTS lets any name in (.com)"),
        ({"TRUSTED_PROXIES": "nginx"}, "TRUSTED_PROXIES must list networks"),
        ({"ROUNDTRIP_ENV": "prod"}, "must be production, demo or test"),
        ({"DATABASE_URL": "mysql://x/y"}, "must start with postgresql://"),
        ({"DELIVERY_ALLOWED_NETWORKS": "here"}, "DELIVERY_ALLOWED_NETWORKS must list networks"),
        ({"DELIVERY_ALLOWED_NETWORKS": "10.0.0.0/8:x"}, "acme@10.20.0.7/32:8000-8099"),
        ({"PROVIDER_ALLOWED_NETWORKS": "10.0.0.0/8:0"}, "PROVIDER_ALLOWED_NETWORKS must list networks"),
        ({"PROVIDER_ALLOWED_NETWORKS": "acme@10.0.0.0/8"}, "PROVIDER_ALLOWED_NETWORKS takes no subscriber@"),
        ({"DELIVERY_MAX_IN_FLIGHT": "many"}, "DELIVERY_MAX_IN_FLIGHT must be a whole number"),
        ({"SECRET_KEY": None, "SECRET_KEY_FILE": "/nowhere/secret"}, "SECRET_KEY_FILE names /nowhere/secret"),
    ],
)
def test_what_is_wrong_is_named(changes, words):
    done = start(**changes)
    assert done.returncode != 0
    assert words in done.stderr


def test_everything_wrong_is_said_at_once():
    done = start(SECRET_KEY=None, DEBUG="1", ALLOWED_HOSTS=None)
    assert "SECRET_KEY is missing; ALLOWED_HOSTS is missing; DEBUG is on" in done.stderr


def test_what_is_unsafe_and_what_has_no_form_is_said_in_one_breath():
    done = start(
        SECRET_KEY="abcde", MASTER_KEYS="abc", ALLOWED_HOSTS="*", DATABASE_URL="mysql://x/y", DATABASE_POOL_SIZE="few"
    )
    assert done.returncode != 0
    for words in (
        "SECRET_KEY is too weak",
        "MASTER_KEYS holds something that is no Fernet key",
        "ALLOWED_HOSTS lets any name in",
        "DATABASE_URL must start with postgresql://",
        "DATABASE_POOL_SIZE must be a whole number",
    ):
        assert done.stderr.count(words) == 1
    assert "abcde" not in done.stderr


def test_a_domain_of_ones_own_with_its_subdomains_may_be_served():
    assert start(ALLOWED_HOSTS=".example.com,jobs,10.1.2.3,[::1]").returncode == 0


def test_a_secret_may_come_from_a_file(tmp_path):
    secret = tmp_path / "key"
    secret.write_text(COMPLETE["SECRET_KEY"] + "\n")
    assert start(SECRET_KEY=None, SECRET_KEY_FILE=str(secret)).returncode == 0
