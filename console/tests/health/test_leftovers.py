"""Production says what a demo left in its database until each is ended, and the demo says nothing of it."""

from datetime import timedelta

import pytest
from django.contrib.auth import get_user_model
from django.core.checks import run_checks
from django.utils import timezone

from console.alerts import evaluate
from console.checks import nothing_of_a_demo
from console.health import leftovers
from console.health.leftovers import DEMO_ACTOR, SAMPLE_NAME, demo_leftovers
from console.models import Alert
from console.tests.conftest import make_endpoint
from delivery import endpoints
from kernel.auth import create_key
from kernel.models import ApiKey
from kernel.web.log_in import DEMO_EMAIL

pytestmark = pytest.mark.django_db


def sample(**values):
    said = {"name": SAMPLE_NAME, "url": "https://hooks.example/in", "actor": DEMO_ACTOR}
    return endpoints.create(**{**said, **values})


@pytest.fixture
def left(settings):
    """What `bootstrap_demo` makes, in production."""
    settings.PRODUCTION = True
    user = get_user_model().objects.create(username="demo", email=DEMO_EMAIL)
    key, _ = create_key("Demo key", [], is_demo=True)
    return user, key, sample()


def test_account_key_and_endpoint_of_a_demo_are_told_in_production(left, settings):
    user, key, endpoint = left
    (check,) = demo_leftovers()
    assert not check.is_ok
    assert check.words == (
        f"This database was a demo's: the account 'demo' may not log in. Delete it; the API key {key.key_id} opens "
        f"nothing. Revoke it; endpoint {endpoint.pk} signs with a secret that lies in the demo's files. Delete it, or "
        "rotate its secret with no overlap."
    )
    assert [one.link for one in leftovers.found()] == [
        f"/admin/auth/user/{user.pk}/change/",
        f"/admin/kernel/apikey/{key.pk}/change/",
        f"/admin/delivery/endpoint/{endpoint.pk}/change/",
    ]
    settings.PRODUCTION = False
    assert list(demo_leftovers()) == [] and leftovers.found() == []


def test_djangos_check_names_each_where_the_database_may_be_asked_and_is_silent_elsewhere(left):
    assert [one.id for one in run_checks(databases=["default"]) if one.id == "console.W001"] == ["console.W001"] * 3
    assert nothing_of_a_demo(databases=None) == [] and nothing_of_a_demo(databases=[]) == []
    assert [one.hint for one in nothing_of_a_demo(databases=["default"])] == [
        "Delete it.", "Revoke it.", "Delete it, or rotate its secret with no overlap.",
    ]  # fmt: skip


def test_each_is_an_alert_until_it_has_had_its_remedy(left):
    user, key, endpoint = left
    evaluate.evaluate(timezone.now())
    alerts = Alert.objects.filter(rule="demo_leftover")
    subjects = {f"user:{user.pk}", f"api_key:{key.pk}", f"endpoint:{endpoint.pk}"}
    assert {row.subject for row in alerts.filter(state="open")} == subjects
    assert not [row for row in alerts if endpoint.secret in f"{row.title}{row.detail}{row.advice}"]
    user.delete()
    ApiKey.objects.update(revoked_at=timezone.now())
    endpoints.rotate_secret(endpoint.pk, actor="anna", overlap=timedelta(0))
    evaluate.evaluate(timezone.now())
    assert {row.state for row in alerts.all()} == {"resolved"} and [check.words for check in demo_leftovers()] == [
        "none"
    ]


def test_a_secret_that_the_demo_itself_set_anew_is_still_the_demos(left):
    endpoint = left[2]
    endpoints.rotate_secret(endpoint.pk, actor=DEMO_ACTOR, reason="no master key opened it")
    assert [one.subject for one in leftovers.found()][-1] == f"endpoint:{endpoint.pk}"


def test_a_database_that_never_was_a_demo_is_well(settings):
    settings.PRODUCTION = True
    get_user_model().objects.create(username="demo", email="")
    create_key("Ours", [])
    make_endpoint(name="Acme")
    sample(actor="anna")
    assert [(check.is_ok, check.words) for check in demo_leftovers()] == [(True, "none")]
