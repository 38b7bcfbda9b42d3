"""Alerts of the inbox: a secret that cannot be used, and a source that is flooded with calls that are refused."""

from datetime import timedelta

import pytest
from django.utils import timezone

from console.alerts import evaluate, inbound
from console.models import Alert
from tasks.providers.sandbox import SandboxProvider
from webhooks import refusals
from webhooks.models import RefusedDay

pytestmark = pytest.mark.django_db
GOOD = "whsec_a2tra2tra2tra2tra2tra2tra2tra2tr"


@pytest.fixture(autouse=True)
def provider(settings):
    settings.SANDBOX_PROVIDER_URL, settings.SANDBOX_PROVIDER_KEY = "http://127.0.0.1:9", "key"
    settings.SANDBOX_WEBHOOK_SECRET = GOOD


@pytest.mark.parametrize("secret", ["", "whsec_!!!"])
def test_a_secret_that_cannot_be_used_is_told_until_it_is_corrected(settings, secret):
    settings.SANDBOX_WEBHOOK_SECRET = secret
    evaluate.evaluate(timezone.now())
    row = Alert.objects.get(rule="signing_secret")
    assert (row.subject, row.state) == ("sandbox", "open")
    assert not secret or secret not in f"{row.title}{row.detail}{row.advice}"
    settings.SANDBOX_WEBHOOK_SECRET = GOOD
    evaluate.evaluate(timezone.now())
    row.refresh_from_db()
    assert row.state == "resolved"


def test_a_secret_that_only_looks_odd_is_no_alert(settings):
    settings.SANDBOX_WEBHOOK_SECRET = "whsec_c2hvcnQ="
    assert inbound.signing_secrets(timezone.now()) == []


def test_secrets_that_cannot_be_had_silence_no_other_rule(monkeypatch):
    monkeypatch.setattr(SandboxProvider, "secrets", lambda _self: 1 / 0)
    (found,) = inbound.signing_secrets(timezone.now())
    assert "could not be had just now (ZeroDivisionError)" in found.detail


def test_a_day_whose_budget_is_used_up_is_told_for_that_source_and_ends_with_the_day():
    refusals.count("sandbox", refusals.Refusal.SIGNATURE_WRONG)
    today = refusals.clock.now().date()
    RefusedDay.objects.create(source="sandbox", day=today, stored_count=1, stored_bytes=5, beyond_count=2)
    RefusedDay.objects.create(source="scoring/sandbox", day=today, stored_count=1, stored_bytes=5)
    (found,) = inbound.refused_floods(timezone.now())
    assert (found.subject, found.title, found.value) == ("sandbox", "1 calls to sandbox were refused today", 1)
    RefusedDay.objects.update(day=today - timedelta(days=1))
    assert inbound.refused_floods(timezone.now()) == []
