"""OpenAI's own client against the emulation: start, read, list, page, cancel, upload, download, verify."""

from __future__ import annotations

import json
from typing import Any

import pytest
from openai import APIStatusError, AuthenticationError, NotFoundError, OpenAI

from sandbox.tests.conftest import KEY, SECRET, Running, until

SCORE = 'Judge it: {"score": a number}\n\n{"business": {"name": "Bar"}}'


def client(sandbox: Running, key: str = KEY) -> OpenAI:
    return OpenAI(api_key=key, base_url=f"{sandbox.provider}/openai/v1", max_retries=0, webhook_secret=SECRET)


@pytest.fixture
def openai(sandbox: Running) -> OpenAI:
    return client(sandbox)


def respond(openai: OpenAI, **more: Any) -> Any:
    return openai.responses.create(model="gpt-x", input=SCORE, background=True, **more)


def batch(openai: OpenAI, items: int = 2, model: str = "gpt-x") -> Any:
    rows = [
        {"custom_id": f"item-{n}", "method": "POST", "url": "/v1/responses", "body": {"model": model, "input": SCORE}}
        for n in range(items)
    ]
    content = "".join(json.dumps(row) + "\n" for row in rows).encode()
    file = openai.files.create(file=("rows.jsonl", content), purpose="batch")
    return openai.batches.create(
        input_file_id=file.id, endpoint="/v1/responses", completion_window="24h", metadata={"ours": "1"}
    )


def lines(openai: OpenAI, file_id: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in openai.files.content(file_id).text.splitlines()]


def test_a_background_response_is_read_until_it_is_completed(openai: OpenAI) -> None:
    begun = respond(openai, metadata={"ours": "7"})
    assert begun.status in ("queued", "in_progress") and begun.metadata == {"ours": "7"}
    done = until(lambda: (r := openai.responses.retrieve(begun.id)).status == "completed" and r)
    assert 0 <= json.loads(done.output_text)["score"] <= 100


def test_a_running_response_is_cancelled_and_a_completed_one_is_not(sandbox: Running, openai: OpenAI) -> None:
    done = respond(openai)
    until(lambda: openai.responses.retrieve(done.id).status == "completed")
    with pytest.raises(APIStatusError) as caught:
        openai.responses.cancel(done.id)
    assert caught.value.status_code == 400
    sandbox.faults(min_ms=60_000, max_ms=60_000)
    assert openai.responses.cancel(respond(openai).id).status == "cancelled"


def test_a_batch_brings_a_line_for_each_of_its_items(openai: OpenAI) -> None:
    begun = batch(openai, 3)
    assert begun.status == "validating" and begun.metadata == {"ours": "1"}
    done = until(lambda: (b := openai.batches.retrieve(begun.id)).status == "completed" and b)
    assert (done.request_counts.total, done.request_counts.completed) == (3, 3)
    rows = lines(openai, done.output_file_id)
    assert {row["custom_id"] for row in rows} == {"item-0", "item-1", "item-2"}
    assert all(row["response"]["status_code"] == 200 for row in rows) and done.error_file_id is None


def test_a_batch_that_is_cancelled_or_expires_names_what_was_not_done(sandbox: Running, openai: OpenAI) -> None:
    late = batch(openai, 1, "too-slow")
    assert until(lambda: (b := openai.batches.retrieve(late.id)).status == "expired" and b).output_file_id
    sandbox.faults(min_ms=60_000, max_ms=60_000)
    begun = batch(openai, 2)
    openai.batches.cancel(begun.id)
    done = until(lambda: (b := openai.batches.retrieve(begun.id)).status == "cancelled" and b)
    assert done.output_file_id is None
    assert [row["error"]["code"] for row in lines(openai, done.error_file_id)] == ["batch_cancelled"] * 2


def test_a_batch_of_a_bad_file_fails_and_says_in_which_line(openai: OpenAI) -> None:
    file = openai.files.create(file=("rows.jsonl", b'{"custom_id": "a"}\n'), purpose="batch")
    done = openai.batches.create(input_file_id=file.id, endpoint="/v1/responses", completion_window="24h")
    assert done.status == "failed" and done.errors and done.errors.data
    assert (done.errors.data[0].code, done.errors.data[0].line) == ("invalid_json_line", 1)


def test_batches_are_listed_newest_first_page_by_page(openai: OpenAI) -> None:
    ids = [batch(openai, 1).id for _ in range(5)]
    assert [one.id for one in openai.batches.list(limit=2)] == ids[::-1]


def test_a_file_that_is_deleted_is_gone(openai: OpenAI) -> None:
    file = openai.files.create(file=("rows.jsonl", b"{}\n"), purpose="batch")
    assert openai.files.delete(file.id).deleted
    with pytest.raises(NotFoundError):
        openai.files.content(file.id)


def test_refusals_are_worded_as_the_client_expects(sandbox: Running, openai: OpenAI) -> None:
    with pytest.raises(AuthenticationError):
        respond(client(sandbox, "wrong"))
    with pytest.raises(NotFoundError):
        openai.responses.retrieve("resp_never_was")
    with pytest.raises(NotFoundError):
        openai.batches.retrieve("batch_never_was")
    with pytest.raises(APIStatusError) as caught:
        openai.responses.create(model="no-such-model", input="x", background=True)
    assert caught.value.code == "model_not_found"


def test_webhooks_go_to_the_projects_address_and_the_client_verifies_them(sandbox: Running, openai: OpenAI) -> None:
    events: Any = ["response.completed", "batch.completed"]
    made = openai.webhooks.create(name="ours", url=f"{sandbox.receiver}/ok/openai", event_types=events)
    assert made.signing_secret == SECRET
    ids = {respond(openai).id, batch(openai, 2).id}
    entries = until(lambda: (found := sandbox.journal(path="/ok/openai")) and len(found) == 2 and found)
    told = {openai.webhooks.unwrap(entry["body"], headers_of(entry)).data.id for entry in entries}  # type: ignore[union-attr]
    assert told == ids


def headers_of(entry: dict[str, Any]) -> dict[str, str]:
    found = entry["headers"]
    return dict(found) if not isinstance(found, dict) else found
