"""Production says what a demo left in its database, and the demo says nothing of it."""

import pytest
from django.contrib.auth import get_user_model

from console.health.leftovers import SAMPLE_NAME, demo_leftovers
from console.tests.conftest import make_endpoint
from kernel.auth import create_key
from kernel.web.log_in import DEMO_EMAIL

pytestmark = pytest.mark.django_db


def test_account_key_and_endpoint_of_a_demo_are_told_in_production(settings):
    get_user_model().objects.create(username="demo", email=DEMO_EMAIL)
    key, _ = create_key("Demo key", [], is_demo=True)
    endpoint = make_endpoint(name=SAMPLE_NAME)
    assert list(demo_leftovers()) == []
    settings.PRODUCTION = True
    (check,) = demo_leftovers()
    assert not check.is_ok
    assert check.words == (
        f"This database was a demo's: the account 'demo' may not log in; the API key {key.key_id} opens nothing;"
        f" endpoint {endpoint.pk} signs with the demo's secret. Remove them."
    )


def test_a_database_that_never_was_a_demo_is_well(settings):
    settings.PRODUCTION = True
    get_user_model().objects.create(username="demo", email="")
    create_key("Ours", [])
    make_endpoint(name="Acme")
    assert [(check.is_ok, check.words) for check in demo_leftovers()] == [(True, "none")]
