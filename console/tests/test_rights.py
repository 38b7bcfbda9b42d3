"""Accounts and groups: nobody gives a right that they do not have, or changes an account that may do more."""

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group, Permission
from django.test import Client
from django.urls import reverse

from console.tests.conftest import allow
from kernel.models import AuditEntry
from kernel.tests.pages import fields_of

pytestmark = pytest.mark.django_db
MANAGES = ("auth.view_user", "auth.add_user", "auth.change_user", "auth.view_group", "auth.change_group")


@pytest.fixture
def manager(staff):
    """Looks after accounts, and may see tasks; nothing else."""
    return allow(staff, *MANAGES, "tasks.view_task")


@pytest.fixture
def client(manager):
    client = Client()
    client.force_login(manager)
    return client


def page(model, row, name="change"):
    return reverse(f"admin:auth_{model}_{name}", args=[row.pk])


def right(name):
    app, codename = name.split(".")
    return Permission.objects.get(content_type__app_label=app, codename=codename)


def test_nobody_makes_themselves_a_superuser(client, manager):
    form = fields_of(client.get(page("user", manager)))
    client.post(page("user", manager), {**form, "is_superuser": "on"})
    assert not get_user_model().objects.get(pk=manager.pk).is_superuser


@pytest.mark.parametrize("name", ["delivery.redrive_delivery", "console.add_operation"])
def test_a_right_that_one_lacks_cannot_be_given(client, manager, name):
    other = get_user_model().objects.create(username="other")
    for user in (manager, other):
        form = fields_of(client.get(page("user", user)))
        answer = client.post(page("user", user), {**form, "user_permissions": [right(name).pk]})
        assert f"You cannot give what you may not do yourself: {name}." in answer.content.decode()
        assert not get_user_model().objects.get(pk=user.pk).has_perm(name)


def test_a_right_that_one_has_can_be_given(client):
    other = get_user_model().objects.create(username="other")
    form = fields_of(client.get(page("user", other)))
    answer = client.post(page("user", other), {**form, "user_permissions": [right("tasks.view_task").pk]})
    assert answer.status_code == 302
    assert get_user_model().objects.get(pk=other.pk).has_perm("tasks.view_task")
    assert AuditEntry.objects.get(subject="user").detail == {"fields": ["user_permissions"]}


def test_a_group_that_may_more_cannot_be_joined_or_filled(client, manager):
    group = Group.objects.create(name="night shift")
    group.permissions.add(right("delivery.redrive_delivery"))
    form = fields_of(client.get(page("user", manager)))
    answer = client.post(page("user", manager), {**form, "groups": [group.pk]})
    assert "delivery.redrive_delivery" in answer.content.decode()
    assert not manager.groups.exists()
    own = Group.objects.create(name="own")
    form = fields_of(client.get(page("group", own)))
    answer = client.post(page("group", own), {**form, "permissions": [right("delivery.redrive_delivery").pk]})
    assert "You cannot give" in answer.content.decode()
    assert not own.permissions.exists()


def test_an_account_that_may_more_is_not_theirs_to_change_or_to_log_in_as(client, operator):
    stronger = get_user_model().objects.create(username="stronger", is_staff=True)
    stronger.user_permissions.add(right("delivery.redrive_delivery"))
    for user in (operator, stronger):
        before = get_user_model().objects.get(pk=user.pk).password
        change = reverse("admin:auth_user_password_change", args=[user.pk])
        passwords = {"password1": "a-long-new-one-4711", "password2": "a-long-new-one-4711", "usable_password": "true"}
        assert client.post(change, passwords).status_code == 403
        assert client.post(page("user", user), {"username": "x"}).status_code == 403
        assert get_user_model().objects.get(pk=user.pk).password == before


def test_a_superuser_may_do_all_of_it(operator, manager):
    client = Client()
    client.force_login(operator)
    form = fields_of(client.get(page("user", manager)))
    assert client.post(page("user", manager), {**form, "is_superuser": "on"}).status_code == 302
    assert get_user_model().objects.get(pk=manager.pk).is_superuser
