"""The API does what its OpenAPI document says, whatever it is sent: asked by schemathesis, within bounds.

Each operation gets so many made-up requests, good and bad ones, in one transaction that is rolled back. None may answer
with 5xx, and each answer has a status, a media type and a shape that the document names. The same requests come every
time (`derandomize`), so that a red run can be repeated.
"""

from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from django.core.signals import request_finished, request_started
from django.core.wsgi import get_wsgi_application
from django.db import close_old_connections, transaction
from django.utils import timezone
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import checks
from schemathesis.core.failures import Failure, FailureGroup
from schemathesis.specs.openapi import checks as shapes

from console.models import Alert, Operation
from console.tests.conftest import make_batch, make_delivery, make_endpoint
from delivery import endpoint_rules
from delivery.models import Attempt
from kernel.auth import Scope, create_key
from kernel.network.lookup import NameNotFound
from webhooks.models import InboundEvent

EXAMPLES = 6  # requests of each operation
CHECKS = (
    checks.not_a_server_error,
    shapes.status_code_conformance,
    shapes.content_type_conformance,
    shapes.response_schema_conformance,
)


@pytest.fixture
def served(db, monkeypatch) -> Iterator[Any]:
    """The document of the running application, with rows of every sort, and no name service behind it."""

    def unknown(*_args: object) -> None:
        raise NameNotFound("nobody is asked")

    monkeypatch.setattr(endpoint_rules, "within", unknown)
    for signal in (request_started, request_finished):  # as Django's own test client does: it is all one transaction
        signal.disconnect(close_old_connections)
    yield schemathesis.openapi.from_wsgi("/api/v1/schema/?format=json", get_wsgi_application())
    for signal in (request_started, request_finished):
        signal.connect(close_old_connections)


@pytest.fixture
def rows(db) -> dict[str, str]:
    """A row for each collection; the path of an operation says which."""
    now = timezone.now()
    endpoint = make_endpoint()
    endpoint.secret = "whsec_" + "A" * 44
    endpoint.save()
    delivery = make_delivery(endpoint, "dead_letter")
    Attempt.objects.create(delivery=delivery, endpoint_id=endpoint.pk, number=1, outcome="server_error", started_at=now)
    batch = make_batch(["succeeded", "dead_letter", "queued"])
    inbound = InboundEvent.objects.create(
        source="scoring/sandbox", provider="sandbox", dedupe_key="k1", body=b"{}", verdict="verified"
    )
    operation = Operation.objects.create(verb="redrive_tasks", reason="test", actor="test", state="paused")
    alert = Alert.objects.create(rule="dead_letters", title="t", opened_at=now, last_seen_at=now)
    return {
        "alerts": alert.pk,
        "batches": batch.pk,
        "deliveries": delivery.pk,
        "endpoints": endpoint.pk,
        "events": delivery.event_id,
        "inbound-events": inbound.pk,
        "kinds": "scoring",
        "operations": operation.pk,
        "tasks": batch.tasks.get(state="dead_letter").pk,
    }


@pytest.fixture
def headers(db) -> dict[str, str]:
    return {"Authorization": f"Bearer {create_key('contract', list(Scope.values))[1]}"}


def test_every_operation_keeps_the_document_whatever_it_is_sent(served, rows, headers):
    broken: dict[str, str] = {}
    operations = [one.ok() for one in served.get_all_operations()]
    for operation in operations:
        try:
            _ask(operation, rows, headers)
        except (FailureGroup, Failure) as failures:
            broken[operation.label] = str(failures)
    assert len(operations) > 50
    assert broken == {}, "\n\n".join(f"{label}\n{words}" for label, words in broken.items())


def _ask(operation: Any, rows: dict[str, str], headers: dict[str, str]) -> None:
    """Made-up requests, each a second time for a row that is there where the path names one."""

    @given(case=operation.as_strategy())
    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    def ask(case: Any) -> None:
        _send(case, headers)
        if case.path_parameters:
            case.path_parameters = dict.fromkeys(case.path_parameters, str(rows[case.path.split("/")[3]]))
            _send(case, headers)

    ask()


def _send(case: Any, headers: dict[str, str]) -> None:
    """What it changed is undone, so that every request finds the same rows."""
    before = transaction.savepoint()
    try:
        case.call_and_validate(headers=headers, checks=CHECKS)
    finally:
        transaction.savepoint_rollback(before)
