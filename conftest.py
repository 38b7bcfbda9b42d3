"""For every test: the test environment unless somebody has chosen one, and which tests run on every topology."""

import os

import pytest

os.environ.setdefault("ROUNDTRIP_ENV", "test")

# Where database, broker and channel layer meet: on other servers these tell whether the product holds.
INTEGRATION = (
    "delivery/tests/engine/test_claims",
    "delivery/tests/engine/test_drain",
    "delivery/tests/engine/test_machine",
    "delivery/tests/engine/test_trouble",
    "delivery/tests/maintenance/test_accounting",
    "delivery/tests/maintenance/test_partitions",
    "delivery/tests/test_stats",
    "console/tests/health/test_checks",
    "console/tests/live/test_socket",
    "kernel/tests/test_idempotency",
    "kernel/tests/test_live_hints",
    "tasks/tests/engine/test_limits",
    "tasks/tests/test_loop",
    "webhooks/tests/test_inbox",
    "webhooks/tests/test_receive",
    "tests/scenarios/test_commits",
    "tests/scenarios/test_endpoints",
    "tests/scenarios/test_hold",
    "tests/scenarios/test_lost_outcomes",
    "tests/scenarios/test_retention",
    "tests/scenarios/test_servers_fail",
    "tests/scenarios/test_snapshot",
    "tests/scenarios/test_worker_processes",
    "tests/e2e/test_loop.py::test_real_searches",
    "tests/e2e/test_loop.py::test_with_faults_everywhere",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.nodeid.startswith(INTEGRATION):
            item.add_marker(pytest.mark.integration)


@pytest.fixture(scope="session")
def django_db_modify_db_settings(django_db_modify_db_settings_parallel_suffix: None) -> None:
    """On servers that others use too, the test database bears our process id."""
    if os.environ.get("ROUNDTRIP_TEST_TOPOLOGY") == "external":
        from django.db import connection

        test = connection.settings_dict["TEST"]
        test["NAME"] = f"{test['NAME'] or 'test_' + connection.settings_dict['NAME']}_{os.getpid()}"
