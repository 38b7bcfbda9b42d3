"""Where a kind's new work goes, chosen in the admin: only an account that is there and can do it."""

import pytest

from tasks import kinds
from tasks.models import KindPolicy, ProviderAccount
from tasks.tests.admin.test_pages import VIEW, page, visitor

pytestmark = pytest.mark.django_db
FORM = {
    "concurrency": 7,
    "rate_per_minute": "",
    "attempt_limit": 3,
    "timeout_seconds": 60,
    "batch_size": 50,
    "starts_again_unasked": "on",
}


@pytest.fixture(autouse=True)
def an_account(settings) -> None:
    settings.SANDBOX_PROVIDER_URL, settings.CELERY_BROKER_URL = "http://127.0.0.1:9", ""
    ProviderAccount.objects.create(name="mine", adapter="sandbox")


def saved(kind: str, account: str) -> tuple[str, KindPolicy]:
    policy = kinds.policy_for(kind)
    address = page("tasks_kindpolicy_change", policy.pk)
    answer = visitor(*VIEW, "change_kindpolicy").post(address, {**FORM, "provider": account})
    return answer.content.decode(), KindPolicy.objects.get(pk=policy.pk)


def test_an_account_that_can_do_it_is_taken():
    _, policy = saved("map_search", "mine")
    assert (policy.provider, policy.starts_again_unasked, policy.concurrency) == ("mine", True, 7)


@pytest.mark.parametrize(
    ("account", "words"),
    [(name, "Select a valid choice") for name in ("nowhere", "mine", "mine\x00")],
)
def test_any_other_is_refused_and_nothing_is_saved(account, words, monkeypatch):
    from tasks.providers.sandbox import SandboxProvider

    monkeypatch.setattr(SandboxProvider, "kinds", frozenset({"scoring"}))
    shown, policy = saved("map_search", account)
    assert words in shown and (policy.provider, policy.concurrency) == ("", 500)


def test_an_internal_kind_has_none():
    shown, policy = saved("batch_report", "mine")
    assert "our own workers" in shown and policy.provider == ""
