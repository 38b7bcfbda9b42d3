"""What every provider adapter must do, whatever its provider is like. Subclass it beside the adapter's own tests.

    class TestSandbox(ProviderConformance):
        @pytest.fixture
        def provider(self, …): …

The provider it talks to must be real or an emulation that its own SDK works with: an adapter is not tested against a
mock of itself.
"""

import json
import time
import uuid
from collections.abc import Callable
from typing import Any

import pytest

from tasks.providers.base import (
    JobRef,
    NewJob,
    NotThere,
    Provider,
    ProviderCall,
    ProviderDenied,
    ProviderError,
    ProviderRejected,
    ProviderUnavailable,
    ProviderUpdate,
    StartedJob,
    Unparseable,
)
from tasks.states import JobStatus

NEW_WORD = "frobnicating"
ENDS = (JobStatus.SUCCEEDED, JobStatus.FAILED, JobStatus.CANCELLED)


class ProviderConformance:
    """Fixtures to give: `provider`, `denied_provider` (wrong key), `dead_provider` (nothing listens); `kind`, `input`;
    `callbacks`: (body, expected updates) as the provider really sends them.

    `bad_input` with `bad_options`: what the provider itself refuses. An adapter that maps its input sends no bad one,
    and gives bad options only (a template of what the provider does not take); with neither it judges inputs later.
    What a start needs beside its input, a model or an actor, are `options`, or the account's own."""

    kind: str
    input: dict[str, Any]
    options: dict[str, Any] = {}
    bad_input: dict[str, Any] | None = None
    bad_options: dict[str, Any] | None = None
    callbacks: list[tuple[bytes, list[ProviderUpdate]]]
    junk: list[bytes] = []  # further bodies that are none of this provider's

    def chosen(self, provider: Provider) -> dict[str, Any]:
        """The options of the account and, over them, the kind's."""
        return {**provider.account.options, **self.options}

    def started(self, provider: Provider) -> StartedJob:
        call = ProviderCall(correlation_id="conformance", options=self.chosen(provider))
        return provider.start(self.kind, NewJob(str(uuid.uuid4()), self.input), call)

    def ref(self, job: StartedJob) -> JobRef:
        return JobRef(job.job_id, self.kind, job.item_key, job.batch_id, self.options)

    def finished(self, provider: Provider) -> StartedJob:
        job = self.started(provider)
        for _ in range(300):
            if provider.status(self.ref(job)).status in ENDS:
                return job
            time.sleep(0.02)
        raise AssertionError("the job did not finish")

    def test_it_says_what_it_is(self, provider: Provider) -> None:
        assert provider.name and provider.adapter and provider.scheme and provider.does(self.kind)
        assert not provider.needs_webhook_secret or (provider.secrets() and all(provider.secrets()))
        assert provider.lacks(self.kind, self.chosen(provider)) == ""

    def test_a_started_job_has_an_id_and_a_status(self, provider: Provider) -> None:
        job = self.started(provider)
        assert 1 <= len(job.job_id) <= 200
        update = provider.status(self.ref(job))
        assert update.job_id == job.job_id and update.status != JobStatus.UNKNOWN and update.raw_status

    def test_a_batch_answers_for_each_reference(self, provider: Provider) -> None:
        if provider.max_batch < 2:
            pytest.skip("starts jobs one by one")
        jobs = [NewJob(str(uuid.uuid4()), self.input) for _ in range(3)]
        started = provider.start_batch(self.kind, jobs, ProviderCall(options=self.chosen(provider)))
        assert {job.reference for job in started} == {job.reference for job in jobs}
        assert len({(job.job_id, job.item_key) for job in started}) == 3

    def test_many_are_listed_in_one_call_and_unknown_ones_are_absent(self, provider: Provider) -> None:
        ids = [self.started(provider).job_id for _ in range(3)]
        asked = [JobRef(job_id, self.kind, options=self.options) for job_id in [*ids, "job_that_never_was"]]
        listed = provider.list_jobs(jobs=asked)
        assert {job.update.job_id for job in listed} == set(ids)

    def test_a_start_is_found_by_its_reference(self, provider: Provider) -> None:
        if not provider.finds_references:
            pytest.skip("keeps no reference")
        job = self.started(provider)
        (listed,) = provider.list_jobs(references=[job.reference, str(uuid.uuid4())])
        assert (listed.reference, listed.update.job_id) == (job.reference, job.job_id)

    def test_a_finished_job_has_a_result(self, provider: Provider) -> None:
        job = self.finished(provider)
        assert provider.result(self.ref(job))
        assert provider.status(self.ref(job)).status == JobStatus.SUCCEEDED

    def test_cancelling_a_finished_job_says_that_it_is_finished(self, provider: Provider) -> None:
        job = self.finished(provider)
        assert provider.cancel(self.ref(job)).status == JobStatus.SUCCEEDED

    def test_unknown_jobs_are_not_there(self, provider: Provider) -> None:
        for ask in (provider.status, provider.result, provider.cancel):
            with pytest.raises(NotThere):
                ask(JobRef("job/../that?never=was", self.kind))  # and no id can lead elsewhere

    def test_what_the_provider_refuses_for_good_is_rejected(self, provider: Provider) -> None:
        if self.bad_input is None and self.bad_options is None:
            pytest.skip("takes any input, and judges it later")
        given = self.input if self.bad_input is None else self.bad_input
        options = self.chosen(provider) if self.bad_options is None else self.bad_options
        with pytest.raises(ProviderRejected):
            provider.start(self.kind, NewJob(str(uuid.uuid4()), given), ProviderCall(options=options))

    def test_options_that_lack_what_is_needed_are_told_before_and_at_the_start(self, provider: Provider) -> None:
        lacking = provider.lacks(self.kind, {})
        if not lacking:
            pytest.skip("needs no option")
        with pytest.raises(ProviderDenied, match="option") as caught:
            provider.start(self.kind, NewJob(str(uuid.uuid4()), self.input), ProviderCall())
        assert lacking in caught.value.detail

    def test_a_wrong_key_is_denied(self, denied_provider: Provider) -> None:
        with pytest.raises(ProviderDenied):
            self.started(denied_provider)

    def test_nobody_there_is_unavailable_and_surely_not_done(self, dead_provider: Provider) -> None:
        for call in (
            lambda: self.started(dead_provider),
            lambda: dead_provider.list_jobs(jobs=[JobRef("x", self.kind)]),
        ):
            with pytest.raises(ProviderUnavailable) as caught:
                call()
            assert "http" not in caught.value.detail

    def test_the_doctors_question_is_answered_and_a_wrong_key_is_told(
        self, provider: Provider, denied_provider: Provider, dead_provider: Provider
    ) -> None:
        assert provider.missing_credentials() == ""
        provider.greet()  # raises what is wrong
        with pytest.raises(ProviderDenied):
            denied_provider.greet()
        with pytest.raises(ProviderUnavailable):
            dead_provider.greet()

    def test_real_callbacks_are_read(self, provider: Provider) -> None:
        assert bool(self.callbacks) is provider.calls_back
        for body, expected in self.callbacks:
            assert list(provider.parse(body, {}).updates) == expected

    def test_a_byte_order_mark_before_a_callback_is_read_over(self, provider: Provider) -> None:
        for body, expected in self.callbacks:
            assert list(provider.parse(b"\xef\xbb\xbf" + body, {}).updates) == expected

    def test_a_new_status_word_is_unknown_and_not_an_end(self, provider: Provider) -> None:
        for body, expected in self.callbacks:
            said = provider.parse(_with_new_word(body, expected[0].raw_status), {})
            if not said.updates:  # of an event that names its status in its type alone
                assert NEW_WORD in said.unknown_event
                continue
            assert said.updates[0].status == JobStatus.UNKNOWN and NEW_WORD in said.updates[0].raw_status

    @pytest.mark.parametrize(
        "body", [b"", b"{", b"[]", b"7", b'"x"', b"\xff\xfe", b"[" * 100_000, b'{"a": NaN}', b"null"]
    )
    def test_junk_is_unparseable_and_nothing_else(self, provider: Provider, body: bytes) -> None:
        with pytest.raises(Unparseable):
            provider.parse(body, {})

    def test_what_is_none_of_its_payloads_is_unparseable_too(self, provider: Provider) -> None:
        for body in self.junk:
            with pytest.raises(Unparseable):
                provider.parse(body, {})

    def test_every_failure_is_typed_and_holds_no_secret(self, denied_provider: Provider) -> None:
        with pytest.raises(ProviderError) as caught:
            denied_provider.status(JobRef("x", self.kind))
        assert all(secret not in caught.value.detail for secret in denied_provider.secrets())


def _with_new_word(body: bytes, status: str) -> bytes:
    """The callback with a word nobody knows for its status; the status may stand in the event's type as well, or there
    alone, behind a dot."""
    said = json.loads(body)
    made = _replaced(said, lambda text: NEW_WORD if text == status else text)
    if made == said:
        made = _replaced(said, lambda text: text.replace(f".{status}", f".{NEW_WORD}"))
    assert made != said, "the callback does not hold the status that is expected of it"
    return json.dumps(made).encode()


def _replaced(value: Any, change: Callable[[str], str]) -> Any:
    if isinstance(value, dict):
        return {key: _replaced(item, change) for key, item in value.items()}
    if isinstance(value, list):
        return [_replaced(item, change) for item in value]
    return change(value) if isinstance(value, str) else value
