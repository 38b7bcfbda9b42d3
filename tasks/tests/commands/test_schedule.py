"""`manage.py schedule`, and `submit --then`."""

import io

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from tasks.models import Batch, Schedule, Task

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("unreachable_sandbox")]


def said(*args: str) -> str:
    out = io.StringIO()
    call_command("schedule", *args, stdout=out)
    return out.getvalue()


@pytest.fixture
def row() -> Schedule:
    values = {"kind": "batch_report", "input": {"batch": "1"}, "crontab": "30 7 * * *", "starts_at": timezone.now()}
    return Schedule.objects.create(name="Report", **values)


def test_an_expression_is_tried_and_nothing_stored():
    lines = said("try", "30 7 * * MON-FRI", "--time-zone", "Europe/Warsaw").splitlines()
    assert len(lines) == 5 and all(line.endswith("30:00 UTC") for line in lines)
    assert not Schedule.objects.exists()
    with pytest.raises(CommandError, match="a day must be in its month"):
        said("try", "0 0 30 2 *")


def test_the_verbs_by_name_or_number(row):
    assert "30 7 * * * (UTC)" in said("list") and len(said("next", "Report").splitlines()) == 5
    assert said("pause", "Report") == "Paused.\n" and said("pause", str(row.pk)) == "It was paused already.\n"
    assert "next: paused" in said("list")
    assert said("run-now", "Report") == f"Task {Task.objects.get().pk} was submitted.\n"
    assert said("resume", str(row.pk), "--reason", "well again") == "Resumed.\n"


def test_a_schedule_that_is_not_there_or_meant_twice_is_refused(row):
    with pytest.raises(CommandError, match="no such schedule"):
        said("pause", "Nobody")
    Schedule.objects.create(
        name="Report", subscriber="acme", kind="batch_report", crontab="0 1 * * *", starts_at=timezone.now()
    )
    with pytest.raises(CommandError, match="give its number"):
        said("pause", "Report")


def test_submit_then_makes_a_chain(tmp_path):
    path = tmp_path / "searches.csv"
    path.write_text("trade,place\nbakery,Oslo\n")
    chain = ("--kind", "map_search", "--then", "email_generation", "--then", "scoring")
    call_command("submit", str(path), *chain, stdout=io.StringIO())
    assert [step["kind"] for step in Batch.objects.get().then] == ["email_generation", "scoring"]
    with pytest.raises(CommandError, match="cannot be followed by map_search"):
        call_command("submit", str(path), "--kind", "map_search", "--then", "map_search", stdout=io.StringIO())
    assert Batch.objects.count() == 1
