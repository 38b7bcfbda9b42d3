"""manage.py: what scripts and people call."""

import json
from datetime import timedelta

import pytest
from cryptography.fernet import Fernet
from django.core.management import CommandError, call_command
from django.db import connection
from django.utils import timezone

from delivery.models import Delivery, Endpoint, Event
from delivery.tests import factories
from kernel.models import ApiKey

pytestmark = pytest.mark.django_db


@pytest.fixture
def run(capsys):
    def call(name, *args):
        call_command(name, *args)
        out = capsys.readouterr().out
        return json.loads(out) if "--json" in args else out

    return call


def test_publish(run):
    factories.endpoint(subscriber="acme")
    answer = run("publish", "order.paid", '{"n": 1}', "--subscriber", "acme", "--uid", "u1", "--json")
    assert (answer["uid"], answer["state"], answer["deliveries"]) == ("u1", "queued", 1)
    assert "matches no endpoint" in run("publish", "order.paid", "{}")
    for bad in ("[]", "{", '{"a": NaN}'):
        with pytest.raises(CommandError):
            run("publish", "order.paid", bad)
    assert Event.objects.count() == 2


def test_redrive_needs_a_filter_previews_and_redrives(run):
    one, two = factories.endpoint(), factories.endpoint()
    for _ in range(3):
        factories.delivery(one, state="dead_letter", last_outcome="rejected", last_status_code=401)
    factories.delivery(two, state="dead_letter")
    with pytest.raises(CommandError, match="--all"):
        run("redrive")
    preview = run("redrive", "--endpoint", str(one.pk), "--dry-run", "--json")
    assert (preview["matched"], preview["redriven"]) == (3, 0)
    assert "rejected 401" in run("redrive", "--all", "--dry-run")
    assert "nothing would be redriven" in run("redrive", "--subscriber", "nobody", "--dry-run")
    assert Delivery.objects.filter(state="dead_letter").count() == 4
    done = run("redrive", "--outcome", "rejected", "--json")
    assert done == {"matched": 3, "redriven": 3}
    assert "1 of 1" in run("redrive", "--all")
    assert not Delivery.objects.filter(state="dead_letter").exists()


def test_redrive_by_time(run):
    endpoint, now = factories.endpoint(), timezone.now()
    factories.delivery(endpoint, state="dead_letter", finished_at=now - timedelta(days=2))
    since = (now - timedelta(days=1)).isoformat()
    assert run("redrive", "--since", since, "--json")["matched"] == 0
    assert run("redrive", "--until", since, "--json")["redriven"] == 1


@pytest.mark.parametrize("name", ["endpoint", "subscriber", "outcome", "status-code", "group", "since", "until"])
def test_an_empty_value_for_redrive_is_refused_and_moves_nothing(run, name):
    factories.delivery(factories.endpoint(subscriber="acme"), state="dead_letter")
    with pytest.raises(CommandError):
        run("redrive", f"--{name}", "")
    with pytest.raises(CommandError):
        run("redrive", f"--{name}", "", "--all")
    assert Delivery.objects.get().state == "dead_letter"


def test_redrive_of_the_operators_own_and_of_live_endpoints_only(run):
    own, theirs = factories.endpoint(), factories.endpoint(subscriber="acme")
    gone = factories.endpoint(deleted_at=timezone.now())
    for endpoint in (own, theirs, gone):
        factories.delivery(endpoint, state="dead_letter")
    assert run("redrive", "--own", "--json") == {"matched": 1, "redriven": 1}
    assert run("redrive", "--all", "--json") == {"matched": 1, "redriven": 1}
    assert Delivery.objects.get(endpoint=gone).state == "dead_letter"
    with pytest.raises(CommandError):
        run("redrive", "--own", "--subscriber", "acme")


def test_dead_letters_are_told_by_endpoint_and_subscriber(run):
    endpoint = factories.endpoint(name="shop", subscriber="acme")
    factories.delivery(endpoint, state="dead_letter", last_outcome="timeout")
    label = f"shop of acme, endpoint {endpoint.pk} (hooks.example.com)"
    assert label in run("analyze_dead_letters")
    assert label in run("redrive", "--all", "--dry-run")
    (finding,) = run("analyze_dead_letters", "--json")["endpoints"]
    assert (finding["endpoint_name"], finding["subscriber"]) == ("shop", "acme")


@pytest.mark.parametrize("command", [("account", "--day", "2026-11-29"), ("analyze_dead_letters",), ("stats",)])
def test_an_empty_subscriber_means_the_operators_own_in_reports(run, command):
    """Of two rows in the house, one of them the operators' own."""
    for subscriber in ("", "acme"):
        event = factories.event(factories.NOW, subscriber=subscriber)
        factories.delivery(factories.endpoint(subscriber=subscriber), event, state="dead_letter")
    answer = run(*command, "--subscriber", "", "--json")
    figure = {
        "account": lambda: sum(line["dead"] for line in answer["lines"]),
        "analyze_dead_letters": lambda: sum(found["count"] for found in answer["endpoints"]),
        "stats": lambda: answer["dead_letter"],
    }
    assert figure[command[0]]() == 1


