"""No list, filter, figure or topic reads more rows than it may, however the rows lie. SQL: rows by the thousand, plans.

What is asked for lies at the far end of tables of five thousand rows, where a scan would come to it last. Each query
is carried out once more under EXPLAIN ANALYZE, and what each step of its plan has read is counted.
"""

import contextlib
import json
import re

import pytest
from django.db import connection
from django.urls import reverse
from django.utils import timezone
from rest_framework.test import APIClient

from console.alerts import rules
from console.live import snapshots
from console.live.snapshots import lists as live_lists
from console.live.snapshots import objects as live_objects
from console.live.topics import parse
from console.pages import badges
from console.tests.conftest import make_batch, make_delivery, make_endpoint
from delivery.models import Attempt, Delivery, Event
from delivery.tests import factories
from kernel import counting
from kernel.admin import bases, lists
from kernel.auth import Scope, create_key
from kernel.database import windows
from tasks.models import Batch, ExternalJob, Task, Transition
from tasks.reading import stats as task_stats
from webhooks.models import InboundEvent, InboundVerdict

ROWS, MOST = 5_000, 200
SLACK = 2 * MOST + 300  # a window, its edge, and what hangs on the rows of a page
GROWN = (Task, Transition, ExternalJob, Event, Delivery, Attempt, InboundEvent, Batch)
TABLES = {model._meta.db_table for model in GROWN}

pytestmark = pytest.mark.django_db


def grow(row, **changes):
    """So many copies of a row, each column as it is but for those said (as SQL of `n`)."""
    columns = [field.column for field in row._meta.concrete_fields if not field.primary_key and not field.generated]
    values = [changes.get(name, f'"{name}"') for name in columns]
    table = row._meta.db_table
    with connection.cursor() as cursor:
        cursor.execute(
            f"INSERT INTO {table} ({', '.join(map(connection.ops.quote_name, columns))})"
            f" SELECT {', '.join(values)} FROM {table}, generate_series(1, {ROWS}) AS n WHERE id = %s ORDER BY n",
            [row.pk],
        )


@pytest.fixture
def house(monkeypatch):
    """The few that are asked for are the oldest; then five thousand of each that are not."""
    for module, name in ((windows, "MOST"), (counting, "LIMIT"), (lists, "COUNTED"), (bases, "COUNTED"),
                         (live_lists, "COUNT_CAP"), (live_objects, "COUNT_CAP"), (task_stats, "RECENT"),
                         (badges, "CAP")):  # fmt: skip
        monkeypatch.setattr(module, name, MOST)
    asked = make_batch(["dead_letter", "queued", "running", "succeeded"], kind="scoring", subscriber="rare")
    Task.objects.update(reference="rare", error_code="rare", correlation_id="rare")
    Batch.objects.update(reference="rare", outcome="partly")
    endpoint = make_endpoint("rare", subscriber="rare")
    dead = make_delivery(endpoint, "dead_letter", fingerprint="rare", is_replay=True)
    make_delivery(endpoint, "pending")
    factories.attempt(dead)
    Delivery.objects.filter(pk=dead.pk).update(last_outcome="timeout", last_status_code=599)
    Event.objects.update(type="rare", correlation_id="rare", subscriber="rare")
    known = {"source": "rare", "provider": "rare", "correlation_id": "rare", "verdict": InboundVerdict.VERIFIED}
    InboundEvent.objects.create(body=b"{}", dedupe_key="rare", outcome="applied", reason="rare", **known)
    many(make_batch(["succeeded"], subscriber="acme", completed=True), make_endpoint("busy", subscriber="acme"))
    return asked, endpoint, dead


