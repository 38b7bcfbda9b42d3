"""`manage.py submit`: from a file, from a batch, with waiting; nothing is submitted where anything is wrong."""

import io
import json
import os

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from tasks.models import Batch, Task
from tasks.states import State


@pytest.fixture(autouse=True)
def provider(settings, db):
    settings.SANDBOX_PROVIDER_URL = "http://127.0.0.1:9"
    settings.CELERY_BROKER_URL = ""
    settings.PUBLIC_BASE_URL = "https://jobs.example"


@pytest.fixture
def searches(tmp_path):
    path = tmp_path / "searches.csv"
    path.write_text("trade,place,limit\nbakery,Łódź,5\nsushi,東京,\n", encoding="utf-8")
    return str(path)


def submit(*args: str, **options) -> dict:
    out = io.StringIO()
    call_command("submit", *args, "--json", stdout=out, stderr=io.StringIO(), **options)
    return json.loads(out.getvalue().splitlines()[-1])


def finish(batch_id: str, state: State = State.SUCCEEDED, result=None) -> Batch:
    Task.objects.filter(batch_id=batch_id).update(state=state, finished_at=timezone.now(), result=result)
    batch = Batch.objects.get(pk=batch_id)
    batch.counts, batch.is_completed, batch.revision = {state.value: batch.total}, True, 1
    batch.outcome = "all_succeeded" if state == State.SUCCEEDED else "none"
    batch.save()
    return batch


@pytest.mark.parametrize("limit", ["-1", "0", "x"])
def test_a_limit_that_makes_no_sense_is_refused(searches, limit):
    with pytest.raises(CommandError, match="a whole number from 1"):
        submit(searches, "--kind", "map_search", "--limit", limit)
    assert not Batch.objects.exists()


def test_a_file_becomes_a_batch(searches):
    shown = submit(searches, "--kind", "map-search", "--subscriber", "acme", "--reference", "april")
    batch = Batch.objects.get()
    assert shown["id"] == str(batch.pk)
    assert (shown["state"], shown["total"], shown["url"]) == ("running", 2, f"https://jobs.example/batches/{batch.pk}/")
    assert (batch.subscriber, batch.reference, batch.caller) == ("acme", "april", "manage.py")
    assert list(batch.tasks.order_by("position").values_list("input__place", flat=True)) == ["Łódź", "東京"]
    assert batch.tasks.first().transitions.get().actor.startswith("shell:")


def test_a_bad_row_submits_nothing_and_is_named(tmp_path):
    path = tmp_path / "bad.csv"
    path.write_text("trade,place\nbakery,Łódź\n,\nsushi,\n")
    with pytest.raises(CommandError, match=r"line 4: place") as refused:
        call_command("submit", str(path), "--kind", "map_search", stdout=io.StringIO())
    assert refused.value.returncode == 2
    assert not Batch.objects.exists()


@pytest.mark.parametrize(
    "args",
    [
        ("nowhere.csv", "--kind", "map_search"),
        ("--kind", "map_search"),
        ("x.csv", "--from-batch", "1", "--kind", "map_search"),
        ("--from-batch", "99", "--kind", "scoring"),
        ("x.csv", "--kind", "juggling"),
    ],
)
def test_what_cannot_be_done_is_a_line_and_an_exit_code(args):
    with pytest.raises(CommandError) as refused:
        call_command("submit", *args, stdout=io.StringIO())
    assert refused.value.returncode == 2


def test_waiting_ends_well_only_if_all_succeeded(searches, monkeypatch):
    monkeypatch.setattr("tasks.reading.progress.time.sleep", lambda _seconds: finish(Batch.objects.get().pk))
    out = io.StringIO()
    call_command("submit", searches, "--kind", "map_search", "--follow", stdout=out)
    assert "2/2  succeeded 2" in out.getvalue()
    assert out.getvalue().count(" succeeded\n") == 2


def test_waiting_for_a_batch_that_fails_is_exit_code_one(searches, monkeypatch):
    monkeypatch.setattr(
        "tasks.reading.progress.time.sleep", lambda _seconds: finish(Batch.objects.get().pk, State.DEAD_LETTER)
    )
    with pytest.raises(CommandError, match="did not all succeed") as refused:
        call_command("submit", searches, "--kind", "map_search", "--wait", stdout=io.StringIO())
    assert refused.value.returncode == 1


def test_waiting_can_be_bounded(searches):
    with pytest.raises(CommandError, match="not all finished"):
        call_command("submit", searches, "--kind", "map_search", "--wait", "--timeout", "0", stdout=io.StringIO())


def test_a_batch_is_chained_to_the_next(searches):
    first = submit(searches, "--kind", "map_search", "--subscriber", "acme")
    with pytest.raises(CommandError, match="2 tasks of batch"):
        submit("--from-batch", first["id"], "--kind", "email_generation")
    finish(first["id"], result={"places": [{"name": "A", "lat": 1, "lon": 1}, {"name": "B", "lat": 1, "lon": 1}]})
    second = submit("--from-batch", first["id"], "--kind", "email_generation")
    assert (second["kind"], second["total"], second["correlation_id"]) == (
        "email_generation",
        4,
        first["correlation_id"],
    )
    assert Batch.objects.get(pk=second["id"]).subscriber == "acme"
    finish(second["id"], result={"subject": "s", "body": "b"})
    third = submit("--from-batch", second["id"], "--kind", "scoring", "--limit", "3")
    assert third["total"] == 3


def test_a_batch_with_nothing_to_chain_is_refused(searches):
    first = submit(searches, "--kind", "map_search")
    finish(first["id"], State.DEAD_LETTER)
    with pytest.raises(CommandError, match="at least one task"):
        submit("--from-batch", first["id"], "--kind", "email_generation")


def test_who_runs_as_a_number_without_a_name_is_recorded_by_it(searches, monkeypatch):
    for name in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os, "getuid", lambda: 4_242_424)
    submit(searches, "--kind", "map_search")
    assert Task.objects.first().transitions.get().actor == "shell:4242424"
