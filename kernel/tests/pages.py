"""What a browser would post for a page: every field of its form, hidden ones too, with the value that is shown."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import Any


class _Form(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.values: dict[str, list[str]] = {}
        self.inside = ""
        self.name = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {key: value or "" for key, value in attrs}
        name, kind = found.get("name", ""), found.get("type", "text")
        if tag == "textarea" and name:
            self.inside, self.name = "textarea", name
            self.values.setdefault(name, []).append("")
        elif tag == "select":
            self.inside, self.name = "select", name
        elif tag == "option" and self.inside == "select" and self.name and "selected" in found:
            self.values.setdefault(self.name, []).append(found.get("value", ""))
        elif tag == "input" and name and kind not in ("submit", "button", "file"):
            if kind in ("checkbox", "radio") and "checked" not in found:
                return
            self.values.setdefault(name, []).append(found.get("value", "on" if kind == "checkbox" else ""))

    def handle_endtag(self, tag: str) -> None:
        if tag in ("textarea", "select"):
            self.inside = self.name = ""

    def handle_data(self, data: str) -> None:
        if self.inside == "textarea":
            text = self.values[self.name][-1] + data
            self.values[self.name][-1] = text


def fields_of(answer: Any) -> dict[str, Any]:
    """Names and values of the form on this page; lists where a name occurs several times."""
    form = _Form()
    form.feed(answer.content.decode())
    form.close()
    values = {
        name: [text.removeprefix("\n").replace("\n", "\r\n") for text in found] for name, found in form.values.items()
    }
    return {name: found if len(found) > 1 else found[0] for name, found in values.items()}
