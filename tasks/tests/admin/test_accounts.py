"""Accounts in the admin: a form for each adapter, verbs with their own rights, and no secret on any page."""

import pytest
from django.urls import reverse

from kernel.secrets import key_id
from tasks import accounting, accounts
from tasks.models import KindPolicy, ProviderAccount
from tasks.tests.admin.test_pages import page, visitor

ALL = ("view_provideraccount", "add_provideraccount", "change_provideraccount", "delete_provideraccount")
ALL += ("pause_provideraccount", "view_kindpolicy", "change_kindpolicy")
SECRETS = {"api_key": "k-secret-1", "webhook_secret": "s-secret-1"}
FIELDS = {"name": "ours", "base_url": "https://jobs.example", **{f"new_{name}": SECRETS[name] for name in SECRETS}}


@pytest.fixture(autouse=True)
def nothing_of_the_environment(db, settings):
    settings.SANDBOX_PROVIDER_URL = ""


@pytest.fixture
def account():
    return accounting.create("ours", "sandbox", {"base_url": "https://jobs.example", **SECRETS}, actor="t")


def verb(client, name, account, **form):
    address = reverse(f"admin:tasks_provideraccount_{name}_verb", args=[account.pk])
    assert client.get(address).status_code in (200, 302)
    return client.post(address, {"reason": "why", **form}, follow=True)


def test_one_is_made_in_two_steps_first_at_which_provider(django_user_model):
    client = visitor(*ALL)
    address = page("tasks_provideraccount_add")
    assert f"{address}?adapter=sandbox" in client.get(address).content.decode()
    form = client.get(f"{address}?adapter=sandbox")
    assert form.status_code == 200 and 'value="sandbox"' in form.content.decode()
    again = client.post(f"{address}?adapter=sandbox", {**FIELDS, "name": "scoring"})
    assert "A kind of task is called so" in again.content.decode() and "k-secret-1" not in again.content.decode()
    assert client.post(f"{address}?adapter=sandbox", {**FIELDS, "concurrency": "5"}).status_code == 302
    row = ProviderAccount.objects.get()
    assert (row.api_key, row.concurrency, row.is_from_environment) == ("k-secret-1", 5, False)


def test_the_pages_show_ids_and_no_secret(account):
    client = visitor(*ALL)
    KindPolicy.objects.create(kind="scoring", provider="ours")
    for address in (page("tasks_provideraccount_changelist"), page("tasks_provideraccount_change", account.pk)):
        shown = client.get(address).content.decode()
        assert "Scoring" in shown and "secret-1" not in shown
    assert key_id("k-secret-1") in shown and key_id("s-secret-1") in shown


def test_a_limit_is_changed_and_another_address_needs_the_key_again(account):
    client, address = visitor(*ALL), page("tasks_provideraccount_change", account.pk)
    form = {"base_url": "https://jobs.example", "new_api_key": "", "concurrency": "7"}
    assert client.post(address, form).status_code == 302
    refused = client.post(address, {**form, "base_url": "https://evil.example"})
    assert "old address" in refused.content.decode()
    row = ProviderAccount.objects.get()
    assert (row.concurrency, row.base_url, row.api_key) == (7, "https://jobs.example", "k-secret-1")


def test_every_verb_of_the_page(account):
    client = visitor(*ALL)
    assert "Paused" in verb(client, "pause", account).content.decode()
    assert "Resumed" in verb(client, "resume", account).content.decode()
    verb(client, "rotate_key", account, api_key="k-secret-2")
    verb(client, "rotate_secret", account, secret="s-secret-2", overlap="24")
    assert accounts.get("ours").secrets() == ["s-secret-2", "s-secret-1"]
    verb(client, "end_secret", account)
    assert accounts.get("ours").secrets() == ["s-secret-2"]
    ProviderAccount.objects.update(base_url="http://127.0.0.1:9")
    assert "No usable answer" in verb(client, "check", account).content.decode()
    assert "Retired" in verb(client, "retire", account).content.decode()
    assert ProviderAccount.objects.get().retired_at is not None
    assert client.get(page("tasks_provideraccount_change", account.pk)).status_code == 200


@pytest.mark.parametrize("name", ["pause", "rotate_key", "rotate_secret", "end_secret", "check", "retire"])
def test_who_may_only_look_may_do_nothing(account, name):
    address = reverse(f"admin:tasks_provideraccount_{name}_verb", args=[account.pk])
    assert visitor("view_provideraccount").post(address, {"reason": "why"}).status_code == 403
    assert visitor("view_provideraccount").get(page("tasks_provideraccount_add")).status_code == 403


def test_of_the_environment_the_variables_are_named_and_its_fields_are_not_in_the_form(settings):
    settings.SANDBOX_PROVIDER_URL = "http://127.0.0.1:9"
    settings.SANDBOX_PROVIDER_KEY = "k-secret-1"
    client = visitor(*ALL)
    assert "the environment" in client.get(page("tasks_provideraccount_changelist")).content.decode()
    row = ProviderAccount.objects.get()
    shown = client.get(page("tasks_provideraccount_change", row.pk)).content.decode()
    assert "set by SANDBOX_PROVIDER_KEY" in shown and 'name="base_url"' not in shown and 'name="concurrency"' in shown
    assert "SANDBOX_PROVIDER_KEY sets it" in verb(client, "rotate_key", row, api_key="k").content.decode()


def test_options_of_an_adapter_are_fields_of_its_form(account, monkeypatch):
    monkeypatch.setattr("tasks.providers.sandbox.SandboxProvider.option_words", {"model": "Which one.", "extra": "E."})
    client, address = visitor(*ALL), page("tasks_provideraccount_change", account.pk)
    assert "Which one." in client.get(address).content.decode()
    form = {"base_url": "https://jobs.example", "option_model": "m-1", "option_extra": '{"a": [1]}'}
    assert client.post(address, form).status_code == 302
    assert ProviderAccount.objects.get().options == {"model": "m-1", "extra": {"a": [1]}}
    assert "This is no JSON" in client.post(address, {**form, "option_extra": "{"}).content.decode()


def test_a_kinds_account_is_chosen_among_those_that_fit(account):
    client = visitor(*ALL)
    policy = KindPolicy.objects.create(kind="scoring")
    address = page("tasks_kindpolicy_change", policy.pk)
    fields = ("concurrency", "attempt_limit", "timeout_seconds", "batch_size", "options")
    form = {name: getattr(policy, name) for name in fields} | {"options": "{}"}
    assert client.post(address, {**form, "provider": "ours"}).status_code == 302
    policy.refresh_from_db()
    assert policy.provider == "ours"
    refused = client.post(address, {**form, "provider": "ours", "options": '{"model": "m"}'})
    assert "has no option model" in refused.content.decode()
