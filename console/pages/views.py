"""The pages an operator meets: the start page, batches, dead letters, one journey. Whole from the server, then live.

Each shows the same snapshot that the socket sends, so a page without JavaScript shows no less, only once.
"""

import json
from typing import Any

from django.conf import settings
from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_POST

from console import dead_letters, journeys
from console.alerts import evaluate as alert_verbs
from console.live import snapshots
from console.live.snapshots.objects import batch_row
from console.live.topics import Topic, TopicRefused, permitted
from console.live.viewers import READ_ALERTS, Viewer
from console.operations.verbs import VERBS
from console.pages.frame import console_page, render
from delivery import dead_letters as delivery_side
from kernel import clock
from kernel.admin.lists import CappedPaginator
from kernel.auth import Scope, name_of
from tasks.models import Batch
from tasks.reading import dead_letters as task_side

PAGE_SIZE = 25


def live(topic: Topic, viewer: Viewer) -> dict[str, Any] | None:
    """A topic's snapshot as templates need it; None where it does not exist or is not this viewer's to see."""
    try:
        narrowed = permitted(topic, viewer)
    except TopicRefused:
        return None
    snapshot = snapshots.read(narrowed)
    if snapshot is None or not viewer.sees(snapshot.owner):
        return None
    return {"topic": topic.name, "version": snapshot.version, **json.loads(snapshot.body)}


@console_page()
def start(request: HttpRequest, viewer: Viewer) -> HttpResponse:
    """Where everything is, and what needs a person."""
    return render(
        request,
        "console/start.html",
        viewer,
        "Overview",
        stats=live(Topic("stats"), viewer),
        alerts=live(Topic("alerts"), viewer),
        public_base_url=settings.PUBLIC_BASE_URL,
        may_settle=request.user.has_perm("console.change_alert"),
    )


@console_page(Scope.TASKS_READ)
def batches(request: HttpRequest, viewer: Viewer) -> HttpResponse:
    rows = Batch.objects.order_by("-id")
    kind = request.GET.get("kind")
    if kind is not None:  # an empty one is no kind's, not every kind's
        rows = rows.filter(kind=kind)
    page = CappedPaginator(rows, PAGE_SIZE).get_page(request.GET.get("page"))
    listed = [batch_row(row) for row in page]
    return render(request, "console/batches.html", viewer, "Batches", page=page, batches=listed, kind=kind)


@console_page(Scope.TASKS_READ)
def batch(request: HttpRequest, viewer: Viewer, batch_id: int) -> HttpResponse:
    found = live(Topic("batch", batch_id), viewer)
    if found is None:
        raise Http404(f"There is no batch {batch_id}.")
    return render(request, "console/batch.html", viewer, f"Batch {batch_id}", batch=found)


@console_page()
def dead_letter_groups(request: HttpRequest, viewer: Viewer) -> HttpResponse:
    """What gave up, grouped by cause, with the button that fits."""
    deliveries = delivery_side.dead_letters() if viewer.may(Scope.DELIVERIES_READ) else None
    tasks = task_side.dead_letters() if viewer.may(Scope.TASKS_READ) else None
    groups, among = dead_letters.group_rows(deliveries, tasks, for_keys=False)
    return render(
        request,
        "console/dead_letters.html",
        viewer,
        "Dead letters",
        among_newest=among,
        delivery_groups=[group for group in groups if group["side"] == dead_letters.DELIVERY],
        task_groups=[group for group in groups if group["side"] == dead_letters.TASK],
        may_operate=viewer.may(Scope.OPERATIONS_WRITE),
        verbs={name: name for name, verb in VERBS.items() if request.user.has_perm(verb.permission)},
    )


@console_page(Scope.TASKS_READ)
def journey(request: HttpRequest, viewer: Viewer, correlation_id: str) -> HttpResponse:
    """Everything that carries one correlation id."""
    if not viewer.may(Scope.DELIVERIES_READ):
        raise PermissionDenied("A journey shows tasks and deliveries; you may not see deliveries.")
    found = journeys.journey(correlation_id)
    if not found.entries:
        raise Http404("Nothing carries this correlation id; it may have been pruned.")
    return render(request, "console/journey.html", viewer, "Journey", journey=found, correlation_id=correlation_id)


@require_POST
@console_page(READ_ALERTS)
def alert_verb(request: HttpRequest, viewer: Viewer, alert_id: int, verb: str) -> HttpResponse:
    """Acknowledge or resolve, then back to the start page."""
    if not request.user.has_perm("console.change_alert"):
        raise PermissionDenied("You may not settle alerts.")
    act = alert_verbs.acknowledge if verb == "acknowledge" else alert_verbs.resolve
    if act(alert_id, actor=name_of(request.user), now=clock.now()):
        words = "Acknowledged. It stays here until it is over." if verb == "acknowledge" else "Resolved."
        messages.success(request, words)
    else:
        messages.info(request, "Somebody settled this alert already.")
    return redirect("start")
