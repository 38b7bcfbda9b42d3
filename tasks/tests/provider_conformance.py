"""What every provider adapter must do, whatever its provider is like. Subclass it beside the adapter's own tests.

    class TestSandbox(ProviderConformance):
        @pytest.fixture
        def provider(self, …): …

The provider it talks to must be real or a recording of one: an adapter is not tested against a mock of itself.
"""

import time
import uuid
from typing import Any

import pytest

from tasks.providers.base import (
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

ENDS = (JobStatus.SUCCEEDED, JobStatus.FAILED, JobStatus.CANCELLED)


class ProviderConformance:
    """Fixtures to give: `provider`, `denied_provider` (wrong key), `dead_provider` (nothing listens); `kind`, `input`
    and `bad_input`; `callbacks`: (body, expected updates) as the provider really sends them."""

    kind: str
    input: dict[str, Any]
    bad_input: dict[str, Any]
    callbacks: list[tuple[bytes, list[ProviderUpdate]]]

    def started(self, provider: Provider) -> StartedJob:
        return provider.start(
            self.kind, NewJob(str(uuid.uuid4()), self.input), ProviderCall(correlation_id="conformance")
        )

    def finished(self, provider: Provider) -> StartedJob:
        job = self.started(provider)
        for _ in range(300):
            if provider.status(job.job_id).status in ENDS:
                return job
            time.sleep(0.05)
        raise AssertionError("the job did not finish")

    def test_it_says_what_it_is(self, provider: Provider) -> None:
        assert provider.name and provider.scheme and self.kind in provider.kinds
        assert provider.secrets() and all(provider.secrets())

    def test_a_started_job_has_an_id_and_a_status(self, provider: Provider) -> None:
        job = self.started(provider)
        assert 1 <= len(job.job_id) <= 200
        update = provider.status(job.job_id)
        assert update.job_id == job.job_id and update.status != JobStatus.UNKNOWN and update.raw_status

    def test_a_batch_answers_for_each_reference(self, provider: Provider) -> None:
        if provider.max_batch < 2:
            pytest.skip("starts jobs one by one")
        jobs = [NewJob(str(uuid.uuid4()), self.input) for _ in range(3)]
        started = provider.start_batch(self.kind, jobs, ProviderCall())
        assert {job.reference for job in started} == {job.reference for job in jobs}
        assert len({(job.job_id, job.item_key) for job in started}) == 3

    def test_many_are_listed_in_one_call_and_unknown_ones_are_absent(self, provider: Provider) -> None:
        ids = [self.started(provider).job_id for _ in range(3)]
        listed = provider.list_jobs(job_ids=[*ids, "job_that_never_was"])
        assert {job.update.job_id for job in listed} == set(ids)

    def test_a_start_is_found_by_its_reference(self, provider: Provider) -> None:
        if not provider.finds_references:
            pytest.skip("keeps no reference")
        job = self.started(provider)
        (listed,) = provider.list_jobs(references=[job.reference, str(uuid.uuid4())])
        assert (listed.reference, listed.update.job_id) == (job.reference, job.job_id)

    def test_a_finished_job_has_a_result(self, provider: Provider) -> None:
        job = self.finished(provider)
        assert provider.result(job.job_id, job.item_key)
        assert provider.status(job.job_id).status == JobStatus.SUCCEEDED

    def test_cancelling_a_finished_job_says_that_it_is_finished(self, provider: Provider) -> None:
        job = self.finished(provider)
        assert provider.cancel(job.job_id).status == JobStatus.SUCCEEDED

    def test_unknown_jobs_are_not_there(self, provider: Provider) -> None:
        for ask in (provider.status, provider.result, provider.cancel):
            with pytest.raises(NotThere):
                ask("job/../that?never=was")  # and no id can lead elsewhere

    def test_a_bad_input_is_rejected(self, provider: Provider) -> None:
        with pytest.raises(ProviderRejected):
            provider.start(self.kind, NewJob("r", self.bad_input), ProviderCall())

    def test_a_wrong_key_is_denied(self, denied_provider: Provider) -> None:
        with pytest.raises(ProviderDenied):
            self.started(denied_provider)

    def test_nobody_there_is_unavailable_and_surely_not_done(self, dead_provider: Provider) -> None:
        for call in (lambda: self.started(dead_provider), lambda: dead_provider.list_jobs(job_ids=["x"])):
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
        assert self.callbacks
        for body, expected in self.callbacks:
            assert list(provider.parse(body, {}).updates) == expected

    def test_a_byte_order_mark_before_a_callback_is_read_over(self, provider: Provider) -> None:
        for body, expected in self.callbacks:
            assert list(provider.parse(b"\xef\xbb\xbf" + body, {}).updates) == expected

    def test_a_new_status_word_is_unknown_and_not_an_end(self, provider: Provider) -> None:
        for body, expected in self.callbacks:
            strange = body.replace(expected[0].raw_status.encode(), b"frobnicating")
            (update, *_) = provider.parse(strange, {}).updates
            assert update.status == JobStatus.UNKNOWN and update.raw_status == "frobnicating"

    @pytest.mark.parametrize(
        "body", [b"", b"{", b"[]", b"7", b'"x"', b"\xff\xfe", b"[" * 100_000, b'{"a": NaN}', b"null"]
    )
    def test_junk_is_unparseable_and_nothing_else(self, provider: Provider, body: bytes) -> None:
        with pytest.raises(Unparseable):
            provider.parse(body, {})

    def test_every_failure_is_typed_and_holds_no_secret(self, denied_provider: Provider) -> None:
        with pytest.raises(ProviderError) as caught:
            denied_provider.status("x")
        assert all(secret not in caught.value.detail for secret in denied_provider.secrets())
