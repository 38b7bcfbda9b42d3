"""Addresses in templates: named, empty where the row is not there yet, and open where live.js fills them in."""

from django.template import Context, Template
from django.urls import reverse


def rendered(source: str, **values) -> str:
    return Template("{% load console_tags %}" + source).render(Context(values))


def test_an_address_is_that_of_the_page():
    assert rendered('{% address "batch" item.id %}', item={"id": "7"}) == reverse("batch", args=[7])
    assert rendered('{% address "alert-verb" 3 "resolve" %}') == "/alerts/3/resolve/"


def test_a_row_that_is_not_there_yet_has_none():
    assert rendered('{% address "batch" item.id %}', item=None) == ""


def test_live_addresses_keep_their_fields_open():
    assert rendered('{% live_address "batch" "{id}" %}') == "/batches/{id}/"
    assert rendered('{% live_address "alert-verb" "{id}" "resolve" %}') == "/alerts/{id}/resolve/"
    task = '{% live_address "admin:tasks_task_change" "{task}" %}'
    assert rendered(task) == "/admin/tasks/task/{task}/change/"
