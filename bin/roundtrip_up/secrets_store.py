"""What one data folder keeps for itself: its secrets, made at random once, and the ports it used last.

Nothing here is ever printed, and nothing is the same in two data folders.
"""

import base64
import json
import secrets
from collections.abc import Callable
from pathlib import Path

from roundtrip_up.folders import Data, write_private
from roundtrip_up.ownership import read_own
from roundtrip_up.refusal import Refusal

MAKERS: dict[str, Callable[[], str]] = {
    "instance": lambda: secrets.token_hex(8),
    "database_password": lambda: secrets.token_hex(24),
    "database_superuser_password": lambda: secrets.token_hex(24),  # known to bin/up alone
    "broker_password": lambda: secrets.token_hex(24),
    # Production refuses keys that begin so (config/settings.py).
    "secret_key": lambda: "demo-" + secrets.token_urlsafe(48),
    "master_keys": lambda: base64.urlsafe_b64encode(secrets.token_bytes(32)).decode(),  # a Fernet key
    "admin_username": lambda: "demo",
    "admin_password": lambda: secrets.token_urlsafe(12),
    "api_key": lambda: f"rt_{secrets.token_hex(6)}_{secrets.token_hex(32)}",
    "sandbox_provider_key": lambda: "sk_sandbox_" + secrets.token_hex(16),
    "demo_endpoint_secret": lambda: "whsec_" + base64.b64encode(secrets.token_bytes(32)).decode(),
    "sandbox_webhook_secret": lambda: "whsec_" + base64.b64encode(secrets.token_bytes(32)).decode(),
}


def read_json(path: Path) -> dict:
    """The JSON object in `path`, a file of ours; empty when there is no such file. Refusal when it is damaged."""
    try:
        found = json.loads(read_own(path))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise Refusal(f"{path} cannot be read ({error}). Restore it, or start afresh with --data NEWDIR.") from error
    return found if isinstance(found, dict) else {}


def secrets_of(data: Data) -> dict[str, str]:
    """The secrets of this data folder; whatever is missing is made and stored first."""
    kept = read_json(data.secrets)
    missing = [name for name in MAKERS if name not in kept]
    if missing:
        kept.update({name: MAKERS[name]() for name in missing})
        write_private(data.secrets, json.dumps(kept, indent=2) + "\n")
    return kept
