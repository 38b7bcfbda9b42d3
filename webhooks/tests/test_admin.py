"""The inbox in the admin: words, search, bodies only with the permission and escaped, replay."""

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client
from django.urls import reverse

from webhooks import labels
from webhooks.models import InboundEvent, RefusedCall

DONE = {"job_id": "j1", "status": "completed"}
LIST = "admin:webhooks_inboundevent_changelist"


def visitor(*permissions: str) -> Client:
    user = User.objects.create_user(f"op{User.objects.count()}", is_staff=True)
    codes = ("view_inboundevent", "view_refusedcall", *permissions)
    user.user_permissions.set(Permission.objects.filter(codename__in=codes))
    client = Client()
    client.force_login(user)
    return client


def detail(event: InboundEvent) -> str:
    return reverse("admin:webhooks_inboundevent_change", args=[event.pk])


def test_the_list_says_why_in_words(post, running, django_assert_max_num_queries):
    running()
    post(DONE)
    post(DONE)
    post(DONE, webhook_signature="v1,AAAA")
    client = visitor()
    client.get(reverse(LIST))
    with django_assert_max_num_queries(12):
        shown = client.get(reverse(LIST)).content.decode()
    assert "completed before (duplicate_completed)" in shown
    assert "the signature does not fit this body and our secrets (signature_wrong)" in shown
    assert client.get(reverse("admin:webhooks_refusedcall_changelist")).status_code == 200
    assert (
        client.get(reverse("admin:webhooks_refusedcall_change", args=[RefusedCall.objects.get().pk])).status_code == 200
    )


@pytest.mark.parametrize("term", ["j1", "msg_1", "{correlation}", "{pk}"])
def test_search(post, running, term):
    task = running()
    post(DONE, event_id="msg_1")
    event = InboundEvent.objects.get()
    post({"job_id": "other", "status": "completed"})
    shown = (
        visitor().get(reverse(LIST), {"q": term.format(correlation=task.correlation_id, pk=event.pk)}).content.decode()
    )
    assert detail(event) in shown
    assert detail(InboundEvent.objects.order_by("-id").first()) not in shown


@pytest.mark.parametrize("why", ["duplicate_completed", "signature_wrong"])
def test_filter_by_reason(post, running, why):
    running()
    for _ in range(2):
        post(DONE)
    post(DONE, webhook_signature="v1,AAAA")
    assert visitor().get(reverse(LIST), {"why": why}).content.decode().count("/change/?") == 1


def test_bodies_only_with_the_permission_and_escaped(post, running):
    post({"job_id": "<script>alert(1)</script>", "status": "completed"})
    address = detail(InboundEvent.objects.get())
    without = visitor().get(address).content.decode()
    assert "You need the permission" in without
    assert "application/json" not in without
    shown = visitor("view_payload_inboundevent").get(address).content.decode()
    assert "<script>alert(1)" not in shown
    assert "&lt;script&gt;alert(1)" in shown


def test_replay_needs_the_permission_and_a_reason(post, running):
    post(DONE)
    event = InboundEvent.objects.get()
    running()
    address = detail(event).replace("change", "replay")
    assert visitor().post(address, {"confirmed": "yes", "reason": "x"}).status_code == 403
    client = visitor("replay_inboundevent")
    assert client.get(address).status_code == 200
    client.post(address, {"confirmed": "yes"})
    assert InboundEvent.objects.get().reason == "task_not_found"
    followed = client.post(address, {"confirmed": "yes", "reason": "the job was adopted"}, follow=True)
    assert "1 of 1 jobs had news" in followed.content.decode()
    assert InboundEvent.objects.get().outcome == "accepted"


def test_a_refused_event_has_no_replay(post):
    post(DONE, webhook_signature="v1,AAAA")
    event = InboundEvent.objects.get()
    client = visitor("replay_inboundevent")
    assert "/replay/" not in client.get(detail(event)).content.decode()
    followed = client.post(detail(event).replace("change", "replay"), {"confirmed": "yes", "reason": "x"}, follow=True)
    assert "Its signature was refused" in followed.content.decode()
    event.refresh_from_db()
    assert (event.verdict, event.outcome) == ("refused", "")


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        (b'{"a": "\xc5\x81"}', '{\n  "a": "Ł"\n}'),
        (b"plain\x00\x1b[31m", "plain\ufffd\ufffd[31m"),
        (b"\xff\xfe\x00\x01", "Not text. In hexadecimal:\nfffe 0001"),
        (b"[" * 100_000, "[" * 65536 + "\n… cut here."),
        ("é".encode() * 40_000, "é" * 32768 + "\n… cut here."),
        (("x" + "é" * 40_000).encode(), "x" + "é" * 32767 + "\n… cut here."),
        (b"", ""),
    ],
)
def test_a_body_is_shown_safely(raw, shown):
    assert labels.body(raw) == shown
