"""What a kind may be told."""

import pytest

from kernel.models import AuditEntry
from tasks import accounting
from tasks.accounting import policies
from tasks.checks import kinds_have_their_accounts, own_accounts_stand_before_variables
from tasks.errors import InvalidSetting
from tasks.models import KindPolicy, ProviderAccount

BY = {"actor": "test"}


@pytest.fixture(autouse=True)
def account(db, settings):
    settings.SANDBOX_PROVIDER_URL = ""
    return accounting.create("ours", "sandbox", {"base_url": "https://jobs.example", "api_key": "k-1"}, **BY)


def test_only_what_is_given_is_written_and_the_second_time_nothing_changes():
    for _ in range(2):
        policies.change("scoring", {"provider": "ours", "rate_per_minute": 60}, **BY)
    row = KindPolicy.objects.get()
    assert (row.provider, row.rate_per_minute, row.concurrency, row.is_paused) == ("ours", 60, 500, False)
    entry = AuditEntry.objects.get(subject="kind")
    assert entry.detail == {"kind": "scoring", "fields": ["provider", "rate_per_minute"]}


@pytest.mark.parametrize(
    ("kind", "values", "rows"),
    [
        ("scoring", {"provider": "theirs"}, [("provider", "unknown_account")]),
        ("batch_report", {"provider": "ours"}, [("provider", "not_taken")]),
        ("scoring", {"options": {"model": "m"}}, [("options", "unknown_option")]),
        ("batch_report", {"options": {"model": "m"}}, [("options", "not_taken")]),
        ("scoring", {"concurrency": 0, "attempt_limit": 101},
         [("concurrency", "min_value"), ("attempt_limit", "max_value")]),
        ("scoring", {"batch_size": None}, [("batch_size", "null")]),
    ],
)  # fmt: skip
def test_what_cannot_work_is_refused_and_nothing_is_written(kind, values, rows):
    with pytest.raises(InvalidSetting) as refused:
        policies.change(kind, {"timeout_seconds": 60, **values}, **BY)
    assert [(row["field"], row["code"]) for row in refused.value.errors] == rows
    assert not KindPolicy.objects.filter(timeout_seconds=60).exists()


def test_a_kind_that_its_adapter_does_not_do_is_refused(monkeypatch):
    monkeypatch.setattr("tasks.providers.sandbox.SandboxProvider.kinds", frozenset({"map_search"}))
    with pytest.raises(InvalidSetting, match="does no Scoring"):
        policies.change("scoring", {"provider": "ours"}, **BY)


def test_a_policy_whose_account_is_not_there_is_told_by_the_checks():
    assert kinds_have_their_accounts(databases=["default"]) == []
    KindPolicy.objects.create(kind="scoring", provider="theirs")
    KindPolicy.objects.create(kind="map_search", provider="ours")
    ProviderAccount.objects.update(adapter="juggler")
    found = kinds_have_their_accounts(databases=["default"])
    assert [(one.id, "'juggler'" in one.msg, "theirs" in one.msg) for one in found] == [
        ("tasks.W002", True, False),
        ("tasks.W002", False, True),
    ]
    assert kinds_have_their_accounts() == []


def test_a_variable_that_comes_second_is_told_by_the_checks(settings):
    ProviderAccount.objects.update(name="sandbox")
    settings.SANDBOX_PROVIDER_URL = "http://127.0.0.1:9"
    (found,) = own_accounts_stand_before_variables(databases=["default"])
    assert found.id == "tasks.W003" and "sandbox" in found.msg
