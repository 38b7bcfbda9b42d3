"""Code that nothing calls: vulture's findings, less what a framework calls by name. Tests count for nothing here, so
code that only a test keeps alive is found as well. Ends with status 1 and the places, where there is any.

A name counts as called where a string or a template spells it (`list_display`, `reverse`, a settings path); what
frameworks call by convention stands in `CONVENTIONS`, by decorator in `DECORATORS`. Attributes of classes (fields of
models, of serializers, of `Meta`) are the frameworks' and are not looked at; constants of modules are.
"""

import ast
import re
import sys
from fnmatch import fnmatch
from pathlib import Path

from vulture import Vulture

ROOT = Path(__file__).resolve().parent.parent
LOOKED_AT = ("config", "console", "webhooks", "tasks", "delivery", "kernel", "sandbox", "bench", "bin/roundtrip_up")
LEFT_OUT = ("*/tests/*", "*/migrations/*")
KINDS = ("function", "method", "class", "property", "import", "unreachable_code")

DECORATORS = [
    "@admin.register",
    "@register*",
    "@action",
    "@display",
    "@shared_task",
    "@app.task",
    "@*.connect",
    "@extend_schema*",
    "@checks.*",
    "@worker_*",
    "@beat_*",
]
CONVENTIONS = (
    *("Command", "*Config"),  # Django finds them by name
    *(
        "has_*_permission",
        "get_*",
        "validate_*",
        "clean_*",
        "lookups",
        "response_add",
        "process_exception",
    ),  # the admin's and serializers'
    *("list", "retrieve", "create", "partial_update", "destroy", "has_permission"),  # REST framework's
    *("authenticate_header", "*Scheme"),  # its authentication, and drf-spectacular's words for it
    *("value_to_string", "from_db_value", "_new_conn", "disconnect"),  # a model field's, urllib3's, Channels'
    *("connection_made", "connection_lost", "pause_writing", "resume_writing", "data_received"),  # asyncio's
    *("on_*", "process_exception"),  # httptools', and a middleware's
    *("_default_now", "_validate_session_key"),  # django-celery-beat's, Django's sessions'
    *("_get_session_from_db", "_aget_session_from_db"),
    *("application", "urlpatterns", "websocket_urlpatterns", "handler*", "app_name"),  # the frame of Django
)
ALLOWED = ("give_back", "next_token_at")  # the bucket's arithmetic is one whole
SETTINGS = (
    "config/settings.py",
    "config/unfold.py",
    "config/queues.py",
    "config/formats/*",
    "sandbox/settings.py",
    "bench/baselines/published/*",
)


def spelled() -> set[str]:
    """Every word that a string of the code or a template holds."""
    words: set[str] = set()
    for place in LOOKED_AT:
        for path in (ROOT / place).rglob("*.py"):
            if not any(fnmatch(str(path), pattern) for pattern in LEFT_OUT):
                words |= _strings(ast.parse(path.read_text()))
    for path in (ROOT / "templates").rglob("*.html"):
        words |= set(re.findall(r"\w+", path.read_text()))
    return words


def _strings(tree: ast.AST) -> set[str]:
    """The identifiers that plain strings are made of; docstrings and sentences are no calls."""
    texts = (node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str))
    return {word for text in texts if " " not in text for word in re.findall(r"\w+", text)}


def is_a_finding(item: object, words: set[str]) -> bool:
    name, path = item.name, str(item.filename.relative_to(ROOT))
    if name in words or name in ALLOWED or any(fnmatch(name, pattern) for pattern in CONVENTIONS):
        return False
    if item.typ == "variable":
        line = item.filename.read_text().splitlines()[item.first_lineno - 1]
        return not line[:1].isspace() and not any(fnmatch(path, pattern) for pattern in SETTINGS)
    return item.typ in KINDS


def main() -> int:
    looker = Vulture(ignore_decorators=DECORATORS)
    looker.scavenge([str(ROOT / place) for place in LOOKED_AT], exclude=list(LEFT_OUT))
    words = spelled()
    found = [item for item in looker.get_unused_code(min_confidence=60) if is_a_finding(item, words)]
    for item in found:
        print(f"{item.filename.relative_to(ROOT)}:{item.first_lineno}: nothing uses the {item.typ} {item.name}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
