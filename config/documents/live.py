"""The parts of docs/live.md that stand in the code: topics and what opens them, close codes, times."""

from config.documents.markdown import table
from console.api.live import DEFAULT_TTL, LEAST_TTL, MAX_TTL
from console.live import consumers
from console.live.topics import LISTS, OBJECTS, WHOLES
from console.live.viewers import READ_ALERTS, READ_OPERATIONS
from kernel.auth import Scope

KEYS_NEED = {  # of these two a key has them by a scope, a console user by a permission
    READ_ALERTS: f"`{Scope.DELIVERIES_READ}`",
    READ_OPERATIONS: f"`{Scope.OPERATIONS_WRITE}`",
}


def topics() -> str:
    rows = [(f"`{name}:<id>`", "one row", _opens(grant)) for name, grant in OBJECTS.items()]
    for name, (grant, filters) in LISTS.items():
        rows.append(
            (
                f"`{name}?<filter>`",
                f"the newest rows, by {', '.join(f'`{one}`' for one in sorted(filters))}",
                _opens(grant),
            )
        )
    rows += [(f"`{name}`", "the whole house", _opens(grant)) for name, grant in WHOLES.items()]
    return table(("topic", "is", "a key needs"), rows)


def _opens(grant: str) -> str:
    if not grant:
        return "any scope; it shows what the key may see"
    return f"{KEYS_NEED[grant]}, and no subscriber of its own" if grant in KEYS_NEED else f"`{grant}`"


def times() -> str:
    rows = (
        ("until you must have said who you are", f"{consumers.LOGIN_SECONDS:g} s"),
        ("between our pings", f"{consumers.PING_SECONDS:g} s"),
        ("between two looks at whether your key, login and rights still stand", f"{consumers.AGAIN_SECONDS:g} s"),
        ("a live token's life", f"{DEFAULT_TTL} s unless you ask for another, from {LEAST_TTL} to {MAX_TTL} s"),
        ("characters in one of your messages", f"{consumers.MAX_MESSAGE} at most"),
    )
    return table(("bound", "is"), rows)


def codes() -> str:
    rows = (
        (str(consumers.UNAUTHENTICATED), "`not_authenticated`: no key, token or login, or one that has ended"),
        (str(consumers.FORBIDDEN), "the page's origin may not bring a token (`LIVE_ALLOWED_ORIGINS`)"),
        (str(consumers.TOO_MANY), "too many sockets at once, or too many refused messages on this one"),
    )
    return table(("close code", "means"), rows)


PARTS = {"topics": topics, "times": times, "codes": codes}
