"""What an e-mail of a stranger may hold: no left-over field, and nothing that keeps the worker busy for minutes."""

import pytest

from tasks import kinds
from tasks.kinds import acceptance

GIVEN = {"business": {"name": "Bar {Null}"}}


def judged(body: str, subject: str = "Hello") -> str:
    return str(kinds.get("email_generation").broken(GIVEN, {"subject": subject, "body": body}) or "")


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


@pytest.mark.parametrize(
    ("kind", "result", "rule"),
    [
        ("map_search", {"places": "none"}, "is_a_list_of_places"),
        ("map_search", {"places": [{}, {}]}, "no_more_than_asked"),
        ("map_search", {"places": [{"name": " "}]}, "every_place_has_a_name"),
        ("map_search", {"places": [{"name": "Bar", "lat": 91, "lon": 0}]}, "every_place_is_on_earth"),
        ("email_generation", {"subject": "Hello"}, "has_subject_and_body"),
        ("email_generation", {"subject": "a\nb", "body": "x"}, "subject_is_one_line"),
        ("email_generation", {"subject": "a", "body": "Dear {{name}}"}, "no_field_is_left_over"),
        ("scoring", {"score": 101}, "score_is_from_0_to_100"),
        ("batch_report", {}, "has_counts"),
    ],
)
def test_the_first_rule_that_is_broken_is_named(kind, result, rule):
    broken = kinds.get(kind).broken({"limit": 1}, result)
    assert broken is not None and broken.rule == rule and str(broken).startswith(f"{rule}: ")


def test_a_rule_that_cannot_judge_counts_as_broken():
    def trips(_given, result):
        return result["no such"]

    kind = kinds.Kind("any", "Any", {}, (kinds.ResultRule("trips", trips),))
    assert str(kind.broken({}, {})) == "trips: The result has a form that this rule cannot judge (KeyError)."


@pytest.mark.parametrize("rules", [acceptance, (acceptance._has_counts,), (kinds.ResultRule("Bad Name", len),)])
def test_what_cannot_be_rules_is_refused_at_the_start(rules):
    with pytest.raises(ValueError, match="rules of 'any'"):
        kinds.register(kinds.Kind("any", "Any", {}, rules))
    assert not kinds.exists("any")
