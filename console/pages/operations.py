"""The pages of bulk operations: begin one from a group of dead letters, watch it, steer it. Changes only by POST."""

from typing import Any

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_POST

from console.live.topics import Topic
from console.live.viewers import READ_OPERATIONS, Viewer
from console.models import Operation
from console.operations import plan
from console.operations.verbs import VERBS, refusal_of
from console.pages.frame import console_page, render
from console.pages.views import live
from kernel.api.problems import Problem
from kernel.auth import Scope, name_of

STEER = {"pause": plan.pause, "resume": plan.resume, "cancel": plan.cancel}


@console_page(Scope.OPERATIONS_WRITE)
def new(request: HttpRequest, viewer: Viewer) -> HttpResponse:
    """Begin an operation on one group, then show it. An address typed or loaded again begins nothing."""
    if request.method != "POST":
        return redirect("dead-letters")
    if words := refusal_of(request.POST.get("verb", ""), request.user.has_perm):
        raise PermissionDenied(words)
    asked: dict[str, Any] = {
        name: request.POST[name] for name in ("fingerprint", "endpoint", "batch") if name in request.POST
    }
    try:
        operation = plan.create(
            request.POST.get("verb", ""),
            asked,
            actor=name_of(request.user),
            reason=request.POST.get("reason", "").strip() or "no reason given",
            canary=bool(request.POST.get("canary")) and request.POST.get("verb", "").startswith("redrive"),
            user=request.user,
        )
    except Problem as problem:
        messages.error(request, problem.detail)
        return redirect("dead-letters")
    return redirect("operation", operation.pk)


@console_page(READ_OPERATIONS)
def operation(request: HttpRequest, viewer: Viewer, operation_id: int) -> HttpResponse:
    found = live(Topic("operation", operation_id), viewer)
    row = Operation.objects.filter(pk=operation_id).first()
    if found is None or row is None:
        raise Http404(f"There is no operation {operation_id}.")
    may_operate = viewer.may(Scope.OPERATIONS_WRITE) and request.user.has_perm(VERBS[row.verb].permission)
    title = f"{row.get_verb_display()} #{row.pk}"
    return render(request, "console/operation.html", viewer, title, operation=found, row=row, may_operate=may_operate)


@require_POST
@console_page(Scope.OPERATIONS_WRITE)
def steer(request: HttpRequest, viewer: Viewer, operation_id: int) -> HttpResponse:
    row = Operation.objects.filter(pk=operation_id).first()
    verb = STEER.get(request.POST.get("verb", ""))
    if row is None or verb is None:
        raise Http404("There is no such operation or verb.")
    if not request.user.has_perm(VERBS[row.verb].permission):
        raise PermissionDenied("You may not do this to one row, so you may not steer it; ask an administrator.")
    try:
        verb(row, actor=name_of(request.user))
    except Problem as problem:
        messages.error(request, problem.detail)
    return redirect("operation", row.pk)
