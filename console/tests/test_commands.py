"""bootstrap_demo, stats, and the seeded schedule."""

import io
import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from celery import current_app
from cryptography.fernet import Fernet
from django.contrib.auth import get_user_model
from django.core.management import CommandError, call_command
from django.utils import timezone
from django_celery_beat.models import PeriodicTask

from console.management.commands import bootstrap_demo
from console.tests.conftest import make_batch, make_delivery, make_endpoint
from delivery.models import Endpoint
from kernel.auth import Scope, find_key
from kernel.models import ApiKey
from kernel.network.openings import parse_openings

pytestmark = pytest.mark.django_db
ROOT = Path(__file__).resolve().parents[2]
TOKEN = "rt_aabbccddeeff_" + "0" * 64


@pytest.fixture
def receiver():
    """A receiver that keeps what it is told."""
    told = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            told.append((self.path, json.loads(self.rfile.read(int(self.headers["content-length"])))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_args):
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}", told
    server.shutdown()


@pytest.fixture
def demo(settings, receiver):
    settings.DEMO = True
    settings.DELIVERY_ALLOWED_NETWORKS = parse_openings("127.0.0.0/8")
    settings.DEMO_ADMIN_USERNAME, settings.DEMO_ADMIN_PASSWORD = "demo", "a long password 1"
    settings.DEMO_API_KEY, settings.SANDBOX_RECEIVER_URL = TOKEN, receiver[0]
    settings.DEMO_ENDPOINT_SECRET = ""
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
    return receiver[1]


def test_the_demo_is_made_once_and_a_second_run_changes_nothing(demo):
    call_command("bootstrap_demo")
    user, endpoint = get_user_model().objects.get(), Endpoint.objects.get()
    key = find_key(TOKEN, timezone.now())
    assert user.is_superuser and user.check_password("a long password 1")
    assert (key.is_demo, set(key.scopes)) == (True, set(Scope.values))
    assert (endpoint.subscriber, endpoint.event_types) == ("", [])
    assert demo == [("/_secrets", {"path": "/ok", "secret": endpoint.secret})]
    before = (user.password, endpoint.secret, endpoint.version, key.pk)
    call_command("bootstrap_demo")
    user, endpoint = get_user_model().objects.get(), Endpoint.objects.get()
    assert (user.password, endpoint.secret, endpoint.version, ApiKey.objects.get().pk) == before


def test_a_receiver_that_moved_or_is_not_up_yet_does_no_harm(demo, settings, monkeypatch):
    monkeypatch.setattr(bootstrap_demo.time, "sleep", lambda _seconds: None)
    call_command("bootstrap_demo")
    secret = Endpoint.objects.get().secret
    settings.SANDBOX_RECEIVER_URL = "http://127.0.0.1:2"
    call_command("bootstrap_demo", stderr=io.StringIO())
    endpoint = Endpoint.objects.get()
    assert (endpoint.url, endpoint.secret) == ("http://127.0.0.1:2/ok", secret)


def test_a_folder_whose_master_key_was_lost_starts_again(demo, settings):
    call_command("bootstrap_demo")
    settings.MASTER_KEYS = [Fernet.generate_key().decode()]
    call_command("bootstrap_demo")
    endpoint = Endpoint.objects.get()
    assert endpoint.url.endswith("/ok") and endpoint.secret.startswith("whsec_")
    assert demo[-1] == ("/_secrets", {"path": "/ok", "secret": endpoint.secret})


def test_a_secret_from_the_environment_is_used_and_the_receiver_knows_it_already(demo, settings):
    settings.DEMO_ENDPOINT_SECRET = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="
    call_command("bootstrap_demo")
    assert Endpoint.objects.get().secret == settings.DEMO_ENDPOINT_SECRET
    assert demo == []


def test_outside_the_demo_it_refuses(settings):
    settings.DEMO = False
    with pytest.raises(CommandError):
        call_command("bootstrap_demo")
    assert not get_user_model().objects.exists()


def test_stats_for_people_and_scripts():
    make_delivery(make_endpoint(), "dead_letter")
    make_batch(["queued", "succeeded"], finished_by="poll")
    out = io.StringIO()
    call_command("stats", "--json", stdout=out)
    row = json.loads(out.getvalue())
    assert (row["dead_letter"], row["tasks"]["pending"]) == (1, 1)
    out = io.StringIO()
    call_command("stats", stdout=out)
    assert "No webhook arrived for 1 job; the poll finished it." in out.getvalue()


def test_every_entry_of_the_schedule_is_a_worker_function_that_exists_and_expires():
    app = current_app
    app.loader.import_default_modules()
    entries = PeriodicTask.objects.exclude(task__startswith="celery.")
    assert {entry.task for entry in entries} - set(app.tasks) == set()
    assert all(entry.enabled and entry.expire_seconds for entry in entries)
    assert entries.get(task="tasks.poll").interval.every == 60
    assert entries.get(task="delivery.drain").interval.every == 5
