"""The check of an account: the real sandbox is asked, and what it says is kept."""

import pytest

from tasks import accounting
from tasks.models import ProviderAccount

BY = {"actor": "test"}


@pytest.fixture
def account(db, sandbox, settings):
    url, settings.SANDBOX_PROVIDER_URL = sandbox.url, ""
    return accounting.create("ours", "sandbox", {"base_url": url, "api_key": settings.SANDBOX_PROVIDER_KEY}, **BY)


def kept():
    return ProviderAccount.objects.get().check_words


def test_a_good_key_is_told(account):
    assert accounting.check("ours", **BY).found == "well"
    assert kept() == "It answers, and takes our credentials."


def test_a_wrong_key_and_a_closed_port_are_told_with_what_to_do(account):
    accounting.rotate_key("ours", "wrong", **BY)
    assert accounting.check("ours", **BY).found == "wrong" and "Correct its key" in kept()
    accounting.update("ours", {"base_url": "http://127.0.0.1:9", "api_key": "k"}, **BY)
    assert accounting.check("ours", **BY).found == "wrong" and "is its address right" in kept()


def test_an_adapter_that_is_gone_is_told(account):
    ProviderAccount.objects.update(adapter="juggler")
    assert "is gone" in accounting.check("ours", **BY).words


def test_an_answer_to_an_earlier_key_is_not_kept(account, monkeypatch):
    def change_meanwhile(_provider):
        accounting.rotate_key("ours", "another", **BY)
        return accounting.asking.Answer(accounting.asking.Found.WELL, "Well.")

    monkeypatch.setattr(accounting.asking, "ask", change_meanwhile)
    accounting.check("ours", **BY)
    assert kept() == ""
