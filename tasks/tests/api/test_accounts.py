"""`/provider-accounts/`: what comes in, what goes out, who may."""

import pytest
from django.contrib.auth.models import Permission, User
from rest_framework.test import APIClient

from kernel.models import AuditEntry
from kernel.secrets import key_id
from tasks.models import KindPolicy, ProviderAccount

ROOT = "/api/v1/provider-accounts/"
NEW = {
    "name": "ours",
    "adapter": "sandbox",
    "base_url": "https://jobs.example",
    "api_key": "k-secret-1",
    "webhook_secret": "s-secret-1",
    "concurrency": 5,
    "reason": "ticket 7",
}


@pytest.fixture(autouse=True)
def nothing_of_the_environment(settings):
    settings.SANDBOX_PROVIDER_URL = ""
    settings.PUBLIC_BASE_URL = "https://us.example"


@pytest.fixture
def operator(client_with):
    return client_with("accounts:write")


@pytest.fixture
def made(operator):
    answer = operator.post(ROOT, NEW, format="json")
    assert answer.status_code == 201, answer.content
    return answer.json()


def post(client, path, **body):
    return client.post(f"{ROOT}{path}/", body, format="json")


def test_an_account_is_shown_with_its_limits_and_without_its_secrets(operator, made):
    assert (made["name"], made["state"], made["concurrency"], made["title"]) == ("ours", "active", 5, "Sandbox")
    assert made["api_key"] == {"is_set": True, "id": key_id("k-secret-1"), "variable": ""}
    assert made["callback_url"] == "https://us.example/webhooks/ours/"
    assert operator.get(f"{ROOT}ours/").json() == made
    listed = operator.get(ROOT)
    assert listed.json()["results"] == [made]
    assert b"secret-1" not in listed.content
    assert AuditEntry.objects.get().reason == "ticket 7"


def test_the_list_takes_as_many_queries_for_ten_as_for_one(operator, made, django_assert_num_queries):
    ProviderAccount.objects.bulk_create(ProviderAccount(name=f"a{n}", adapter="sandbox") for n in range(9))
    with django_assert_num_queries(3):
        assert len(operator.get(ROOT).json()["results"]) == 10


def test_fields_that_are_wrong_are_named_and_unknown_ones_refused(operator, made):
    answer = operator.post(ROOT, {**NEW, "name": "x", "base_url": "no url", "options": {"model": "m"}}, format="json")
    assert answer.status_code == 400
    assert {row["field"] for row in answer.json()["errors"]} == {"base_url", "options"}
    assert operator.patch(f"{ROOT}ours/", {"secret": "s"}, format="json").json()["errors"][0]["code"] == "unknown_field"
    assert ProviderAccount.objects.count() == 1


def test_a_change_writes_what_is_given(operator, made):
    answer = operator.patch(f"{ROOT}ours/", {"starts_per_minute": 60, "concurrency": None}, format="json")
    assert (answer.json()["starts_per_minute"], answer.json()["concurrency"]) == (60, None)


def test_secret_and_key_are_rotated(operator, made):
    rotated = post(operator, "ours/rotate-secret", secret="s-secret-2", overlap_seconds=3600)
    assert rotated.json()["webhook_secret"]["id"] == key_id("s-secret-2")
    assert rotated.json()["previous_secret"]["id"] == key_id("s-secret-1")
    again = post(operator, "ours/rotate-secret", secret="s-secret-3")
    assert (again.status_code, again.json()["code"]) == (409, "previous_secret_lives")
    assert post(operator, "ours/end-previous-secret").json()["previous_secret"] is None
    assert post(operator, "ours/rotate-secret", secret="s-secret-3", overlap_seconds=604_801).status_code == 400
    assert post(operator, "ours/rotate-key", api_key="k-secret-2").json()["api_key"]["id"] == key_id("k-secret-2")


def test_it_is_paused_resumed_checked_and_retired(operator, made):
    assert post(operator, "ours/pause").json()["state"] == "paused"
    assert post(operator, "ours/resume").json()["state"] == "active"
    ProviderAccount.objects.update(base_url="http://127.0.0.1:9")
    checked = post(operator, "ours/check").json()
    assert checked["found"] == "wrong" and checked["account"]["check_words"] == checked["words"]
    policy = KindPolicy.objects.create(kind="scoring", provider="ours")
    refused = post(operator, "ours/retire")
    assert (refused.status_code, refused.json()["code"]) == (409, "account_in_use")
    policy.delete()
    assert post(operator, "ours/retire").json()["state"] == "retired"
    assert post(operator, "ours/resume").json()["code"] == "account_retired"


def test_what_is_not_there_is_a_404_in_words(operator):
    answer = operator.get(f"{ROOT}theirs/")
    assert answer.status_code == 404 and "there are none yet" in answer.json()["detail"]


def test_only_a_key_with_the_scope_that_is_bound_to_nobody_may(client_with, made):
    for client in (client_with("tasks:read", "tasks:write"), client_with("accounts:write", subscriber="acme")):
        assert client.get(ROOT).status_code == 403
        assert post(client, "ours/pause").status_code == 403
        assert client.patch("/api/v1/kinds/scoring/", {"account": "ours"}, format="json").status_code == 403
    assert not ProviderAccount.objects.filter(is_paused=True).exists()


@pytest.mark.parametrize(("rights", "status"), [([], 403), (["pause_provideraccount"], 200)])
def test_a_person_needs_each_verbs_own_right(made, rights, status):
    user = User.objects.create_user("ada", is_staff=True)
    names = ["change_provideraccount", *rights]
    user.user_permissions.set(Permission.objects.filter(codename__in=names))
    client = APIClient()
    client.force_login(user)
    assert post(client, "ours/pause").status_code == status
    assert post(client, "ours/retire").status_code == 403


class TestKinds:
    def change(self, client, kind="scoring", **body):
        return client.patch(f"/api/v1/kinds/{kind}/", body, format="json")

    def test_a_kind_is_told_where_to_go_and_how_much(self, operator, made):
        answer = self.change(operator, account="ours", rate_per_minute=60, starts_again_unasked=True, reason="why")
        policy = answer.json()["policy"]
        assert (policy["account"], policy["rate_per_minute"], policy["starts_again_unasked"]) == ("ours", 60, True)
        assert policy["concurrency"] == 500
        assert AuditEntry.objects.get(subject="kind").reason == "why"

    @pytest.mark.parametrize(
        ("body", "field"),
        [
            ({"account": "theirs"}, "account"),
            ({"options": {"model": "m"}}, "options"),
            ({"concurrency": 0}, "concurrency"),
            ({"colour": "red"}, "colour"),
            ({"is_paused": True}, "is_paused"),
        ],
    )
    def test_what_cannot_work_is_refused_by_field(self, operator, made, body, field):
        answer = self.change(operator, **body)
        assert answer.status_code == 400
        assert [row["field"] for row in answer.json()["errors"]] == [field]

    def test_a_kind_that_never_was_is_a_404(self, operator):
        assert self.change(operator, kind="juggling", concurrency=1).status_code == 404
