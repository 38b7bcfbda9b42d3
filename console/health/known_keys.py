"""Which master key each running process encrypts with, told beside its heartbeat by the key's short name.

A secret rotated to a key that some process does not know would be unreadable there: who rotates asks here first.
"""

from collections.abc import Collection
from datetime import timedelta

from django.conf import settings
from django.db.models.functions import Now

from console.models import Heartbeat
from kernel.secrets import key_id

PREFIX = "key:"


def as_roles() -> list[str]:
    """The role in which a process tells its first master key; none for a process that has no key."""
    return [f"{PREFIX}{key_id(key)}" for key in settings.MASTER_KEYS[:1]]


def processes_without_ours(need_none: Collection[str], fresh: timedelta) -> list[str]:
    """Live processes, but those in a role that needs no key, that encrypt with another key than we do."""
    told = Heartbeat.objects.filter(seen_at__gte=Now() - fresh).order_by("process").values_list("role", "process")
    alive = [(role, process, process.partition("@")[2]) for role, process in told]
    ours = {name for role, _, name in alive if role in as_roles()}
    return [
        process
        for role, process, name in alive
        if name not in ours and role not in need_none and not role.startswith(PREFIX)
    ]
