"""Calls of the adapters: what a refusal's words and headers make of it."""

import pytest

from kernel.network.openings import parse_openings
from kernel.tests.hostile import answering, response, serving
from tasks.providers.answers import Call
from tasks.providers.base import (
    Account,
    BadAnswer,
    NotThere,
    ProviderDenied,
    ProviderRejected,
    ProviderThrottled,
    ProviderUnavailable,
)
from tasks.providers.calls import Caller, job_id
from tasks.providers.openai.payloads import refusal

KEY = "sk-very-secret"


def caller(url: str) -> Caller:
    account = Account("a", url, KEY, networks=parse_openings("127.0.0.0/8"))
    return Caller(account, url.rstrip("/"), {}, refusal=refusal, denied=frozenset({"insufficient_quota"}), seconds=5)


def asked(*answer, purpose=Call.POLL, body=b""):
    with serving(answering(response(*answer, body=body))) as server:
        return caller(server.url()).document(purpose, "GET", "/x")


def test_a_code_that_a_person_has_to_mend_is_told_apart_from_too_many_calls():
    body = b'{"error": {"message": "You exceeded your quota.", "code": "insufficient_quota"}}'
    with pytest.raises(ProviderDenied, match="quota"):
        asked("429 Too Many Requests", body=body)
    body = b'{"error": {"message": "Slow down.", "code": "rate_limit_exceeded"}}'
    with pytest.raises(ProviderThrottled, match="Slow down"):
        asked("429 Too Many Requests", body=body)


@pytest.mark.parametrize(
    ("header", "seconds"),
    [("Retry-After: 7", 7.0), ("retry-after-ms: 1500", 2.0), ("retry-after-ms: soon", None), ("x: y", None)],
)
def test_when_to_come_back_is_read_in_either_spelling(header, seconds):
    with pytest.raises(ProviderThrottled) as caught:
        asked("429 Too Many Requests", header)
    assert caught.value.retry_after == seconds


def test_a_key_that_the_provider_repeats_stays_ours():
    body = f'{{"error": {{"message": "Wrong key {KEY}.", "code": "bad"}}}}'.encode()
    with pytest.raises(ProviderRejected) as caught:
        asked("400 Bad Request", body=body)
    assert KEY not in caught.value.detail and "Wrong key …" in caught.value.detail


@pytest.mark.parametrize("body", [b"<html>", b'{"error": "no"}', b"[]", b"", b'{"error": {"code": "x"}}'])
def test_a_refusal_in_other_words_is_told_by_its_status(body):
    with pytest.raises(ProviderUnavailable, match="answered 502"):
        asked("502 Bad Gateway", body=body)


@pytest.mark.parametrize("body", [b"<html>", b"[]", b""])
def test_an_answer_that_is_no_object_cannot_be_used(body):
    with pytest.raises(BadAnswer):
        asked("200 OK", body=body)


def test_lines_of_an_answer_that_says_no_are_its_error():
    with serving(
        answering(response("404 Not Found", body=b'{"error": {"message": "No such file.", "code": "x"}}'))
    ) as s:
        with pytest.raises(NotThere, match="No such file"), caller(s.url()).lines("/x") as found:
            list(found)
    with serving(answering(response("200 OK", body=b"a\nb\n"))) as server, caller(server.url()).lines("/x") as found:
        assert [line for line, _ in found] == [b"a", b"b"]


@pytest.mark.parametrize("value", [None, "", 7, "x" * 201, "a\nb", "a\x00"])
def test_an_id_that_cannot_be_asked_for_again_is_none(value):
    with pytest.raises(BadAnswer):
        job_id(value)
