"""Accounts made, changed, paused and retired: what is judged, what is written, what is on record."""

import pytest

from kernel.models import AuditEntry
from tasks import accounting, accounts
from tasks.errors import AccountRefused, InvalidSetting, NotFound
from tasks.models import KindPolicy, ProviderAccount
from tasks.states import State

BY = {"actor": "test"}


@pytest.fixture(autouse=True)
def fresh(db, settings):
    settings.SANDBOX_PROVIDER_URL = ""


def made(name="ours", **values):
    return accounting.create(name, "sandbox", {"base_url": "https://jobs.example", "api_key": "k-1", **values}, **BY)


def wrong(call):
    with pytest.raises(InvalidSetting) as refused:
        call()
    return [(row["field"], row["code"]) for row in refused.value.errors]


def test_an_account_is_made_and_can_be_used_at_once():
    row = made(concurrency=5)
    assert accounts.get("ours").base_url == "https://jobs.example"
    assert (row.concurrency, row.api_key, row.is_from_environment) == (5, "k-1", False)
    entry = AuditEntry.objects.get()
    assert (entry.verb, entry.detail) == ("create", {"name": "ours", "fields": ["api_key", "base_url", "concurrency"]})


@pytest.mark.parametrize(
    ("name", "values", "rows"),
    [
        ("Ours", {}, [("name", "bad_name")]),
        ("scoring", {}, [("name", "name_of_a_kind")]),
        ("ours", {"base_url": "ftp://x"}, [("base_url", "scheme")]),
        ("ours", {"base_url": ""}, [("base_url", "required")]),
        ("ours", {"base_url": "https://a:b@x"}, [("base_url", "userinfo")]),
        ("ours", {"api_key": ""}, [("api_key", "required")]),
        ("ours", {"api_key": "k\ney"}, [("api_key", "bad_character")]),
        ("ours", {"webhook_secret": "s" * 2001}, [("webhook_secret", "too_long")]),
        ("ours", {"options": {"model": "m"}}, [("options", "unknown_option")]),
        ("ours", {"concurrency": 0, "calls_per_minute": True},
         [("concurrency", "out_of_range"), ("calls_per_minute", "out_of_range")]),
    ],
)  # fmt: skip
def test_what_cannot_work_is_refused_by_field_and_nothing_is_stored(name, values, rows):
    assert wrong(lambda: made(name, **values)) == rows
    assert not ProviderAccount.objects.exists() and not AuditEntry.objects.exists()


def test_an_unknown_adapter_and_a_taken_name_are_refused():
    assert wrong(lambda: accounting.create("x", "juggler", {}, **BY)) == [("adapter", "unknown_adapter")]
    made()
    assert wrong(made) == [("name", "taken")]


def test_a_change_is_noticed_by_whoever_holds_the_adapter_and_writes_only_what_is_given():
    made(concurrency=5)
    before = accounts.get("ours")
    accounting.update("ours", {"starts_per_minute": 60}, **BY)
    assert accounts.get("ours") is not before
    row = ProviderAccount.objects.get()
    assert (row.concurrency, row.starts_per_minute, row.api_key) == (5, 60, "k-1")
    accounting.update("ours", {"starts_per_minute": 60}, **BY)
    assert AuditEntry.objects.filter(verb="update").count() == 1


def test_another_address_needs_the_key_again():
    made()
    found = wrong(lambda: accounting.update("ours", {"base_url": "https://evil.example"}, **BY))
    assert found == [("api_key", "required")]
    accounting.update("ours", {"base_url": "https://new.example", "api_key": "k-1"}, **BY)
    assert ProviderAccount.objects.get().base_url == "https://new.example"


def test_an_account_is_retired_once_no_kind_is_set_to_it_and_its_jobs_still_find_it(make_task):
    made()
    policy = KindPolicy.objects.create(kind="scoring", provider="ours")
    with pytest.raises(AccountRefused, match="scoring"):
        accounting.retire("ours", **BY)
    policy.delete()
    assert [accounting.retire("ours", **BY), accounting.retire("ours", **BY)] == [True, False]
    assert accounts.available() == {} and accounts.get("ours") is not None
    with pytest.raises(AccountRefused, match="retired"):
        accounting.resume("ours", **BY)
    assert AuditEntry.objects.filter(verb="retire").count() == 1
    assert make_task(State.QUEUED).state == State.QUEUED


def test_an_account_that_is_not_there_is_told_with_those_that_are():
    made()
    with pytest.raises(NotFound, match="there are ours"):
        accounting.find("theirs")


class TestOfTheEnvironment:
    @pytest.fixture(autouse=True)
    def variables(self, settings):
        settings.SANDBOX_PROVIDER_URL = "http://127.0.0.1:9"
        settings.SANDBOX_PROVIDER_KEY = "k-env"
        settings.SANDBOX_WEBHOOK_SECRET = "whsec_dGVzdHMtb25seS10ZXN0cy1vbmx5LXRlc3RzLW9ubHk="

    def test_its_fields_are_changed_where_they_are_set_and_its_limits_here(self):
        found = wrong(lambda: accounting.update("sandbox", {"base_url": "https://x"}, **BY))
        assert found == [("base_url", "of_environment")]
        with pytest.raises(AccountRefused, match="SANDBOX_PROVIDER_KEY"):
            accounting.rotate_key("sandbox", "k-2", **BY)
        with pytest.raises(AccountRefused, match="SANDBOX_PROVIDER_URL"):
            accounting.retire("sandbox", **BY)
        accounting.update("sandbox", {"concurrency": 3}, **BY)
        assert ProviderAccount.objects.get().concurrency == 3 and accounts.get("sandbox").account.api_key == "k-env"

    def test_once_its_variables_are_gone_it_cannot_be_used_until_it_has_a_key_of_its_own(self, settings):
        assert accounts.get("sandbox") is not None
        settings.SANDBOX_PROVIDER_URL = ""
        assert accounts.get("sandbox") is None
        accounting.rotate_key("sandbox", "k-2", **BY)
        assert accounts.get("sandbox").account.api_key == "k-2"
        settings.SANDBOX_PROVIDER_URL = "http://127.0.0.1:10"
        assert accounts.get("sandbox").base_url == "http://127.0.0.1:9", "a person's account stays as it is"
