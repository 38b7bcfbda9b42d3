"""Events come in by one door, and a type of our own is spelled in one place: the catalogue that documents it."""

import ast
import re

from delivery.events import OUR_TYPES
from delivery.policy.catalogue import CATALOGUE
from tests.house.source import called, modules, place

CATALOGUED_IN = "delivery/policy/catalogue.py"
A_TYPE = re.compile(rf"(?:{'|'.join(re.escape(word) for word in OUR_TYPES)})[a-z_]*")
MAKES = {"create", "bulk_create", "get_or_create", "update_or_create"}


def test_no_type_of_ours_is_spelled_outside_of_the_catalogue():
    """A prefix alone is found too, so that no type can be put together from parts."""
    found = [
        f"{place(module, text)} {text.value}"
        for module in modules()
        if module.name != CATALOGUED_IN
        for text in module.strings()
        if A_TYPE.fullmatch(text.value) and text.value not in OUR_TYPES and text.value not in _log_words(module)
    ]
    assert found == [], "take the name from delivery.policy.catalogue, and declare it there"


def _log_words(module) -> set[str]:
    """What is only said to the log: `log.info("operator_verb", verb="endpoint.replay")`."""
    said = [call for call in module.nodes(ast.Call) if ast.unparse(call.func).startswith("log.")]
    return {word.value for call in said for word in ast.walk(call) if isinstance(word, ast.Constant)}


def test_the_prefixes_are_those_of_the_catalogue():
    assert {name.partition(".")[0] + "." for name in CATALOGUE} == set(OUR_TYPES)


def test_an_event_is_made_and_stored_only_by_the_outbox():
    """`from delivery.models import Event` and then `Event(…)`, `Event.objects.create(…)`, or its insert."""
    found = set()
    for module in modules():
        if not any(
            node.module == "delivery.models" and any(one.name == "Event" for one in node.names)
            for node in module.nodes(ast.ImportFrom)
        ):
            continue
        for call in module.nodes(ast.Call):
            words = ast.unparse(call.func)
            if words == "Event" or (words.startswith("Event.objects") and called(call) in MAKES):
                found.add(module.name)
    assert found == {"delivery/events.py"}
    users = {module.name for module in modules() for call in module.nodes(ast.Call) if called(call) == "insert_events"}
    assert users == {"delivery/events.py"}
