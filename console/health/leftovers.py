"""What a demo left in a database that production uses now: refused there, and told, so that somebody ends it.

The demo's secrets are random and its own (bin/up makes them), so nobody reads one in this repository; but they lie in
files of the demo's data folder, which were not kept as production's are.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from django.conf import settings
from django.contrib.auth import get_user_model
from django.urls import reverse

from console.health.checks import Check
from delivery.models import Endpoint, lean
from kernel.models import ApiKey, AuditEntry
from kernel.web.log_in import DEMO_EMAIL

SAMPLE_NAME = "Sample receiver"  # the endpoint that `bootstrap_demo` makes
DEMO_ACTOR = "bootstrap_demo"
SETS_A_SECRET = ("create", "rotate_secret")
MOST = 100  # there is one of each, unless somebody made it so


@dataclass(frozen=True)
class Leftover:
    """One thing of the demo. `link` is an address of the console, where `remedy` is done."""

    subject: str
    words: str
    remedy: str
    link: str


def found() -> list[Leftover]:
    """In production only, and until each has had its remedy: the demo's account, its API key, its sample endpoint."""
    return [*_accounts(), *_keys(), *_endpoints()] if settings.PRODUCTION else []


def _accounts() -> Iterator[Leftover]:
    rows = get_user_model().objects.filter(email=DEMO_EMAIL, is_active=True).order_by("pk")
    for pk, name in rows.values_list("pk", "username")[:MOST]:
        link = reverse("admin:auth_user_change", args=[pk])
        yield Leftover(f"user:{pk}", f"the account {name!r} may not log in", "Delete it.", link)


def _keys() -> Iterator[Leftover]:
    rows = ApiKey.objects.filter(is_demo=True, revoked_at=None).order_by("pk")
    for pk, key_id in rows.values_list("pk", "key_id")[:MOST]:
        link = reverse("admin:kernel_apikey_change", args=[pk])
        yield Leftover(f"api_key:{pk}", f"the API key {key_id} opens nothing", "Revoke it.", link)


def _endpoints() -> Iterator[Leftover]:
    rows = lean(Endpoint.objects.filter(name=SAMPLE_NAME, subscriber="", deleted_at=None).order_by("pk"))
    for row in rows[:MOST]:
        if _last_set_by(row.pk) == DEMO_ACTOR:
            yield Leftover(
                f"endpoint:{row.pk}",
                f"endpoint {row.pk} signs with a secret that lies in the demo's files",
                "Delete it, or rotate its secret with no overlap.",
                reverse("admin:delivery_endpoint_change", args=[row.pk]),
            )


def _last_set_by(endpoint_id: int) -> str:
    """Who gave this endpoint the secret it has."""
    told = AuditEntry.objects.filter(subject="endpoint", verb__in=SETS_A_SECRET, object_ids__contains=[endpoint_id])
    return str(told.order_by("-pk").values_list("actor", flat=True).first() or "")


def demo_leftovers() -> Iterator[Check]:
    """For the doctor; nothing outside production."""
    if not settings.PRODUCTION:
        return
    left = found()
    told = "; ".join(f"{one.words}. {one.remedy.rstrip('.')}" for one in left)
    yield Check("demo_leftovers", not left, f"This database was a demo's: {told}." if left else "none")
