"""Keys and secrets replaced: what is accepted meanwhile, and until when."""

from datetime import timedelta

import pytest

from kernel import clock
from kernel.models import AuditEntry
from tasks import accounting, accounts
from tasks.errors import AccountRefused, InvalidSetting
from tasks.models import ProviderAccount

BY = {"actor": "test"}


@pytest.fixture(autouse=True)
def account(db, settings):
    settings.SANDBOX_PROVIDER_URL = ""
    values = {"base_url": "https://jobs.example", "api_key": "k-1", "webhook_secret": "s-1"}
    return accounting.create("ours", "sandbox", values, **BY)


def accepted():
    return accounts.get("ours").secrets()


def test_both_secrets_are_accepted_for_the_overlap_and_then_the_new_one_alone():
    accounting.rotate_secret("ours", "s-2", overlap=timedelta(days=7), **BY)
    assert accepted() == ["s-2", "s-1"]
    ProviderAccount.objects.update(previous_secret_until=clock.now() - timedelta(seconds=1))
    assert accepted() == ["s-2"]


def test_a_leaked_secret_ends_at_once():
    accounting.rotate_secret("ours", "s-2", overlap=timedelta(0), **BY)
    assert accepted() == ["s-2"]
    assert ProviderAccount.objects.get().previous_secret == ""


def test_the_time_that_was_promised_to_a_secret_is_kept_until_it_is_ended():
    accounting.rotate_secret("ours", "s-2", **BY)
    with pytest.raises(AccountRefused) as refused:
        accounting.rotate_secret("ours", "s-3", **BY)
    assert refused.value.code == "previous_secret_lives" and accepted() == ["s-2", "s-1"]
    assert [accounting.end_previous_secret("ours", **BY) for _ in range(2)] == [True, False]
    accounting.rotate_secret("ours", "s-3", **BY)
    assert accepted() == ["s-3", "s-2"]


@pytest.mark.parametrize(
    ("secret", "overlap", "row"),
    [
        ("s-2", timedelta(days=7, seconds=1), ("overlap_seconds", "out_of_range")),
        ("s-2", timedelta(seconds=-1), ("overlap_seconds", "out_of_range")),
        (" ", timedelta(0), ("webhook_secret", "required")),
        ("s-1", timedelta(0), ("webhook_secret", "not_new")),
    ],
)
def test_what_is_no_rotation_is_refused(secret, overlap, row):
    with pytest.raises(InvalidSetting) as refused:
        accounting.rotate_secret("ours", secret, overlap=overlap, **BY)
    assert [(one["field"], one["code"]) for one in refused.value.errors] == [row] and accepted() == ["s-1"]


def test_a_new_key_is_used_by_the_next_call_and_ends_a_hold():
    until = clock.now() + timedelta(minutes=5)
    ProviderAccount.objects.update(held_since=clock.now(), held_until=until, hold_reason="provider_denied")
    accounting.rotate_key("ours", "k-2", **BY)
    row = ProviderAccount.objects.get()
    assert (accounts.get("ours").account.api_key, row.held_until, row.hold_reason) == ("k-2", None, "")


def test_a_secret_that_no_master_key_opens_is_replaced_and_not_kept(settings):
    settings.MASTER_KEYS = ["b3RoZXItb25seS1tYXN0ZXIta2V5LTAwMDAwMDAwMDA="]
    accounting.rotate_key("ours", "k-2", **BY)
    accounting.rotate_secret("ours", "s-2", **BY)
    assert accepted() == ["s-2"] and accounts.get("ours").account.api_key == "k-2"


def test_no_key_or_secret_is_on_record():
    accounting.rotate_key("ours", "k-2", **BY)
    accounting.rotate_secret("ours", "s-2", **BY)
    told = str(list(AuditEntry.objects.values("verb", "detail", "reason")))
    assert "rotate_secret" in told and not any(word in told for word in ("k-1", "k-2", "s-1", "s-2"))
