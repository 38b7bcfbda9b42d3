"""Writes the hashes of all pinned packages: `.venv/bin/python .ci/hashes.py`, after a pin was changed and installed.

Every file of a pinned version counts, each platform's wheel and the source, as the package index names them: pip's own
(`PIP_INDEX_URL`, or `index-url` of its configuration), and pypi.org where it has none. Pins and
their comments in requirements.txt and requirements-dev.txt stay as they are; deploy/requirements.txt is made from the
first: what a production host needs, without the embedded servers, the sandbox's data and the tests.
"""

import ast
import json
import re
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path
from urllib.parse import urlsplit

from packaging.requirements import Requirement
from packaging.utils import InvalidSdistFilename, InvalidWheelFilename, parse_sdist_filename, parse_wheel_filename
from packaging.version import Version

ROOT = Path(__file__).resolve().parents[1]
PIP_SAYS = (":env:.index-url", "install.index-url", "global.index-url")  # the first wins, as for pip
DEFAULT_INDEX = "https://pypi.org/simple"
SIMPLE_JSON = "application/vnd.pypi.simple.v1+json"
LISTS = ("requirements.txt", "requirements-dev.txt")
DEPLOYED = "deploy/requirements.txt"
NOT_DEPLOYED = "bin/up, bin/test, bin/bench"  # the group whose packages no production host needs
BROUGHT = "Brought along by the above"
PIN = re.compile(r"^([A-Za-z0-9._-]+)==([^\s#;\\]+)\s*\\?\s*(?:#\s*(.*))?$")
PYTHONS = ("3.11.2", "3.11.9", "3.12.3", "3.13.1", "3.14.0")
SYSTEMS = (("Linux", "linux", "x86_64"), ("Linux", "linux", "aarch64"), ("Darwin", "darwin", "arm64"))
HEAD = """\
# What a production host runs on, pinned. Made by .ci/hashes.py from ../requirements.txt, where the reasons stand:
# without the embedded servers, the sandbox's data and the tests.
"""


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def pins(text: str) -> dict[str, str]:
    """Name and version of each pin."""
    found = filter(None, map(PIN.match, text.splitlines()))
    return {normal(match[1]): match[2] for match in found}


def index() -> str:
    """The package index that pip asks here, without a slash at its end."""
    argv = [sys.executable, "-m", "pip", "config", "list"]  # `get` does not see every file that `list` does
    lines = subprocess.run(argv, capture_output=True, text=True).stdout.splitlines()
    said = {name: ast.literal_eval(value) for name, _, value in (line.partition("=") for line in lines) if value}
    found = next((said[name] for name in PIP_SAYS if said.get(name)), DEFAULT_INDEX).strip().rstrip("/")
    if "@" in urlsplit(found).netloc:
        raise SystemExit("pip's index is configured with a password; set PIP_INDEX_URL to one that is read without.")
    return found


def hashes(pin: tuple[str, str], source: str) -> tuple[str, list[str]]:
    """The name, and the SHA-256 of each file that the index `source` has of this version."""
    name, version = pin
    asked = urllib.request.Request(f"{source}/{name}/", headers={"Accept": SIMPLE_JSON})
    try:
        with urllib.request.urlopen(asked, timeout=60) as answer:
            is_json = answer.headers.get_content_type() == SIMPLE_JSON
            files = json.load(answer)["files"] if is_json else None
    except OSError as error:
        words = f"{source} cannot be asked about {name}: {error}. Set PIP_INDEX_URL to an index that can."
        raise SystemExit(words) from None
    if files is None:
        raise SystemExit(f"{source} does not speak JSON (PEP 691). Set PIP_INDEX_URL to an index that does.")
    found = sorted(row["hashes"]["sha256"] for row in files if _version_of(row["filename"]) == Version(version))
    if not found:
        raise SystemExit(f"{name}=={version}: the index has no such version")
    return name, found


def _version_of(filename: str) -> Version | None:
    try:
        return parse_wheel_filename(filename)[1] if filename.endswith(".whl") else parse_sdist_filename(filename)[1]
    except (InvalidWheelFilename, InvalidSdistFilename):
        return None


def with_hashes(text: str, known: dict[str, list[str]]) -> str:
    """The list, each pin followed by one line of hashes; a comment beside a pin goes above it."""
    lines = []
    for line in text.splitlines():
        if line.startswith(" "):
            continue  # the hashes of before
        match = PIN.match(line)
        if match is None:
            lines.append(line)
            continue
        if match[3]:
            lines.append(f"#   {match[3]}")
        marks = " ".join(f"--hash=sha256:{each}" for each in known[normal(match[1])])
        lines += [f"{match[1]}=={match[2]} \\", f"    {marks}"]
    return "\n".join(lines) + "\n"


def needed_by(names: set[str]) -> set[str]:
    """These and all that they bring along, on any of the systems and Pythons that we run on."""
    found: set[str] = set()
    waiting = [(name, "") for name in names]
    seen = set(waiting)
    while waiting:
        name, extra = waiting.pop()
        found.add(name)
        for requirement in _requirements(name, extra):
            for each in [(normal(requirement.name), extra) for extra in ("", *requirement.extras)]:
                if each not in seen:
                    seen.add(each)
                    waiting.append(each)
    return found


def _requirements(name: str, extra: str) -> Iterator[Requirement]:
    try:
        listed = requires(name) or []
    except PackageNotFoundError:
        return
    for requirement in map(Requirement, listed):
        if requirement.marker is None or any(requirement.marker.evaluate(each) for each in _environments(extra)):
            yield requirement


def _environments(extra: str) -> Iterator[dict[str, str]]:
    for python in PYTHONS:
        for system, platform, machine in SYSTEMS:
            yield {
                "python_full_version": python,
                "python_version": ".".join(python.split(".")[:2]),
                "platform_system": system,
                "sys_platform": platform,
                "platform_machine": machine,
                "extra": extra,
            }


def chosen(text: str) -> set[str]:
    """What requirements.txt lists for its own sake, and production needs."""
    group, found = "", set()
    previous = ""
    for line in text.splitlines():
        if line.startswith("# ") and not previous:
            group = line[2:]
        if (match := PIN.match(line)) and group not in (NOT_DEPLOYED, BROUGHT):
            found.add(normal(match[1]))
        previous = line
    return found


def deployed(text: str, names: set[str]) -> str:
    """requirements.txt's pins of these names, in its order."""
    kept = [line for line in text.splitlines() if (match := PIN.match(line)) and normal(match[1]) in names]
    return HEAD + "\n" + "\n".join(line.split("#")[0].rstrip(" \\") for line in kept) + "\n"


def main() -> None:
    texts = {name: (ROOT / name).read_text() for name in LISTS}
    pinned = {name: version for text in texts.values() for name, version in pins(text).items()}
    missing = needed_by(set(pinned)) - {*pinned, "pip"}  # every venv has its pip
    if missing:
        raise SystemExit(f"not pinned, though something needs it somewhere: {', '.join(sorted(missing))}")
    texts[DEPLOYED] = deployed(texts[LISTS[0]], needed_by(chosen(texts[LISTS[0]])))
    source = index()
    with ThreadPoolExecutor(4) as pool:
        known = dict(pool.map(lambda pin: hashes(pin, source), pinned.items()))
    for name, text in texts.items():
        (ROOT / name).write_text(with_hashes(text, known))
        sys.stdout.write(f"{name}: {len(pins(text))} pins, {sum(len(known[each]) for each in pins(text))} hashes\n")


if __name__ == "__main__":
    main()
