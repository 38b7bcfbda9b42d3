"""What a person or a script needs to know of a running instance: DATA/demo.json, DATA/roundtrip.env, and the words at
the end of the start. Both files are readable by their owner only."""

import json
import shlex
from collections.abc import Mapping
from pathlib import Path

from roundtrip_up.folders import ROOT, Data, write_private
from roundtrip_up.process_table import Addresses


def write_files(data: Data, addresses: Addresses, product: Mapping[str, str]) -> None:
    """`demo.json` for scripts (the keys are a contract), `roundtrip.env` for `manage.py`."""
    demo = {
        "url": addresses.url,
        "api_key": product["DEMO_API_KEY"],
        "admin_username": product["DEMO_ADMIN_USERNAME"],
        "admin_password": product["DEMO_ADMIN_PASSWORD"],
        "provider_url": product.get("SANDBOX_PROVIDER_URL", ""),
        "receiver_url": product.get("SANDBOX_RECEIVER_URL", ""),
        "database_url": product["DATABASE_URL"],
        "broker_url": product["CELERY_BROKER_URL"],
    }
    write_private(data.demo, json.dumps(demo, indent=2) + "\n")
    lines = [
        "# Written by bin/up at every start; manage.py reads it.",
        *(f"{name}={value}" for name, value in product.items()),
    ]
    write_private(data.folder / "roundtrip.env", "\n".join(lines) + "\n")


def banner(data: Data, addresses: Addresses, product: Mapping[str, str], seconds: float) -> str:
    """The URL, where the login is, and what to try next. Never a secret: these words end up in logs and recordings."""
    manage = (
        "./manage.py" if data.folder == ROOT / "var" else f"ROUNDTRIP_DATA={shlex.quote(str(data.folder))} ./manage.py"
    )
    first = (
        f"  {manage} submit examples/searches.csv --kind map_search\n      real searches; watch the start page"
        if addresses.sandbox
        else f"  {manage} publish hello.world '{{\"n\": 1}}'\n      an event for endpoints that you make"
    )
    next_steps = [
        first,
        f"  {manage} doctor\n      tries everything; says what to do, and what it did not try",
        "  docs/receiving.md\n      a receiver of your own, in five minutes",
    ]
    return "\n".join(
        [
            "",
            f"Roundtrip is up at {addresses.url} (after {seconds:.1f} s)",
            f"  login    {product['DEMO_ADMIN_USERNAME']}; the password is in {_short(data.demo)} (admin_password)",
            f"  API key  in {_short(data.demo)} (api_key)",
            f"  API      {addresses.url}/api/v1/docs/",
            f"  logs     {_short(data.log)}/",
            "Try next, in another terminal:",
            *next_steps,
            "Ctrl-C stops everything; the data stays.",
            "",
        ]
    )


def _short(path: Path) -> Path:
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
