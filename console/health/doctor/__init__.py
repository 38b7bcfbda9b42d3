"""What `manage.py doctor` looks at, in the order in which an operator would mend things, and what it leaves out.

Each thing is proven by doing it. What needs something that is not well is not tried, and neither is what nobody can
prove from here; both are said. Values of secrets are never shown, only whether they are set.
"""

from collections.abc import Generator
from typing import Any

from django.conf import settings

from console.health import checks as health
from console.health.checks import Check
from console.health.doctor import address, event, jobs, messages, servers, stored
from console.health.doctor.findings import Finding, Look, NotTried, guarded
from console.health.leftovers import demo_leftovers

TABLES = ("database", "migrations")
LOOKS = (
    Look("database", health.database),
    Look("postgresql_version", servers.postgresql, needs=("database",)),
    Look("migrations", health.migrations, needs=("database",)),
    Look("clock", servers.own_clock, needs=("database",)),
    Look("held_snapshot", servers.snapshots, needs=("database",)),
    Look("broker", servers.broker),
    Look("channel_layer", servers.channel_layer),
    Look("master_keys", stored.keys),
    Look("delivery_ca_file", stored.ca_file),
    Look("stored_secrets", stored.stored_secrets, needs=(*TABLES, "master_keys")),
    Look("endpoint_certificates", stored.endpoint_certificates, needs=(*TABLES, "master_keys")),
    Look("demo_leftovers", demo_leftovers, needs=TABLES),
    Look("processes", health.processes, needs=TABLES),
    Look("process_clocks", servers.process_clocks, needs=TABLES),
    Look("process_keys", stored.process_keys, needs=(*TABLES, "master_keys")),
    Look("schedule", servers.schedule, needs=TABLES),
    Look("public_base_url", address.public_address),
    Look("signing_secrets", stored.signing_secrets),
    Look("providers", jobs.ask_providers, is_long=True),
    Look("sandbox_receiver", address.sandbox_receiver),
    Look("channel_layer_trip", messages.channel_layer_trip, needs=("channel_layer",), is_long=True),
    Look("queues", messages.queues, needs=("database", "broker", "channel_layer", "channel_layer_trip"), is_long=True),
    Look(
        "event",
        event.send_and_receive,
        needs=(*TABLES, "master_keys", "process_keys", "broker", "delivery_process", "public_base_url"),
        is_long=True,
    ),
)
NEVER = (
    NotTried("from_outside", "whether others reach PUBLIC_BASE_URL from outside; it was asked from here"),
    NotTried("receivers", "the receivers of your subscribers; an endpoint's page has *Send a test*"),
    NotTried("jobs", "starting a job at a provider: it would be paid for"),
    NotTried("other_hosts", "the environment of other hosts; what is shown is this one's"),
    NotTried("backups", "whether a backup can be restored"),
)
_MISSING = {
    "database": "PostgreSQL does not answer",
    "migrations": "`manage.py migrate` comes first",
    "broker": "the broker does not answer",
    "channel_layer": "the channel layer does not answer",
    "channel_layer_trip": "the answers come through the channel layer, and it does not carry them",
    "master_keys": "MASTER_KEYS cannot be used",
    "process_keys": "processes have other MASTER_KEYS than this one",
    "delivery_process": "no delivery worker is up",
    "public_base_url": "PUBLIC_BASE_URL does not lead back to us",
}
QUICK = "left out by --quick"


def examine(*, is_quick: bool = False) -> Generator[Finding, None, None]:
    """Every finding, as it is made."""
    well: set[str] = set()
    for look in LOOKS:
        if why := _why_not(look, well, is_quick):
            yield NotTried(look.name, why)
            continue
        for finding in guarded(look):
            if isinstance(finding, Check) and finding.is_ok:
                well.add(finding.name)
            yield finding
    yield from NEVER


def _why_not(look: Look, well: set[str], is_quick: bool) -> str:
    if is_quick and look.is_long:
        return QUICK
    missing = next((name for name in look.needs if name not in well), "")
    return _MISSING[missing] if missing else ""


def environment() -> list[dict[str, Any]]:
    """Every variable, whether it is set, and its value where that is no secret."""
    return [
        {
            "name": row["name"],
            "purpose": row["purpose"],
            "is_set": row["is_set"],
            "value": ("set" if row["is_set"] else "") if row["secret"] else row["value"],
        }
        for row in settings.ENVIRONMENT_TABLE
    ]
