"""The OpenAPI document, in both dialects, before two linters: Redocly's recommended rules, Spectral's `spectral:oas`.

Neither may find anything: no error and no warning. The linters are npm packages, pinned with all they need in
`.ci/openapi/package-lock.json`, and kept outside of the clone (`XDG_CACHE_HOME`). Without npm or its registry the check
is skipped, and says so; a linter that finds something, or breaks, ends it with status 1.
"""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HERE = ROOT / ".ci" / "openapi"
DIALECTS = ("3.1", "3.0")
INSTALL_SECONDS, LINT_SECONDS = 300, 120
QUIET = {"REDOCLY_TELEMETRY": "off", "REDOCLY_SUPPRESS_UPDATE_NOTICE": "true", "NO_COLOR": "1"}


class Skipped(Exception):
    """The linters cannot be had here."""


def installed() -> Path:
    """The folder of the linters' programs; installed once for each lockfile. Raises Skipped."""
    if not (shutil.which("node") and shutil.which("npm")):
        raise Skipped("there is no node or no npm")
    lock = (HERE / "package-lock.json").read_bytes()
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "roundtrip"
    kept = cache / f"openapi-linters-{hashlib.sha256(lock).hexdigest()[:16]}"
    if not kept.exists():
        cache.mkdir(parents=True, exist_ok=True)
        making = Path(tempfile.mkdtemp(prefix="making-", dir=cache))
        try:
            _install(making)
            making.rename(kept)
        except OSError:
            if not kept.exists():  # another run was quicker, or there is no room
                raise
        finally:
            shutil.rmtree(making, ignore_errors=True)
    return kept / "node_modules" / ".bin"


def _install(folder: Path) -> None:
    for name in ("package.json", "package-lock.json"):
        shutil.copy(HERE / name, folder / name)
    command = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=INSTALL_SECONDS, check=False)
    if done.returncode == 0:
        return
    ping = subprocess.run(["npm", "ping"], capture_output=True, timeout=INSTALL_SECONDS, check=False)
    if ping.returncode:
        raise Skipped("the npm registry does not answer")
    sys.exit(f"npm ci failed:\n{done.stderr[-2000:]}")


def write(folder: Path) -> list[Path]:
    """The document as it is served, in each dialect."""
    sys.path.insert(0, str(ROOT))
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
    os.environ.setdefault("ROUNDTRIP_ENV", "test")
    import django

    django.setup()
    from django.test import Client

    paths = []
    for dialect in DIALECTS:
        answer = Client().get(f"/api/v1/schema/?format=json&openapi={dialect}")
        assert answer.status_code == 200, answer.content
        path = folder / f"openapi-{dialect}.json"
        path.write_bytes(answer.content)
        paths.append(path)
    return paths


def lint(programs: Path, path: Path) -> bool:
    """Whether both linters found nothing; what they found is printed."""
    found = {"redocly": _redocly(programs, path), "spectral": _spectral(programs, path)}
    for name, words in found.items():
        print(f"{name} {path.name}: {words or 'nothing found'}")
    return not any(found.values())


def _redocly(programs: Path, path: Path) -> str:
    done = _run(programs / "redocly", "lint", path, "--config", HERE / "redocly.yaml", "--format", "json")
    try:
        problems = json.loads(done.stdout)["problems"]
    except (ValueError, KeyError):
        return f"it broke:\n{done.stdout}{done.stderr}"
    rows = [f"{one['ruleId']}: {one['message']} {one['location'][0].get('pointer', '')}" for one in problems]
    return "\n".join(rows) or ("" if done.returncode == 0 else f"it broke:\n{done.stderr}")


def _spectral(programs: Path, path: Path) -> str:
    done = _run(programs / "spectral", "lint", path, "--ruleset", HERE / "spectral.yaml", "--fail-severity", "hint")
    return "" if done.returncode == 0 else done.stdout + done.stderr


def _run(*command: object) -> subprocess.CompletedProcess[str]:
    words = [str(word) for word in command]
    environment = {**os.environ, **QUIET}
    return subprocess.run(words, env=environment, capture_output=True, text=True, timeout=LINT_SECONDS, check=False)


def main() -> int:
    try:
        programs = installed()
    except Skipped as reason:
        print(f"SKIPPED: {reason}; the OpenAPI document was not linted")
        return 0
    with tempfile.TemporaryDirectory() as folder:
        clean = [lint(programs, path) for path in write(Path(folder))]
    return 0 if all(clean) else 1


if __name__ == "__main__":
    sys.exit(main())
