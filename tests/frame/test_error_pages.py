"""What a person sees where there is no page, no right or no row: words, and a way on that is theirs to take."""

import pytest
from django.template.loader import render_to_string
from django.test import Client

WORDS = {
    "400": "nothing was done",
    "403": "Ask an administrator",
    "404": "nothing at this address",
    "500": "A fault of ours",
}


@pytest.mark.parametrize("status", WORDS)
def test_error_pages_say_what_to_do_and_need_no_context(status):
    page = render_to_string(f"{status}.html")
    assert WORDS[status] in page
    assert '<a href="/">' in page


@pytest.mark.django_db
def test_an_unknown_address_shows_it_without_repeating_the_address():
    answer = Client().get("/nowhere/s3cret/")
    assert answer.status_code == 404
    page = answer.content.decode()
    assert WORDS["404"] in page
    assert "s3cret" not in page


@pytest.mark.django_db
def test_staff_without_permission_are_told_whom_to_ask(django_user_model):
    client = Client()
    client.force_login(django_user_model.objects.create_user("new", password=None, is_staff=True))
    answer = client.get("/admin/tasks/task/")
    assert answer.status_code == 403
    assert WORDS["403"] in answer.content.decode()


@pytest.mark.django_db
def test_an_empty_list_says_whether_there_is_nothing_or_nothing_that_fits(admin_client):
    empty = admin_client.get("/admin/tasks/task/").content.decode()
    assert "Nothing here yet" in empty
    assert "Rows appear here by themselves" in empty
    assert "Reset filters" not in empty
    narrowed = admin_client.get("/admin/tasks/task/?state__exact=queued").content.decode()
    assert "No row fits" in narrowed
    assert "Reset filters" in narrowed
    assert "Add the first one." in admin_client.get("/admin/tasks/schedule/").content.decode()
