"""A key is made by whoever may do all that it may do."""

import re
from pathlib import Path

import pytest
from django.conf import settings
from django.test import Client

from console.operations.verbs import VERBS
from console.tests.conftest import allow
from kernel.auth import Scope
from kernel.models import ApiKey

ROOT = Path(__file__).resolve().parents[2]
ADD = "/admin/kernel/apikey/add/"


def make(user, *scopes):
    client = Client()
    client.force_login(user)
    return client.post(ADD, {"name": "mine", "scopes": scopes, "subscriber": ""})


@pytest.mark.django_db
@pytest.mark.parametrize("scope", Scope.values)
def test_nobody_makes_a_key_that_may_more_than_they_may(staff, scope):
    user = allow(staff, "kernel.add_apikey", "kernel.view_apikey")
    answer = make(user, scope)
    assert "you may not do all of this yourself" in answer.content.decode()
    assert not ApiKey.objects.exists()
    make(allow(user, *settings.KEY_PERMISSIONS[scope]), scope)
    assert ApiKey.objects.get().scopes == [scope]


@pytest.mark.django_db
def test_one_scope_too_many_refuses_the_whole_key(staff):
    user = allow(staff, "kernel.add_apikey", "kernel.view_apikey", "delivery.add_event")
    assert "tasks:write: you may not" in make(user, "events:write", "tasks:write").content.decode()
    assert not ApiKey.objects.exists()


@pytest.mark.django_db
def test_a_superuser_makes_any_key(operator):
    make(operator, *Scope.values)
    assert ApiKey.objects.get().scopes == sorted(Scope.values)


@pytest.mark.django_db
def test_the_page_shows_each_scope_by_the_name_that_documents_and_refusals_use(operator):
    client = Client()
    client.force_login(operator)
    page = client.get(ADD).content.decode()
    assert [scope for scope in Scope.values if f"({scope})" not in page] == []


def test_every_permission_that_a_view_asks_of_a_user_belongs_to_a_scope():
    """A key is judged by its scope where a user is asked for more; so the scope must stand for all of it."""
    known = {permission for permissions in settings.KEY_PERMISSIONS.values() for permission in permissions}
    pattern = re.compile(r'(?:need|may_see_payloads)\((?:self\.)?request, "([a-z_.]+)"')
    files = [file for app in ("delivery", "tasks", "webhooks", "console") for file in (ROOT / app).rglob("*.py")]
    asked = {name for file in files if "tests" not in file.parts for name in pattern.findall(file.read_text())}
    assert asked
    assert asked - known == set()
    assert set(settings.KEY_PERMISSIONS) == set(Scope.values)
    assert {verb.permission for verb in VERBS.values()} <= set(settings.KEY_PERMISSIONS["operations:write"])
    for scope, permission in settings.SCOPE_PERMISSIONS.items():
        assert permission in settings.KEY_PERMISSIONS[scope]
