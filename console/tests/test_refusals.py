"""Who was refused, and from where, stands in the log; what they sent does not."""

import pytest
from django.test import Client
from structlog.testing import capture_logs

from kernel.auth import Scope, create_key

pytestmark = pytest.mark.django_db


def refused(client, path, **more):
    with capture_logs() as lines:
        status = client.get(path, REMOTE_ADDR="203.0.113.7", **more).status_code
    told = [line for line in lines if line["event"] == "request_refused"]
    assert [line["status"] for line in told] == [status]
    return told[0]


def test_a_stranger_is_told_by_address():
    line = refused(Client(), "/api/v1/tasks/?q=secret")
    assert (line["status"], line["code"], line["address"], line["caller"]) == (
        401,
        "not_authenticated",
        "203.0.113.7",
        "",
    )
    assert "secret" not in str(line)


def test_a_key_that_does_not_open_is_told_by_the_id_it_claims():
    line = refused(Client(headers={"authorization": "Bearer rt_abc123_secretsecret"}), "/api/v1/tasks/")
    assert (line["code"], line["claimed_key"]) == ("invalid_api_key", "abc123")
    assert "secretsecret" not in str(line)
    line = refused(Client(headers={"authorization": "Bearer rt_<b>x</b>_s"}), "/api/v1/tasks/")
    assert line["claimed_key"] == ""


def test_a_key_without_the_scope_is_told_by_its_id():
    key, token = create_key("reader", [Scope.TASKS_READ])
    line = refused(Client(headers={"authorization": f"Bearer {token}"}), "/api/v1/deliveries/")
    assert (line["status"], line["caller"]) == (403, f"key:{key.key_id}")


def test_a_user_without_the_right_is_told_by_name_on_page_and_api(staff):
    client = Client()
    client.force_login(staff)
    for path in ("/admin/kernel/apikey/", "/api/v1/tasks/"):
        line = refused(client, path)
        assert (line["status"], line["caller"]) == (403, f"user:{staff.pk}:staff")


def test_what_is_allowed_and_inbound_refusals_leave_no_line(operator):
    client = Client()
    client.force_login(operator)
    with capture_logs() as lines:
        client.get("/api/v1/tasks/")
        Client().post("/webhooks/map_search/", b"{}", content_type="application/json")
    assert not [line for line in lines if line["event"] == "request_refused"]
