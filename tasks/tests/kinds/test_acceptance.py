"""What an e-mail of a stranger may hold: no left-over field, and nothing that keeps the worker busy for minutes."""

import pytest

from tasks.kinds import acceptance

GIVEN = {"business": {"name": "Bar {Null}"}}


def judged(body: str, subject: str = "Hello") -> str:
    return acceptance.email_generation(GIVEN, {"subject": subject, "body": body})


@pytest.mark.parametrize(
    "left",
    ["{{name}}", "{{ first\nname }}", "{name}", "{business.name}", "${name}", "$name", "%NAME%", "<% name %>", "[Name]",
     "[your company]", "{{#if x}}a{{/if}}", "{{{name}}}"],
)  # fmt: skip
def test_a_left_over_field_is_named(left):
    assert "placeholder" in judged(f"Dear {left}, hello.")
    assert "placeholder" in judged("Hello.", subject=f"Dear {left}") or "\n" in left


@pytest.mark.parametrize(
    "text", ["Bar {Null} is fine.", "It costs $5.", "100% sure, 5%.", "a {{ b", "}} {{", "x <% y", "${"]
)
def test_ordinary_text_is_no_field(text):
    assert judged(text) == ""


@pytest.mark.parametrize(
    "piece", ["{{", "{", "${", "<%", "%>{{"[:2] + "{", "{a", "{a ", "%a ", "[your ", "$ ", "{{ }", "<% %"]
)
def test_a_body_full_of_beginnings_is_judged_at_once(piece):
    """Read from each beginning to the end, the largest of these would take many minutes."""
    body = (piece * acceptance.MAX_BODY)[: acceptance.MAX_BODY]
    assert judged(body) == ""


def test_a_body_beyond_the_limit_is_refused_unread():
    assert "more than 100000" in judged("{" * (acceptance.MAX_BODY + 1))