def many(batch, endpoint):
    task, delivery = batch.tasks.get(), make_delivery(endpoint, "delivered", is_replay=True)
    Delivery.objects.filter(pk=delivery.pk).update(last_outcome="delivered", last_status_code=200)
    attempt = factories.attempt(delivery, outcome="delivered")
    inbound = InboundEvent.objects.create(
        source="s", provider="sandbox", verdict=InboundVerdict.UNPARSEABLE, body=b"{}", correlation_id="c"
    )
    grow(batch)
    grow(task, batch_id="NULL")
    grow(task.transitions.last(), batch_id="NULL")
    grow(task.jobs.get(), job_id="'j' || n", start_token="gen_random_uuid()")
    grow(delivery.event, uid="'u' || n", correlation_id="'x' || n")
    grow(delivery)
    grow(attempt)
    grow(inbound, dedupe_key="'d' || n", correlation_id="'x' || n")
    with connection.cursor() as cursor:
        cursor.execute(f"ANALYZE {', '.join(TABLES)}")
        # Tables this small are read whole because that is cheap; the plans of large ones are asked for.
        cursor.execute("SET LOCAL enable_seqscan = off")
        cursor.execute("SET LOCAL random_page_cost = 1.1")


@contextlib.contextmanager
def queries():
    seen = []

    def note(execute, sql, params, many, context):
        if sql.startswith("SELECT") and any(f'"{table}"' in sql for table in TABLES):
            seen.append((sql, params))
        return execute(sql, params, many, context)

    with connection.execute_wrapper(note):
        yield seen


def excess(seen):
    """Of these queries, those with a step that reads more rows than it may: (rows, table, SQL)."""
    found = []
    for sql, params in seen:
        with connection.cursor() as cursor:
            cursor.execute(f"EXPLAIN (ANALYZE, FORMAT JSON) {sql}", params)
            answer = cursor.fetchone()[0]
        plan = answer if isinstance(answer, list) else json.loads(answer)
        for rows, step in steps(plan[0]["Plan"]):
            if rows > SLACK:
                found.append((round(rows), step, re.sub(r"SELECT .*? FROM", "SELECT … FROM", sql, count=1)[:700]))
    return found


def steps(node):
    read = node["Actual Rows"] + sum(value for name, value in node.items() if name.startswith("Rows Removed by"))
    if node["Node Type"] != "ModifyTable":
        yield read * node["Actual Loops"], f"{node['Node Type']} of {node.get('Index Name', node.get('Relation Name'))}"
    for child in node.get("Plans", ()):
        yield from steps(child)


def test_the_check_knows_a_query_that_reads_too_much(house):
    with queries() as seen:
        list(Task.objects.filter(error_code="rare").order_by("-id")[:50])
    assert len(excess(seen)) >= 1


MANY = [f"{name}={value}" for name, value in (
    ("state", "dead_letter"), ("subscriber", "rare"), ("correlation_id", "rare"),
    ("created_before", "2020-01-01T00:00:00Z"),
)]  # fmt: skip
LISTS = {
    "tasks": [*MANY, "kind=scoring", "reference=rare", "error_code=rare", "final=false", "state=queued&state=running",
              "kind=scoring&state=succeeded", "state=succeeded&error_code=rare", "created_after=2020-01-01T00:00:00Z",
              "reference=", "state=cancelled"],
    "batches": ["kind=scoring", "subscriber=rare", "reference=rare", "outcome=partly", "state=running",
                "correlation_id=c"],
    "events": [*MANY[1:], "type=rare", "uid=rare", "state=unmatched", "type=rare&subscriber=rare"],
    "deliveries": [*MANY, "endpoint={endpoint}", "outcome=timeout", "status_code=599", "fingerprint=rare",
                   "is_replay=false", "state=pending", "state=in_flight", "state=cancelled", "fingerprint=",
                   "endpoint={endpoint}&state=dead_letter", "endpoint={endpoint}&outcome=timeout", "event_uid=u7",
                   "state=delivered&outcome=timeout"],
    "inbound-events": ["source=rare", "provider=rare", "verdict=verified", "outcome=applied", "reason=deferred",
                       "correlation_id=rare", "job_id=rare", "verdict_reason=too_large"],
    "dead-letters": ["", "subscriber=rare", "outcome=timeout", "status_code=599", "fingerprint=rare", "kind=scoring",
                     "error_code=rare", "endpoint={endpoint}", "batch={batch}"],
    "dead-letters/groups": ["", "subscriber=rare", "outcome=timeout", "kind=scoring"],
    "stats": [""],
    "operations": [""],
    "alerts": ["state=open"],
}  # fmt: skip


