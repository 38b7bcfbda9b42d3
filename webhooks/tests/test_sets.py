"""What waits at the same moment is one set; a set that breaks leaves each to itself; nobody is forgotten."""

import threading

import pytest

from kernel.web.together import Gatherer
from tasks.models import Task, Transition
from tasks.providers.base import ProviderUpdate
from tasks.states import JobStatus, State
from webhooks import judging
from webhooks.models import InboundEvent


def _all_at_once(work, items, most=100):
    """Each item by a thread of its own; all but the first wait while the first is worked on."""
    began, go_on = threading.Event(), threading.Event()
    rounds = []

    def held(these):
        rounds.append(list(these))
        began.set()
        assert go_on.wait(10)
        return work(these)

    gatherer, answers = Gatherer(held, most, lambda _item: 1), {}
    threads = [threading.Thread(target=lambda i=item: answers.update({i: gatherer.take(i)})) for item in items]
    threads[0].start()
    assert began.wait(10)
    for thread in threads[1:]:
        thread.start()
    while len(gatherer._waiting) < len(items) - 1:
        pass
    go_on.set()
    for thread in threads:
        thread.join(10)
    return rounds, answers, gatherer


def test_whoever_comes_meanwhile_is_in_one_set():
    rounds, answers, gatherer = _all_at_once(lambda these: [item * 2 for item in these], [1, 2, 3, 4])
    assert [sorted(one) for one in rounds] == [[1], [2, 3, 4]]
    assert answers == {1: 2, 2: 4, 3: 6, 4: 8}
    assert gatherer.take(5) == 10  # the lead was given back


def test_a_set_has_its_most():
    rounds, answers, _ = _all_at_once(lambda these: list(these), [1, 2, 3, 4, 5], most=2)
    assert [len(one) for one in rounds] == [1, 2, 2] and answers == {n: n for n in range(1, 6)}


def test_a_set_that_breaks_has_no_answers_and_the_next_is_led_all_the_same():
    def breaks(these):
        if 2 in these:
            raise RuntimeError
        return list(these)

    rounds, answers, gatherer = _all_at_once(breaks, [1, 2, 3])
    assert len(rounds) == 2 and answers == {1: 1, 2: None, 3: None}
    assert gatherer.take(4) == 4


def _said(job_id):
    return {"job_id": job_id, "status": "completed"}


def _done(job_id):
    return ProviderUpdate(job_id, status=JobStatus.SUCCEEDED, raw_status="completed")


@pytest.mark.parametrize("number", [2, 300])
def test_a_payload_costs_the_same_queries_whatever_its_size(post, running, number, django_assert_num_queries):
    jobs = [running(f"job-{n}").jobs.get().job_id for n in range(number)]
    # account; event stored; savepoint; whose; time; find; lock tasks and jobs; tasks; jobs; log; outcome; release
    with django_assert_num_queries(13):
        answer = post({"jobs": [_said(job) for job in jobs]})
    assert [result["status"] for result in answer.json()["results"]] == ["accepted"] * number
    assert Transition.objects.filter(to_state=State.FETCHING).count() == number


def test_events_of_one_set_have_each_its_own_outcome(running):
    task = running("known", subscriber="acme")
    stored = [
        InboundEvent.objects.create(source="s", provider="sandbox", body=b"", dedupe_key=job, verdict="verified",
                                    correlation_id="c0ffee00")
        for job in ("known", "stranger")
    ]  # fmt: skip
    waiting = []
    for event, job in zip(stored, ("known", "stranger"), strict=True):
        waiting.append(judging.Waiting(event, "sandbox", [_done(job)], event.received_at))
    judging._judge_set(waiting)
    for event in stored:
        event.refresh_from_db()
    assert [(one.outcome, one.reason, one.subscribers) for one in stored] == [
        ("accepted", "", ["acme"]),
        ("ignored", "task_not_found", []),
    ]
    assert stored[0].correlation_id == task.correlation_id != stored[1].correlation_id


def test_a_set_that_another_call_has_judged_in_part_changes_nothing(post, running):
    task = running("known")
    post(_said("stranger"))
    judged = InboundEvent.objects.get()
    with pytest.raises(judging.LostRace):
        judging._judge_set([judging.Waiting(judged, "sandbox", [_done("known")], judged.received_at)])
    assert Task.objects.get(pk=task.pk).state == State.RUNNING
