"""A console user at the API: the scope's permission opens the view, each verb asks for its own as the admin does."""

import pytest
from django.contrib.auth.models import Permission, User
from rest_framework.test import APIClient

from tasks.models import Task
from tasks.tests.api.test_verbs import SEARCH, buried, submit

NEW = {"kind": "map_search", "input": SEARCH}
VERBS = [("cancel", "cancel_task"), ("redrive", "redrive_task"), ("discard", "cancel_task")]


def visitor(*permissions: str, name: str = "ann") -> APIClient:
    user = User.objects.create(username=name, is_staff=True)
    user.user_permissions.set(Permission.objects.filter(codename__in=("view_task", "add_task", *permissions)))
    client = APIClient()
    client.force_login(user)
    return client


@pytest.mark.django_db
@pytest.mark.parametrize(("verb", "permission"), VERBS)
def test_who_may_submit_may_not_therefore_cancel_redrive_or_discard(verb, permission):
    task = submit("map_search", SEARCH, caller="t")
    if verb != "cancel":
        buried(task)
    path = f"/api/v1/tasks/{task.pk}/{verb}/"
    before = Task.objects.get(pk=task.pk).state
    assert visitor().post(path, {}, format="json").status_code == 403
    assert Task.objects.get(pk=task.pk).state == before
    assert visitor(permission, name="ben").post(path, {}, format="json").status_code == 202


@pytest.mark.django_db
def test_nor_cancel_a_batch():
    client = visitor()
    batch = client.post("/api/v1/batches/", {"kind": "map_search", "tasks": [{"input": SEARCH}]}, format="json").json()
    path = f"/api/v1/batches/{batch['id']}/cancel/"
    assert client.post(path, {}, format="json").status_code == 403
    assert visitor("cancel_batch", name="ben").post(path, {}, format="json").json()["cancelled"] == 1


@pytest.mark.django_db
def test_the_longest_user_name_can_submit_and_repeat_it():
    client = visitor("cancel_task", name="u" * 150)
    answers = [client.post("/api/v1/tasks/", NEW, format="json", headers={"Idempotency-Key": "k"}) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [202, 202]
    assert answers[0].json()["id"] == answers[1].json()["id"]
    assert len(Task.objects.get().caller) == 80
    assert client.post(f"/api/v1/tasks/{answers[0].json()['id']}/cancel/", {}, format="json").status_code == 202
