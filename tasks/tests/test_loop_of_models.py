"""The loop through the adapters of language models: our tasks, their real APIs on the sandbox, our rules at the end."""

from typing import Any

import pytest

from tasks.models import Batch, ExternalJob, KindPolicy, ProviderAccount, Task
from tasks.states import State
from tasks.submit import submit, submit_batch
from tasks.tests import drive
from tasks.tests.conftest import KEY, SECRET, Sandbox

pytestmark = pytest.mark.django_db


def at(adapter: str, url: str, **options: Any) -> None:
    """The account of that adapter, and the kinds that go there."""
    ProviderAccount.objects.create(
        name=f"our_{adapter}",
        adapter=adapter,
        base_url=url,
        api_key=KEY,
        webhook_secret=SECRET,
        options={"model": "some-model", **options},
    )
    for kind in ("scoring", "email_generation"):
        KindPolicy.objects.update_or_create(kind=kind, defaults={"provider": f"our_{adapter}", "attempt_limit": 1})


@pytest.mark.parametrize(
    ("adapter", "path"), [("openai", "openai"), ("openai_batch", "openai"), ("anthropic", "anthropic")]
)
def test_an_email_and_a_score_are_written_and_accepted(sandbox: Sandbox, adapter: str, path: str) -> None:
    at(adapter, f"{sandbox.url}/{path}")
    business = {"business": {"name": "Café Łódź", "rating": 4.8}}
    email = submit("email_generation", business, caller="t")
    score = submit("scoring", business, caller="t")
    drive.until(drive.all_final)
    email.refresh_from_db()
    score.refresh_from_db()
    assert (email.state, score.state) == (State.SUCCEEDED, State.SUCCEEDED), (email.error_text, score.error_text)
    assert "Café Łódź" in email.result["subject"] + email.result["body"]
    assert 0 <= score.result["score"] <= 100 and score.result["reasons"]


@pytest.mark.parametrize(("adapter", "path"), [("openai_batch", "openai"), ("anthropic", "anthropic")])
def test_the_tasks_of_a_batch_share_one_job_of_the_provider(sandbox: Sandbox, adapter: str, path: str) -> None:
    at(adapter, f"{sandbox.url}/{path}")
    rows = [{"input": {"business": {"name": f"Bar {n}"}}, "reference": f"r{n}"} for n in range(6)]
    batch = submit_batch("scoring", rows, caller="t")
    drive.until(drive.all_final)
    assert Batch.objects.get(pk=batch.pk).counts == {"succeeded": 6}
    jobs = ExternalJob.objects.all()
    assert len({job.job_id for job in jobs}) == 1 and len({job.item_key for job in jobs}) == 6
    assert {str(job.start_token) for job in jobs} == {job.item_key for job in jobs}


def test_without_a_model_the_account_waits_for_a_person_and_no_task_is_lost(sandbox: Sandbox) -> None:
    at("openai", f"{sandbox.url}/openai", model="")
    submit("scoring", {"business": {"name": "Bar"}}, caller="t")
    drive.start_due()
    task = Task.objects.get()
    assert (task.state, task.attempt_count, task.error_code) == (State.RETRYING, 0, "provider_denied")
    assert "option model" in task.error_text
    assert ProviderAccount.objects.get(adapter="openai").held_until is not None
