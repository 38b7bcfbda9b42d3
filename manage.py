#!/usr/bin/env python3
"""Django's command line for Roundtrip.

Beside a system that `bin/up` runs, the settings of that system are used: `var/roundtrip.env`, or the file in the data
folder that ROUNDTRIP_DATA names. Anything set in the environment wins.
"""

import os
import select
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent


def use_project_python() -> None:
    """Run under the `.venv` that bin/up made, if the Python at hand has no Django."""
    try:
        import django  # noqa: F401
    except ImportError:
        python = ROOT / ".venv" / "bin" / "python"
        if python.exists() and Path(sys.prefix) != ROOT / ".venv":
            os.execv(python, [str(python), *sys.argv])  # noqa: S606 - no shell is the point
        sys.exit("Django is not installed here. Run bin/up once, or: pip install -r requirements.txt")


def use_running_system() -> None:
    """Fill in what the environment does not say from the running system's settings file."""
    path = Path(os.environ.get("ROUNDTRIP_DATA", ROOT / "var")) / "roundtrip.env"
    if "DATABASE_URL" in os.environ or "DATABASE_URL_FILE" in os.environ or not path.exists():
        return
    for line in path.read_text(encoding="utf-8").splitlines():
        name, _, value = line.partition("=")
        if name and not name.startswith("#"):
            os.environ.setdefault(name, value)


def main() -> None:
    use_project_python()
    use_running_system()
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
    from django.core.exceptions import ImproperlyConfigured
    from django.core.management import execute_from_command_line

    try:
        execute_from_command_line(sys.argv)
        sys.stdout.flush()
    except ImproperlyConfigured as error:
        sys.exit(f"{error}")
    except BrokenPipeError:
        if not has_no_reader():
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)


def has_no_reader() -> bool:
    """`manage.py … | head`: whoever read our output has enough, and that is no fault to be told."""
    poll = select.poll()
    poll.register(sys.stdout, 0)
    return any(events & select.POLLERR for _, events in poll.poll(0))


if __name__ == "__main__":
    main()
