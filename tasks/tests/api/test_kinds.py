"""`/kinds/{kind}/pause/` and `/resume/`: who may, what they answer, and the second time."""

import pytest
from django.contrib.auth.models import Permission, User
from rest_framework.test import APIClient

from kernel.models import AuditEntry
from tasks.models import KindPolicy


def paused(answer):
    return answer.json()["policy"]["is_paused"]


def test_a_kind_is_paused_and_resumed_and_the_second_time_changes_nothing(client):
    for verb, is_paused in (("pause", True), ("pause", True), ("resume", False), ("resume", False)):
        answer = client.post(f"/api/v1/kinds/map-search/{verb}/", {"reason": "window"}, format="json")
        assert (answer.status_code, paused(answer)) == (200, is_paused)
    rows = AuditEntry.objects.order_by("id").values_list("verb", "subject", "reason")
    assert list(rows) == [("pause", "kind", "window"), ("resume", "kind", "window")]
    assert AuditEntry.objects.first().actor.startswith("key:")


def test_the_body_may_be_left_out(client):
    assert paused(client.post("/api/v1/kinds/scoring/pause"))


def test_a_key_without_the_scope_or_bound_to_a_subscriber_is_refused(client_with):
    path = "/api/v1/kinds/scoring/pause/"
    assert client_with("tasks:read").post(path).status_code == 403
    refused = client_with("tasks:read", "tasks:write", subscriber="acme").post(path)
    assert refused.status_code == 403 and "bound to a subscriber" in refused.json()["detail"]
    assert not KindPolicy.objects.filter(is_paused=True).exists()


@pytest.mark.parametrize(("rights", "status"), [(["add_task"], 403), (["add_task", "pause_kind"], 200)])
def test_a_person_needs_the_right_to_pause_kinds(db, rights, status):
    user = User.objects.create_user("ada", is_staff=True)
    user.user_permissions.set(Permission.objects.filter(content_type__app_label="tasks", codename__in=rights))
    client = APIClient()
    client.force_login(user)
    assert client.post("/api/v1/kinds/scoring/pause/").status_code == status


def test_an_unknown_kind_is_a_404_in_words(client):
    answer = client.post("/api/v1/kinds/juggling/pause/")
    assert answer.status_code == 404 and "juggling" in answer.json()["detail"]
