"""Celery entry points of the console. Each fetches and calls a verb; nothing is decided here."""

from celery import shared_task

from console.alerts import evaluate
from console.health import heartbeat
from console.wake import ANSWER_DOCTOR, RUN_OPERATIONS
from kernel import clock, steps


@shared_task(name="console.evaluate_alerts", ignore_result=True)
def evaluate_alerts() -> None:
    evaluate.evaluate(clock.now())


@shared_task(name="console.beat_heartbeat", ignore_result=True)
def beat_heartbeat() -> None:
    heartbeat.beat_once(heartbeat.SCHEDULE, process="schedule")


@shared_task(name=RUN_OPERATIONS, ignore_result=True)
def run_operations() -> None:
    from console.operations import engine

    steps.guarded("console: operations", engine.run_due)


@shared_task(name=ANSWER_DOCTOR, ignore_result=True)
def answer_doctor(group: str, queue: str) -> None:
    """`manage.py doctor` asks whether what is sent through a queue comes to a worker."""
    from console.health.doctor import messages

    steps.guarded("console: answer the doctor", lambda: messages.answer(group, queue))
