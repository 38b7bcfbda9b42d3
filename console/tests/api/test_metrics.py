"""What Prometheus reads of refused inbound calls."""

import pytest
from django.utils import timezone

from console.api.metrics import collect
from webhooks import refusals
from webhooks.models import RefusedDay

pytestmark = pytest.mark.django_db


def test_refused_calls_of_today_are_counted_by_source():
    for _ in range(3):
        refusals.count("sandbox", refusals.Refusal.SIGNATURE_WRONG)
    today = refusals.clock.now().date()
    RefusedDay.objects.create(source="sandbox", day=today, stored_count=2, stored_bytes=4096, beyond_count=1)
    registry = collect(timezone.now())
    names = ("refused_today", "refused_stored_today", "refused_bytes_today")
    found = [registry.get_sample_value(f"roundtrip_inbound_{name}", {"source": "sandbox"}) for name in names]
    assert found == [3, 2, 4096]
