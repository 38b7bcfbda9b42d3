"""A cursor is whatever a stranger writes into the address: it is refused in words, never a fault of ours."""

import base64

import pytest
from django.test import override_settings
from rest_framework.test import APIClient, APIRequestFactory

from kernel.api.pages import CursorPages
from kernel.api.problems import BadInput
from kernel.auth import Scope, create_key
from kernel.models import ApiKey


class ByTime(CursorPages):
    ordering = ("created_at", "id")


def _page(text, pages=CursorPages):
    request = APIRequestFactory().get("/", {"cursor": text})
    request.query_params = request.GET
    return pages().paginate_queryset(ApiKey.objects.all(), request)


def _packed(text):
    return base64.b64encode(text.encode()).decode()


@pytest.mark.django_db
@pytest.mark.parametrize("inside", ["p=abc", "p=%00", "p=NaN", "p=1e5", "p=", "r=1&p=2020-01-01", "o=x"])
def test_a_cursor_with_nonsense_in_it_is_refused(inside):
    with pytest.raises(BadInput) as refused:
        _page(_packed(inside))
    assert refused.value.code == "bad_cursor"


@pytest.mark.django_db
@pytest.mark.parametrize("text", ["é", "/w=="])
def test_so_is_one_that_is_none(text):
    with pytest.raises(BadInput, match="start again"):
        _page(text)


@pytest.mark.django_db
def test_times_are_judged_as_times():
    assert _page(_packed("p=2020-01-01T00:00:00Z"), ByTime) == []
    assert _page(_packed("p=" + "9" * 30)) == []
    for bad in ("p=12", "p=2020-13-45", "p=9999-12-31T23:59:59-23:00"):
        with pytest.raises(BadInput):
            _page(_packed(bad), ByTime)


@pytest.mark.django_db
def test_pages_still_lead_from_first_to_last():
    for number in range(5):
        create_key(f"k{number}", [Scope.TASKS_READ])
    client = APIClient(HTTP_AUTHORIZATION=f"Bearer {create_key('r', [Scope.DELIVERIES_READ])[1]}")
    with override_settings(ALLOWED_HOSTS=["testserver"]):
        assert client.get("/api/v1/events/?limit=2&cursor=cD1hYmM=").json()["code"] == "bad_cursor"
    request = APIRequestFactory().get("/", {"limit": "2"})
    seen = []
    while True:
        request.query_params = request.GET
        pages = CursorPages()
        seen += [key.name for key in pages.paginate_queryset(ApiKey.objects.all(), request)]
        if not pages.get_next_link():
            break
        request = APIRequestFactory().get(pages.get_next_link())
    assert seen == ["r", "k4", "k3", "k2", "k1", "k0"]
