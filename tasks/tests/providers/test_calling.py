"""The half that all adapters share: lists to their end, limits, ids that lead nowhere else, words without secrets."""

from typing import Any

import pytest

from tasks.providers import calling
from tasks.providers.answers import Call
from tasks.providers.base import (
    Account,
    AnswerTooLarge,
    BadAnswer,
    JobRef,
    NotThere,
    ParsedCallback,
    ProviderCall,
    ProviderDenied,
    ProviderError,
    ProviderThrottled,
    ProviderUpdate,
    StartedJob,
)
from tasks.providers.calling import CallingProvider, all_pages, part, within_limit
from tasks.states import JobStatus


class Plain(CallingProvider):
    """One that says nothing of its own."""

    adapter = "plain"
    default_base_url = "https://plain.example"

    def start(self, kind: str, job: Any, call: ProviderCall) -> StartedJob:
        return StartedJob("", "")

    def status(self, job: JobRef) -> ProviderUpdate:
        if job.job_id == "gone":
            raise NotThere("no")
        if job.job_id == "odd":
            raise BadAnswer("its status is no text")
        return ProviderUpdate(job.job_id, status=JobStatus.RUNNING, raw_status="running")

    def result(self, job: JobRef) -> Any:
        return None

    def cancel(self, job: JobRef) -> ProviderUpdate:
        return self.status(job)

    def parse(self, body: bytes, headers: Any) -> ParsedCallback:
        return ParsedCallback()


def provider(key: str = "sk_1") -> Plain:
    return Plain(Account("plain", api_key=key, secrets=("whsec_1",)))


class Said:
    """An answer, and a session that gives it."""

    def __init__(self, status: int, content: bytes, **headers: str) -> None:
        self.status_code, self.content, self.headers = status, content, headers
        self.sent: dict[str, Any] = {}

    def request(self, method: str, url: str, **sent: Any) -> "Said":
        self.sent = {"method": method, "url": url, **sent}
        return self


def asked(answer: Said, purpose: Call, *, adapter: Plain | None = None, **request: Any) -> Any:
    it = adapter or provider()
    it._local.session = answer
    return it.document(purpose, "/jobs", **request)


def test_each_purpose_has_its_method_and_what_travels_with_a_start() -> None:
    for purpose, method in ((Call.START, "POST"), (Call.CANCEL, "POST"), (Call.POLL, "GET"), (Call.RESULT, "GET")):
        answer = Said(200, b"{}")
        assert asked(answer, purpose) == {} and answer.sent["method"] == method
    answer = Said(200, b"{}")
    call = ProviderCall("", "journey", {}, {"x-own": "1"})
    asked(answer, Call.START, call=call, headers={"user-agent": "us"})
    assert answer.sent["headers"] == {"x-correlation-id": "journey", "x-own": "1", "user-agent": "us"}
    assert answer.sent["url"] == "https://plain.example/jobs"


@pytest.mark.parametrize("content", [b"", b"[]", b"7", b"<html>", b'{"a": '])
def test_an_answer_that_is_no_object_is_kept_with_its_bytes(content: bytes) -> None:
    with pytest.raises(BadAnswer) as caught:
        asked(Said(200, content), Call.POLL)
    assert caught.value.raw == content


def test_a_refusal_says_what_the_provider_says_without_our_secrets() -> None:
    content = b'{"error": {"code": "bad_key", "message": "sk_1 and whsec_1 are no keys"}}'
    with pytest.raises(ProviderDenied) as caught:
        asked(Said(401, content), Call.POLL)
    assert caught.value.detail == "401 bad_key: … and … are no keys"
    with pytest.raises(ProviderThrottled) as throttled:
        asked(Said(429, b"slow down", **{"retry-after": "7"}), Call.POLL)
    assert (throttled.value.detail, throttled.value.retry_after) == ("The provider answered 429.", 7.0)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b'{"error": {"code": "busy", "message": "later : please"}}', "503 busy: later : please"),
        (b'{"error": {"type": "busy"}}', "The provider answered 503 busy."),
        (b'{"error": {"message": "later"}}', "503: later"),
        (b'{"error": "later"}', "The provider answered 503."),
        (b"<html>", "The provider answered 503."),
        (b"", "The provider answered 503."),
    ],
)
def test_a_refusal_is_worded_from_what_there_is(content: bytes, words: str) -> None:
    with pytest.raises(ProviderError) as caught:
        asked(Said(503, content), Call.POLL)
    assert caught.value.detail == words


def test_a_start_at_a_place_that_the_options_name_is_a_persons_matter() -> None:
    class Named(Plain):
        names_a_place = True

    found = Named(Account("plain"))
    with pytest.raises(ProviderDenied, match="Correct what the options"):
        asked(Said(404, b"{}"), Call.START, adapter=found)
    with pytest.raises(NotThere):
        asked(Said(404, b"{}"), Call.POLL, adapter=found)
    with pytest.raises(ProviderError) as caught:
        asked(Said(404, b"{}"), Call.START)
    assert caught.value.code == "rejected_by_provider"


def test_pages_are_read_to_their_end_and_an_endless_list_is_a_bad_answer() -> None:
    pages = {"": (["a"], "2"), "2": ([], "3"), "3": (["b"], "")}
    assert list(all_pages(pages.__getitem__)) == [["a"], [], ["b"]]
    with pytest.raises(BadAnswer, match="does not end"):
        list(all_pages(lambda _cursor: ([], "same")))
    numbers = iter(range(1, 100))
    with pytest.raises(BadAnswer, match="does not end"):
        list(all_pages(lambda _cursor: ([], str(next(numbers))), most=10))
    assert next(numbers) == 12


def test_the_pages_of_a_result_have_one_limit_together() -> None:
    within_limit(calling.MAX_RESULT_BYTES)
    with pytest.raises(AnswerTooLarge):
        within_limit(calling.MAX_RESULT_BYTES + 1)


@pytest.mark.parametrize("value", ["", ".", ".."])
def test_an_id_that_leads_elsewhere_is_no_id(value: str) -> None:
    with pytest.raises(NotThere):
        part(value)
    assert part("a/../b?c#d %2e") == "a%2F..%2Fb%3Fc%23d%20%252e"


def test_few_jobs_are_asked_for_singly_and_one_that_cannot_be_read_keeps_no_other_back() -> None:
    jobs = [JobRef("a"), JobRef("gone"), JobRef("odd"), JobRef("a")]
    listed = provider().listed(jobs, iter(()))
    assert [(job.update.job_id, job.update.problem) for job in listed] == [("a", ""), ("odd", "its status is no text")]


def test_of_many_the_listing_is_read_until_all_are_found() -> None:
    names = [f"j{number}" for number in range(calling.FEW + 1)]
    pages = iter(
        [[ProviderUpdate(name, raw_status="listed") for name in part] for part in (names[:6], names[6:], ["x"])]
    )
    listed = provider().listed([JobRef(name) for name in names], pages)
    assert [job.update.raw_status for job in listed] == ["listed"] * len(names)
    assert next(pages)[0].job_id == "x"
