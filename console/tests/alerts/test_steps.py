"""A sweep's step that breaks is an alert that names it, and ends with the next good run."""

from datetime import timedelta

import pytest

from console.alerts import evaluate, rules
from console.models import Alert
from delivery import events
from delivery.models import Event
from delivery.workers import rescue
from kernel import clock, steps
from kernel.models import BrokenStep
from tasks import workers
from tasks.engine import lifecycle

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def nothing_remembered():
    steps._looked_at.clear()


def broken(*_arguments, **_more):
    raise RuntimeError("of a row")


def test_a_step_that_breaks_is_named_and_the_others_go_on(monkeypatch):
    monkeypatch.setattr("delivery.maintenance.sweeps.rescue", broken)
    monkeypatch.setattr("delivery.workers.sweeps.rescue.__name__", "rescue", raising=False)
    broken.__name__ = "rescue"
    ran = []
    monkeypatch.setattr("delivery.workers.leftovers.sweep", lambda: ran.append("leftovers"))
    rescue()
    assert ran == ["leftovers"]
    evaluate.evaluate(clock.now())
    alert = Alert.objects.get(rule="step_broke")
    assert alert.subject == "delivery: rescue"
    assert "RuntimeError" in alert.detail
    assert "of a row" not in alert.detail


def test_it_ends_with_the_next_good_run(monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr(lifecycle, "promote_due", broken)
        workers.sweep_once()
        evaluate.evaluate(clock.now())
        assert Alert.objects.get(rule="step_broke").subject == "tasks: promote"
    workers.sweep_once()
    evaluate.evaluate(clock.now())
    assert Alert.objects.get(rule="step_broke").state == "resolved"


def test_a_rule_that_breaks_is_an_alert_itself(monkeypatch):
    monkeypatch.setitem(rules.RULES, "breaker_open", (broken,))
    for _ in range(2):  # told by the next look
        evaluate.evaluate(clock.now())
    assert Alert.objects.get(rule="step_broke").subject == "console: alert rule breaker_open"


def test_a_step_that_no_process_runs_any_more_is_no_alert_for_ever():
    long_ago = clock.now() - timedelta(days=2)
    BrokenStep.objects.create(name="tasks: gone", error="KeyError", since=long_ago, last_at=long_ago)
    evaluate.evaluate(clock.now())
    assert not Alert.objects.filter(rule="step_broke").exists()


def test_an_alert_opens_although_somebody_has_its_events_name():
    last = Alert.objects.create(rule="r", title="t", opened_at=clock.now(), last_seen_at=clock.now())
    name = f"alert_{last.pk + 1}"
    events.record("demo.hello", {"n": 1}, subscriber="", uid=name)
    BrokenStep.objects.create(name="tasks: x", error="KeyError", since=clock.now(), last_at=clock.now())
    evaluate.evaluate(clock.now())
    alert = Alert.objects.get(rule="step_broke")
    assert f"alert_{alert.pk}" == name
    assert Event.objects.get(type="alert.opened").uid.startswith(f"{name}_")
