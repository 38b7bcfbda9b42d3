"""What a model is asked, and how its answer is read."""

import json

import pytest

from tasks.kinds import registry
from tasks.providers import prompts
from tasks.providers.base import BadAnswer, ProviderDenied, ProviderRejected

INPUT = {"business": {"name": "Bar $input {x}"}}


@pytest.mark.parametrize("kind", sorted(prompts.KINDS))
def test_the_whole_input_is_in_the_prompt_and_the_schema_asks_for_what_the_kind_needs(kind):
    assert json.dumps(INPUT) in prompts.words(kind, INPUT, {})
    assert kind in registry.KINDS
    schema = prompts.PROMPTS[kind].schema
    assert schema["required"] == list(schema["properties"])


def test_ones_own_words_take_the_place_of_the_kinds():
    assert prompts.words("scoring", INPUT, {"prompt": "Judge $input now, for $5."}) == (
        f"Judge {json.dumps(INPUT)} now, for $5."
    )
    assert prompts.words("scoring", INPUT, {"prompt": "Judge."}) == f"Judge.\n\n{json.dumps(INPUT)}"
    assert prompts.words("scoring", INPUT, {"prompt": "  "}) == prompts.words("scoring", INPUT, {})


def test_without_words_or_model_nothing_is_asked():
    with pytest.raises(ProviderRejected):
        prompts.words("map_search", INPUT, {})
    for options in ({}, {"model": ""}, {"model": 7}):
        with pytest.raises(ProviderDenied):
            prompts.model(options)


@pytest.mark.parametrize(
    ("value", "tokens"), [(500, 500), (0, prompts.MAX_TOKENS), (True, prompts.MAX_TOKENS), ("9", prompts.MAX_TOKENS)]
)
def test_the_most_tokens_are_a_number_or_ours(value, tokens):
    assert prompts.max_tokens({"max_tokens": value}) == tokens


def test_an_answer_is_mended_where_a_text_could_not_be_stored():
    found = prompts.read("scoring", '{"score": 1, "reasons": ["a\\u0000b"]}')
    assert found.value["reasons"] == ["a\ufffdb"] and found.note and found.raw


@pytest.mark.parametrize("answer", ["", "```json\n```", '{"score": NaN, "reasons": []}', '{"score": 1, "score": 2}'])
def test_an_answer_that_cannot_be_understood_one_way_is_kept(answer):
    with pytest.raises(BadAnswer) as caught:
        prompts.read("scoring", answer)
    assert caught.value.raw == answer.encode()
