"""The chain of three batches from one submission, its process killed at each step: each follows exactly once."""

import pytest

from tasks import follow_ups
from tasks.engine import clock
from tasks.engine import follow_ups as notes
from tasks.models import Batch, FollowUp, Task
from tasks.states import State
from tasks.submit import submit_batch
from tasks.tests import drive
from tasks.tests.follow_ups.ending import BY_THE_WORKER, WHERE_IT_ENDS, killed_at, succeed

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("unreachable_sandbox")]
SEARCH = {"input": {"trade": "bar", "place": "Oslo"}}


def after_the_crash(batch: Batch) -> Batch:
    """What anybody who comes later does: settle what is open, make what waits. Returns the batch that follows."""
    succeed(*Task.objects.filter(batch=batch, state__in=[State.QUEUED, State.RUNNING]).values_list("pk", flat=True))
    follow_ups.make_due(clock.now())
    assert follow_ups.make_due(clock.now()) == 0
    (row,) = FollowUp.objects.filter(parent_batch=batch)
    (child,) = row.batches.all()
    return child


@pytest.mark.parametrize(
    ("point", "is_small"),
    [*((point, True) for point in WHERE_IT_ENDS), *((point, False) for point in BY_THE_WORKER)],
)
def test_each_follows_exactly_once_wherever_its_process_dies(
    point: str, is_small: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not is_small:
        monkeypatch.setattr(notes, "SMALL_TASKS", 0)
    then = [{"kind": "email_generation"}, {"kind": "scoring"}]
    searches = submit_batch("map_search", [SEARCH, SEARCH], caller="me", then=then)
    killed_at(point, *searches.tasks.values_list("pk", flat=True))
    emails = after_the_crash(searches)
    assert (emails.kind, emails.total, emails.then) == ("email_generation", 4, [{"kind": "scoring", "on": "completed"}])
    killed_at(point, *emails.tasks.values_list("pk", flat=True))
    scores = after_the_crash(emails)
    assert (scores.kind, scores.total, scores.then) == ("scoring", 4, None)
    assert Batch.objects.count() == 3 and FollowUp.objects.count() == 2
    drive.assert_counted()