def test_account_balances(run):
    factories.delivery(factories.endpoint(), factories.event(factories.NOW, subscriber="=cmd()"))
    answer = run("account", "--day", "2026-11-29", "--json")
    assert answer["balances"] and answer["lines"][0]["waiting"] == 1
    rows = run("account", "--day", "2026-11-29", "--csv").splitlines()
    assert rows[0].startswith("day,subscriber,recorded,delivered,waiting")
    assert rows[1] == "2026-11-29,'=cmd(),1,0,1,0,0,0,0,0"
    assert "It balances." in run("account", "--day", "2026-11-29")


def test_analyze_slow_and_prune(run):
    slow = factories.endpoint(health={"p95_ms": 2500, "p50_ms": 900, "p99_ms": 3000, "sample_count": 50})
    factories.delivery(slow, state="dead_letter", last_outcome="timeout", last_error="after 15 s", attempt_count=5)
    assert run("analyze_dead_letters", "--json")["endpoints"][0]["count"] == 1
    assert "after 15 s" in run("analyze_dead_letters", "--hours", "48")
    assert run("slow_endpoints", "--json")["endpoints"][0]["id"] == slow.pk
    assert "2500" in run("slow_endpoints")
    old = factories.NOW - timedelta(days=400)
    factories.event(old)
    assert run("prune", "--dry-run", "--json")["events"] == 1
    assert run("prune", "--json")["events"] == 1


def test_preview_postback(run):
    endpoint = factories.endpoint(url="https://p.example.com/?c={data.click}&t={type}", request_form="postback")
    event = factories.event(data={"click": "a b"})
    for name in (event.uid, str(event.pk)):
        shown = run("preview_postback", str(endpoint.pk), name, "--json")
        assert shown["url"] == "https://p.example.com/?c=a%20b&t=order.paid"
    with pytest.raises(CommandError, match="click"):
        run("preview_postback", str(endpoint.pk), factories.event().uid)


def test_publish_keeps_the_text_of_numbers(run):
    run("publish", "order.paid", '{"sum": 1.50, "n": -0, "x": 0.1234567890123456789}', "--json")
    assert bytes(Event.objects.get().payload).endswith(b'"data":{"sum":1.50,"n":-0,"x":0.1234567890123456789}}')


def test_create_api_key(run):
    made = run("create_api_key", "ci", "--scopes", "tasks:read,events:write", "--subscriber", "acme", "--json")
    key = ApiKey.objects.get(key_id=made["key_id"])
    assert (key.scopes, key.subscriber) == (["events:write", "tasks:read"], "acme")
    assert made["token"].startswith("rt_") and made["token"].split("_")[2] not in key.secret_sha256
    with pytest.raises(CommandError, match="Unknown scope"):
        run("create_api_key", "x", "--scopes", "everything")


def test_rotate_master_key(run, settings):
    endpoint = factories.endpoint(headers={"x": "y"})
    old, new = settings.MASTER_KEYS[0], Fernet.generate_key().decode()
    settings.MASTER_KEYS = [new, old]
    counts = run("rotate_master_key", "--json")
    assert counts["delivery.Endpoint.url"] == counts["delivery.Endpoint.headers"] == 1
    settings.MASTER_KEYS = [new]
    assert Endpoint.objects.get().url == endpoint.url
    with connection.cursor() as cursor:
        cursor.execute("SELECT url FROM delivery_endpoint")
        assert Fernet(new).decrypt(cursor.fetchone()[0].encode()).decode() == endpoint.url


def test_rotation_names_what_no_key_opens_and_does_the_others(run, settings):
    lost, old, new = settings.MASTER_KEYS[0], Fernet.generate_key().decode(), Fernet.generate_key().decode()
    broken = factories.endpoint(headers={"x": "y"})
    settings.MASTER_KEYS = [old]
    good = factories.endpoint(url="https://good.example.com/")
    settings.MASTER_KEYS = [new, old]
    with pytest.raises(CommandError, match=f"delivery.Endpoint.url of {broken.pk}.*back at the end of MASTER_KEYS"):
        run("rotate_master_key")
    settings.MASTER_KEYS = [new]
    assert Endpoint.objects.get(pk=good.pk).url == "https://good.example.com/"
    settings.MASTER_KEYS = [lost]
    assert Endpoint.objects.get(pk=broken.pk).url == broken.url  # it waits for its key, unchanged


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("account", "--day", "yesterday"), "'yesterday' is no day; write 2026-11-29"),
        (("analyze_dead_letters", "--hours", "-1"), "a whole number from 1 to 100000 is needed"),
        (("analyze_dead_letters", "--hours", "99999999999"), "a whole number from 1"),
        (("create_api_key", "x" * 101, "--scopes", "tasks:read"), "a text of 1 to 100 characters is needed"),
        (("create_api_key", " ", "--scopes", "tasks:read"), "a text of 1 to 100 characters"),
        (("create_api_key", "x", "--scopes", "tasks:read", "--expires-days", "0"), "a whole number from 1 to 36500"),
    ],
)
def test_what_makes_no_sense_is_refused_in_words(run, arguments, words):
    with pytest.raises(CommandError, match=words):
        run(*arguments)
    assert not ApiKey.objects.exists()
