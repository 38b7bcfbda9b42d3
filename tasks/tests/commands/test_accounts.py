"""`manage.py accounts` and `manage.py kinds`: secrets come by a line or a variable, and never out."""

import io
import json

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from tasks import accounts, kinds
from tasks.models import KindPolicy, ProviderAccount


@pytest.fixture(autouse=True)
def nothing_of_the_environment(db, settings):
    settings.SANDBOX_PROVIDER_URL = ""


@pytest.fixture
def run(monkeypatch, capsys):
    def ran(*words, typed=""):
        monkeypatch.setattr("sys.stdin", io.StringIO(typed))
        call_command(*words)
        return capsys.readouterr().out

    return ran


def add(run, *words, typed="k-secret-1\n"):
    begins = ("accounts", "add", "ours", "--adapter", "sandbox", "--base-url", "https://jobs.example")
    return run(*begins, *words, typed=typed)


def test_an_account_is_made_with_a_key_from_standard_input(run):
    said = add(run, "--concurrency", "5")
    row = ProviderAccount.objects.get()
    assert (row.api_key, row.concurrency, row.webhook_secret) == ("k-secret-1", 5, "")
    assert "accounts check ours" in said and "--webhook-secret" in said and "k-secret-1" not in said


def test_key_and_secret_come_from_two_lines_or_two_variables(run, settings):
    add(run, "--webhook-secret", typed="k-secret-1\ns-secret-1\n")
    assert accounts.get("ours").secrets() == ["s-secret-1"]
    settings.READ_PROVIDER_VARIABLE = {"A": "k-secret-2", "B": "s-secret-2"}.get
    run("accounts", "rotate", "ours", "--webhook-secret", "--webhook-secret-from", "B")
    run("accounts", "rotate", "ours", "--api-key", "--api-key-from", "A")
    assert accounts.get("ours").secrets() == ["s-secret-2", "s-secret-1"]
    assert accounts.get("ours").account.api_key == "k-secret-2"
    assert "Only the standing secret" in run("accounts", "rotate", "ours", "--end-previous")
    with pytest.raises(CommandError, match="NOWHERE is not set"):
        run("accounts", "rotate", "ours", "--api-key", "--api-key-from", "NOWHERE")


def test_what_is_refused_is_told_by_field_and_nothing_is_stored(run):
    with pytest.raises(CommandError, match="options: Sandbox has no option model; it takes none") as refused:
        add(run, "--option", "model=m")
    assert refused.value.returncode == 2 and not ProviderAccount.objects.exists()


def test_the_list_says_what_holds_each(run):
    assert "None yet" in run("accounts", "list")
    add(run)
    run("accounts", "pause", "ours", "--reason", "window")
    assert "is paused" in run("accounts", "list")
    (row,) = json.loads(run("accounts", "list", "--json"))
    assert (row["name"], row["state"]) == ("ours", "paused") and "secret" not in json.dumps(row)
    assert "Resumed" in run("accounts", "resume", "ours") and "Nothing held it" in run("accounts", "resume", "ours")
    assert "Retired" in run("accounts", "retire", "ours")


def test_a_check_that_finds_something_wrong_ends_with_one(run):
    add(run)
    ProviderAccount.objects.update(base_url="http://127.0.0.1:9")
    with pytest.raises(CommandError) as failed:
        run("accounts", "check")
    assert failed.value.returncode == 1


def test_kinds_are_listed_set_paused_and_resumed(run):
    add(run)
    assert "scoring  ours" in run("kinds", "list")
    wanted = ("--account", "ours", "--rate-per-minute", "60", "--starts-again-unasked", "yes")
    said = run("kinds", "set", "scoring", *wanted)
    assert said.strip() == "scoring: account, rate_per_minute, starts_again_unasked set."
    row = KindPolicy.objects.get(kind="scoring")
    assert (row.provider, row.rate_per_minute, row.starts_again_unasked) == ("ours", 60, True)
    run("kinds", "set", "scoring", "--rate-per-minute", "none")
    assert "Paused" in run("kinds", "pause", "scoring") and "already" in run("kinds", "pause", "scoring")
    shown = {one["kind"]: one for one in json.loads(run("kinds", "list", "--json"))}
    assert shown["scoring"]["rate_per_minute"] is None and "is paused" in shown["scoring"]["words"]
    assert list(shown) == list(kinds.KINDS)
    assert "Resumed" in run("kinds", "resume", "scoring")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["juggling", "--account", "x"], "There is no kind 'juggling'"),
        (["scoring", "--account", "theirs"], "account: There is no such account"),
        (["scoring", "--concurrency", "many"], "concurrency: "),
        (["scoring"], "Say what to set"),
    ],
)
def test_a_kind_is_set_to_nothing_that_cannot_work(run, words, said):
    with pytest.raises(CommandError, match=said):
        run("kinds", "set", *words)