def test_no_list_of_the_api_reads_more_than_a_page_may(house):
    client = APIClient(headers={"authorization": f"Bearer {create_key('all', list(Scope.values))[1]}"})
    bound = create_key("bound", list(Scope.values), subscriber="rare")[1]
    found = {}
    for name, query in [(one, query) for one in LISTS for query in LISTS[one]]:
        address = f"/api/v1/{name}/?{query.format(endpoint=house[1].pk, batch=house[0].pk)}"
        with queries() as seen:
            answer = client.get(address)
        assert answer.status_code == 200, (address, answer.json())
        found[address] = excess(seen)
    for name in LISTS.keys() - {"alerts", "operations"}:
        with queries() as seen:
            APIClient(headers={"authorization": f"Bearer {bound}"}).get(f"/api/v1/{name}/")
        found[f"{name} of one subscriber"] = excess(seen)
    assert {address: steps for address, steps in found.items() if steps} == {}


def test_what_no_index_leads_to_is_found_page_by_page(house):
    """So the bound hides nothing."""
    client = APIClient(headers={"authorization": f"Bearer {create_key('all', list(Scope.values))[1]}"})
    address, pages, found = "/api/v1/deliveries/?status_code=599", 0, []
    while address:
        answer = client.get(address).json()
        pages, address = pages + 1, answer["next"]
        found += [row["id"] for row in answer["results"]]
    assert found == [str(house[2].pk)]
    assert pages == -(-Delivery.objects.count() // MOST)


CHANGELISTS = {
    "tasks_task": ["", "kind=scoring", "state__exact=dead_letter", "q=rare", "q=7", "o=1", "p=9"],
    "tasks_batch": ["", "kind=scoring", "outcome__exact=partly", "is_completed__exact=0", "q=rare"],
    "tasks_externaljob": ["", "state__exact=lost", "provider=rare", "finished_by=poll", "q=rare", "q=7"],
    "tasks_transition": ["", "to_state__exact=dead_letter", "cause__exact=poll", "q=7"],
    "delivery_event": ["", "matched=unmatched", "matched=queued", "q=rare", "q=7"],
    "delivery_delivery": ["", "outcome=timeout", "state__exact=dead_letter", "state__exact=delivered&outcome=timeout",
                          "is_replay__exact=0", "q=rare", "q=7", "p=9"],
    "delivery_attempt": ["", "outcome=timeout", "q=7", "o=5"],
    "webhooks_inboundevent": ["", "verdict__exact=verified", "outcome__exact=applied", "why=too_large",
                              "provider=sandbox", "q=rare"],
}  # fmt: skip


def test_no_list_of_the_admin_reads_more_than_a_page_may(house, admin_client):
    found = {}
    for name, query in [(one, query) for one in CHANGELISTS for query in CHANGELISTS[one]]:
        address = f"{reverse(f'admin:{name}_changelist')}?{query}"
        with queries() as seen:
            answer = admin_client.get(address, follow=True)
        assert answer.status_code == 200, address
        found[address] = excess(seen)
    assert {query: steps for query, steps in found.items() if steps} == {}


def test_the_admin_says_where_it_stopped_looking(house, admin_client):
    address = reverse("admin:delivery_delivery_changelist")
    assert f"{MOST}+" in admin_client.get(address).content.decode()
    nothing = admin_client.get(f"{address}?is_replay__exact=0").content.decode()
    assert f"No row among the newest {MOST} fits" in nothing
    assert "among the newest" not in admin_client.get(f"{address}?outcome=timeout").content.decode()


TOPICS = [
    "tasks", "tasks?state=dead_letter", "tasks?kind=scoring", "tasks?kind=scoring&state=succeeded",
    "tasks?subscriber=rare", "tasks?reference=rare", "tasks?reference=", "tasks?batch={batch}", "deliveries",
    "deliveries?state=dead_letter", "deliveries?state=delivered", "deliveries?last_outcome=timeout",
    "deliveries?last_outcome=", "deliveries?fingerprint=rare", "deliveries?fingerprint=", "deliveries?type=rare",
    "deliveries?subscriber=rare", "deliveries?endpoint={endpoint}", "deliveries?event=7", "batch:{batch}",
    "endpoint:{endpoint}", "stats", "alerts",
]  # fmt: skip


def test_no_topic_reads_more_than_it_may(house):
    found = {}
    for name in TOPICS:
        with queries() as seen:
            snapshots.read(parse(name.format(endpoint=house[1].pk, batch=house[0].pk)))
        found[name] = excess(seen)
    assert {name: steps for name, steps in found.items() if steps} == {}


def test_a_topic_says_where_it_stopped_looking(house):
    for name, among, rows in (
        ("deliveries?last_outcome=timeout", None, 1),
        ("deliveries?fingerprint=rare", None, 1),
        ("tasks?kind=scoring", None, 4),
        ("tasks?kind=scoring&state=succeeded", None, 1),
        ("deliveries?type=rare", MOST, 0),
        ("deliveries?last_outcome=", MOST, 0),
    ):
        data = json.loads(snapshots.read(parse(name)).body)
        assert (name, data["among_newest"], len(data["rows"])) == (name, among, rows)


PAGES = ["/", "/batches/", "/batches/?kind=scoring", "/batches/?page=9", "/dead-letters/", "/metrics"]


def test_no_page_reads_more_than_it_may(house, admin_client):
    found = {}
    for path in PAGES:
        badges._kept.clear()
        with queries() as seen:
            assert admin_client.get(path).status_code == 200
        found[path] = excess(seen)
    assert {path: steps for path, steps in found.items() if steps} == {}


def test_no_alert_rule_reads_more_than_it_may(house):
    now = timezone.now()
    with queries() as seen:
        for looks in rules.RULES.values():
            for look in looks:
                look(now)
    assert excess(seen) == []


def test_dead_letters_without_end_are_capped_everywhere(house, admin_client):
    """Five thousand of each: groups and counts stop, and say so."""
    Task.objects.update(state="dead_letter", finished_at=timezone.now())
    Delivery.objects.exclude(pk=house[2].pk).update(state="dead_letter", finished_at=timezone.now(), fingerprint="f")
    with connection.cursor() as cursor:
        cursor.execute(f"ANALYZE {', '.join(TABLES)}")
    badges._kept.clear()
    with queries() as seen:
        page = admin_client.get("/dead-letters/").content.decode()
        groups = admin_client.get("/api/v1/dead-letters/groups/").json()
        found = rules.dead_letters(timezone.now())
        health = admin_client.get(f"/api/v1/endpoints/{house[1].pk}/health/").json()
        admin_client.get("/api/v1/stats/")
        snapshots.read(parse("stats"))
        snapshots.read(parse(f"endpoint:{Delivery.objects.latest('pk').endpoint_id}"))
    assert excess(seen) == []
    assert f"Counted among the newest {MOST} dead letters" in page
    assert groups["among_newest"] == MOST
    assert [finding.title for finding in found] == [f"{MOST}+ dead tasks", f"{MOST}+ dead deliveries"]
    assert health["waiting_is_capped"] is False
    assert '.estimated">Counted no further' in admin_client.get("/").content.decode()  # not hidden
