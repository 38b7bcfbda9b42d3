"""Batches from files: CSV whose columns are a kind's input fields, or JSON lines. All rows are right, or none is taken.

`reference` is a column of its own; in CSV a nested field has a dotted column, such as `business.name`.
"""

import csv
import io
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from kernel.parsing import HostileJSON, strict_loads
from tasks.errors import InvalidInput
from tasks.kinds import Kind
from tasks.models import MAX_BATCH

Item = dict[str, Any]
Row = tuple[int, dict[str, Any], str]  # line number, input, reference
MAX_ERRORS = 100


@dataclass(frozen=True)
class RowError:
    """What is wrong with one field of one line."""

    line: int
    field: str
    detail: str

    def __str__(self) -> str:
        where = f"line {self.line}: " if self.line else ""
        return f"{where}{self.field}: {self.detail}" if self.field else f"{where}{self.detail}"


class BadFile(Exception):
    """The file cannot become a batch; `errors` has up to a hundred reasons."""

    def __init__(self, errors: list[RowError]) -> None:
        super().__init__("; ".join(map(str, errors[:3])))
        self.errors = errors


def items_from(content: bytes, kind: Kind, *, json_lines: bool = False) -> list[Item]:
    """The `{input, reference}` items of a file's content (UTF-8, with or without BOM). Raises BadFile."""
    text = _decoded(content)
    rows = _json_rows(text) if json_lines else _csv_rows(text, kind)
    items, errors = [], []
    for line, given, reference in rows:
        try:
            items.append({"input": kind.checked(given), "reference": reference})
        except InvalidInput as error:
            errors += [RowError(line, row["field"], row["detail"]) for row in error.errors]
        if len(reference) > 200:
            errors.append(RowError(line, "reference", "This may have at most 200 characters."))
        if len(errors) >= MAX_ERRORS:
            break
    if errors:
        raise BadFile(errors[:MAX_ERRORS])
    if not items:
        raise BadFile([RowError(0, "", "The file has no rows.")])
    if len(items) > MAX_BATCH:
        raise BadFile([RowError(0, "", f"A batch may have {MAX_BATCH} tasks; the file has {len(items)}. Split it.")])
    return items


def _decoded(content: bytes) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise BadFile([RowError(line, "", "This is not UTF-8. Save the file as UTF-8 and try again.")]) from None


def _csv_rows(text: str, kind: Kind) -> Iterator[Row]:
    reader = csv.DictReader(io.StringIO(text, newline=""), delimiter=_delimiter(text), strict=True)
    try:
        names = [name.strip() for name in reader.fieldnames or []]
        _check_header(names, kind)
        reader.fieldnames = names
        for row in reader:
            line = reader.line_num
            if row.pop(None, None):  # type: ignore[call-overload]
                raise BadFile([RowError(line, "", f"This line has more than the {len(names)} columns of the header.")])
            reference = "" if "reference" in kind.schema["properties"] else (row.pop("reference", None) or "").strip()
            if any(value and value.strip() for value in row.values()):
                yield line, kind.from_texts(row), reference
    except csv.Error as error:
        line = reader.reader.line_num  # DictReader's own is the last whole row's
        raise BadFile([RowError(line, "", f"This is not CSV: {error}.")]) from None


def _delimiter(text: str) -> str:
    """Comma; or what the header has instead of one: spreadsheets of half the world write semicolons."""
    header = text.partition("\n")[0]
    return next((mark for mark in (",", ";", "\t") if mark in header), ",")


def _check_header(names: list[str], kind: Kind) -> None:
    known = {*columns_of(kind), "reference"}
    unknown = [name for name in names if name not in known]
    doubled = sorted({name for name in names if names.count(name) > 1})
    words = f"There is no such column for {kind.name}; there are {', '.join(sorted(known))}."
    errors = [RowError(1, name or "(unnamed)", words) for name in unknown]
    errors += [RowError(1, name, "This column occurs twice.") for name in doubled]
    if errors:
        raise BadFile(errors[:MAX_ERRORS])


def columns_of(kind: Kind) -> list[str]:
    """The columns a CSV of this kind may have: input fields, nested ones dotted."""
    return list(_columns(kind.schema, ""))


def _columns(schema: Any, prefix: str) -> Iterator[str]:
    for name, rule in schema["properties"].items():
        if rule.get("type") == "object":
            yield from _columns(rule, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}"


def _json_rows(text: str) -> Iterator[Row]:
    """One object a line: the input itself, or `{"input": …, "reference": …}`."""
    for line, content in enumerate(text.split("\n"), start=1):
        if not content.strip():
            continue
        try:
            row = strict_loads(content.encode())
        except HostileJSON as error:
            raise BadFile([RowError(line, "", f"{error}.")]) from None
        if isinstance(row, dict) and "input" in row and set(row) <= {"input", "reference"}:
            reference = row.get("reference") or ""
            if not isinstance(reference, str):
                raise BadFile([RowError(line, "reference", "This must be text.")])
            yield line, row["input"], reference
        else:
            yield line, row, ""
