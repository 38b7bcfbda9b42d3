"""What each status code means for each call, cell by cell: written down once more, by hand."""

from datetime import UTC, datetime

import pytest

from kernel.network.http import BodyTooLarge, ConnectionFailed, DeadlineExceeded
from tasks.providers import answers, base
from tasks.providers.answers import Call, Meaning

NOW = datetime(2026, 5, 1, 12, 0, tzinfo=UTC)
FINE, BAD, ACCOUNT, MANY = Meaning.FINE, Meaning.BAD_INPUT, Meaning.ACCOUNT, Meaning.THROTTLED
WAIT, UNKNOWN, NOT_THERE, GONE = Meaning.WAIT, Meaning.UNKNOWN, Meaning.NOT_THERE, Meaning.GONE

CELLS = {  # status: start, poll, result, cancel
    200: (FINE, FINE, FINE, FINE),
    201: (FINE, FINE, FINE, FINE),
    202: (FINE, FINE, NOT_THERE, FINE),
    204: (FINE, FINE, NOT_THERE, FINE),
    302: (UNKNOWN, WAIT, WAIT, WAIT),
    303: (UNKNOWN, WAIT, WAIT, WAIT),
    400: (BAD, BAD, BAD, BAD),
    401: (ACCOUNT, ACCOUNT, ACCOUNT, ACCOUNT),
    402: (ACCOUNT, ACCOUNT, ACCOUNT, ACCOUNT),
    403: (ACCOUNT, ACCOUNT, ACCOUNT, ACCOUNT),
    404: (BAD, NOT_THERE, NOT_THERE, NOT_THERE),
    407: (ACCOUNT, ACCOUNT, ACCOUNT, ACCOUNT),
    408: (UNKNOWN, WAIT, WAIT, WAIT),
    409: (BAD, BAD, NOT_THERE, BAD),
    410: (BAD, GONE, GONE, GONE),
    413: (BAD, BAD, BAD, BAD),
    415: (BAD, BAD, BAD, BAD),
    422: (BAD, BAD, BAD, BAD),
    429: (MANY, MANY, MANY, MANY),
    451: (ACCOUNT, ACCOUNT, ACCOUNT, ACCOUNT),
    460: (UNKNOWN, WAIT, WAIT, WAIT),
    499: (UNKNOWN, WAIT, WAIT, WAIT),
    501: (WAIT, WAIT, WAIT, WAIT),
    503: (WAIT, WAIT, WAIT, WAIT),
    505: (WAIT, WAIT, WAIT, WAIT),
    511: (WAIT, WAIT, WAIT, WAIT),
    521: (WAIT, WAIT, WAIT, WAIT),
    523: (WAIT, WAIT, WAIT, WAIT),
    525: (WAIT, WAIT, WAIT, WAIT),
    526: (WAIT, WAIT, WAIT, WAIT),
    529: (WAIT, WAIT, WAIT, WAIT),
}


def expected(status):
    if status in CELLS:
        return CELLS[status]
    if 200 <= status < 300:
        return (FINE,) * 4
    return (UNKNOWN if status >= 500 else WAIT, WAIT, WAIT, WAIT)


@pytest.mark.parametrize("column", range(4))
def test_every_code_means_what_is_written_here(column):
    call = list(Call)[column]
    found = {status: answers.meaning(status, call) for status in range(100, 1000)}
    assert found == {status: expected(status)[column] for status in range(100, 1000)}


def test_only_seven_codes_are_for_good_at_a_start():
    for_good = {status for status in answers.EVERY_CODE if answers.meaning(status, Call.START) == BAD}
    assert for_good == {400, 404, 409, 410, 413, 415, 422}


@pytest.mark.parametrize("status", [300, 301, 307, 405, 406, 421, 423, 425, 426, 428, 431])
def test_what_says_nothing_of_the_input_waits(status):
    assert {answers.meaning(status, call) for call in Call} == {WAIT}


def test_a_promise_of_the_provider_goes_before_the_doubt_and_changes_nothing_else():
    promised = frozenset({500})
    assert answers.meaning(500, Call.START) == UNKNOWN
    assert answers.meaning(500, Call.START, nothing_done=promised) == WAIT
    assert answers.meaning(502, Call.START, nothing_done=promised) == UNKNOWN
    assert answers.meaning(400, Call.START, nothing_done=frozenset({400})) == BAD


@pytest.mark.parametrize(
    ("status", "call", "error"),
    [
        (422, Call.START, base.ProviderRejected),
        (402, Call.START, base.ProviderDenied),
        (429, Call.POLL, base.ProviderThrottled),
        (503, Call.RESULT, base.ProviderUnavailable),
        (504, Call.START, base.OutcomeUnknown),
        (404, Call.RESULT, base.NotThere),
        (410, Call.RESULT, base.Gone),
    ],
)
def test_each_meaning_has_its_error_with_the_wait_that_was_asked_for(status, call, error):
    headers = {"retry-after": "Fri, 01 May 2026 12:02:00 GMT", "date": "Fri, 01 May 2026 12:01:00 GMT"}
    found = answers.error_for(status, call, "words", headers=headers, now=NOW)
    assert type(found) is error and (found.detail, found.retry_after) == ("words", 60.0)


def test_a_good_answer_is_no_error():
    assert answers.error_for(201, Call.START, "words", headers={}, now=NOW) is None


@pytest.mark.parametrize("call", list(Call))
def test_a_call_that_was_cut_off_is_unknown_only_where_it_may_have_started_something(call):
    sent, unsent = DeadlineExceeded("late", maybe_sent=True), ConnectionFailed("refused", maybe_sent=False)
    assert type(answers.failed(unsent, call)) is base.ProviderUnavailable
    unknown = base.OutcomeUnknown if call == Call.START else base.ProviderUnavailable
    assert type(answers.failed(sent, call)) is unknown


def test_an_answer_that_is_too_large_is_told_as_that_except_to_a_start_which_may_have_been_obeyed():
    error = BodyTooLarge("too much", maybe_sent=True)
    assert type(answers.failed(error, Call.RESULT)) is base.AnswerTooLarge
    assert type(answers.failed(error, Call.START)) is base.OutcomeUnknown


def test_the_table_for_the_documents_has_every_code_once():
    spans = [[int(part) for part in codes.split("–")] for codes, _ in answers.table()]
    listed = [status for span in spans for status in range(span[0], span[-1] + 1)]
    assert listed == list(range(100, 1000))
    assert dict(answers.table())["502"] == dict(zip(Call, (UNKNOWN, WAIT, WAIT, WAIT), strict=True))
