"""How far a list looks: through so many rows where no index leads, and on from there, until all were seen."""

import pytest
from rest_framework.test import APIRequestFactory

from kernel.api.pages import CursorPages
from kernel.database import windows
from kernel.database.windows import Lead
from kernel.models import ApiKey

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def ten_keys(monkeypatch):
    """Ten keys of two subscribers, newest last; the first alone is named "old"."""
    monkeypatch.setattr(windows, "MOST", 3)
    monkeypatch.setattr(ApiKey, "leads", (Lead(("subscriber",), bool),), raising=False)
    names = ["old"] + ["new"] * 9
    return [ApiKey.objects.create(name=name, key_id=f"k{n}", subscriber="ab"[n % 2]).pk for n, name in enumerate(names)]


def names(window):
    return [key.name for key in window.rows.order_by("-pk")]


def test_what_an_index_leads_to_is_not_cut(ten_keys):
    for rows in (ApiKey.objects.all(), ApiKey.objects.filter(subscriber="a"), ApiKey.objects.filter(pk=ten_keys[0])):
        assert windows.of(rows) == windows.Window(rows)


def test_what_none_leads_to_is_looked_for_in_the_newest(ten_keys):
    window = windows.of(ApiKey.objects.filter(name="old"))
    assert (names(window), window.edge, window.among_newest) == ([], ten_keys[-3], 3)
    assert names(windows.of(ApiKey.objects.filter(name="new"))) == ["new"] * 3


def test_a_lead_counts_its_own_rows(ten_keys):
    window = windows.of(ApiKey.objects.filter(subscriber="a", name="new"))
    assert (names(window), window.edge) == (["new"] * 3, ten_keys[4])  # 8, 6 and 4: the even ones are of "a"


def test_a_lead_with_few_rows_leaves_nothing_out(ten_keys):
    ApiKey.objects.filter(pk=ten_keys[0]).update(subscriber="c")
    window = windows.of(ApiKey.objects.filter(subscriber="c", name="old"))
    assert (names(window), window.is_cut) == (["old"], False)


@pytest.mark.parametrize(
    "rows",
    [
        lambda: ApiKey.objects.exclude(subscriber="a"),
        lambda: ApiKey.objects.filter(subscriber__in=["a", "b"]),
        lambda: ApiKey.objects.filter(subscriber=""),  # what the lead does not serve
        lambda: ApiKey.objects.filter(subscriber__gt="a"),
        lambda: ApiKey.objects.filter(pk__gt=0),
        lambda: ApiKey.objects.filter(pk__in=ApiKey.objects.values("pk")),
    ],
)
def test_a_condition_that_is_no_plain_value_leads_nowhere(ten_keys, rows):
    assert windows.of(rows()).edge == ten_keys[-3]


def test_another_order_than_by_id_is_cut_too(ten_keys):
    assert windows.of(ApiKey.objects.filter(subscriber="a"), is_by_id=False).edge == ten_keys[4]
    assert windows.of(ApiKey.objects.all(), is_by_id=False).edge == ten_keys[-3]


def test_it_goes_on_below_and_above_where_it_was(ten_keys):
    rows = ApiKey.objects.filter(name="old")
    assert windows.of(rows, beyond=ten_keys[5]).edge == ten_keys[2]
    assert windows.of(rows, beyond=ten_keys[3]).edge is None  # the first three are the last
    assert windows.of(rows, beyond=ten_keys[2], upwards=True).edge == ten_keys[5]
    assert windows.of(rows, beyond=ten_keys[6], upwards=True).edge is None
    assert windows.of(rows.filter(subscriber="a"), beyond=ten_keys[8]).edge == ten_keys[2]


def pages_from(address, rows):
    """Every page's names, first to last, and the last address back."""
    seen, back = [], None
    while address:
        request = APIRequestFactory().get(address)
        request.query_params = request.GET
        pages = CursorPages()
        seen.append([key.name for key in pages.paginate_queryset(rows, request)])
        address, back = pages.get_next_link(), pages.get_previous_link()
    return seen, back


def test_a_page_that_came_to_the_end_of_its_window_leads_on_until_all_were_seen():
    seen, back = pages_from("/", ApiKey.objects.filter(name="old"))
    assert seen == [[], [], [], ["old"]]
    assert back


def test_a_page_that_is_full_before_leads_on_as_ever():
    seen, _ = pages_from("/?limit=2", ApiKey.objects.filter(name="new"))
    assert [len(page) for page in seen] == [2, 2, 2, 2, 1]


def test_the_way_back_is_as_long(ten_keys):
    _, back = pages_from("/", ApiKey.objects.filter(name="new", subscriber="b"))
    seen = 0
    while back:
        request = APIRequestFactory().get(back)
        request.query_params = request.GET
        pages = CursorPages()
        seen += len(pages.paginate_queryset(ApiKey.objects.filter(name="new", subscriber="b"), request))
        back = pages.get_previous_link()
    assert seen >= 3
