"""The page that replays old events to one endpoint: what would be sent, what of it comes twice, then the operation.

A replay that would send something a second time is begun only by whoever has been shown that.
"""

from typing import Any

from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect

from console.live.viewers import Viewer
from console.models import Operation
from console.operations import plan
from console.operations.verbs import VERBS
from console.pages.frame import console_page, render
from delivery.models import Endpoint
from kernel import clock
from kernel.api.problems import Problem
from kernel.auth import Scope, name_of

VERB = Operation.Verb.REPLAY_EVENTS
FIELDS = ("since", "until", "types")


@console_page(Scope.OPERATIONS_WRITE)
def replay(request: HttpRequest, viewer: Viewer, endpoint_id: int) -> HttpResponse:
    """GET shows the form; POST previews, and with `do=replay` begins."""
    if not request.user.has_perm(VERBS[VERB].permission):
        raise PermissionDenied("You may not replay to an endpoint; ask an administrator for the right.")
    endpoint = Endpoint.objects.filter(pk=endpoint_id, deleted_at=None).only("name", "host", "subscriber").first()
    if endpoint is None:
        raise Http404(f"There is no endpoint {endpoint_id}, or it was deleted.")
    context: dict[str, Any] = {"endpoint": endpoint, "form": request.POST or {"since": "24h"}}
    if request.method == "POST":
        try:
            seen = plan.preview(VERB, _asked(request, endpoint_id), None, clock.now())
            if _may_begin(request, seen):
                return redirect("operation", _begin(request, endpoint_id).pk)
            context["preview"] = seen
        except Problem as problem:
            context["problem"] = problem.detail
    return render(request, "console/replay.html", viewer, f"Replay to {endpoint}", **context)


def _asked(request: HttpRequest, endpoint_id: int) -> dict[str, Any]:
    """The form as a filter; a field left empty here is not given."""
    given = {name: request.POST.get(name, "").strip() for name in FIELDS}
    asked: dict[str, Any] = {"endpoint": endpoint_id, **{name: text for name, text in given.items() if text}}
    if "types" in asked:
        asked["types"] = asked["types"].replace(",", " ").split()
    return asked


def _may_begin(request: HttpRequest, seen: plan.Preview) -> bool:
    if request.POST.get("do") != "replay" or not seen.target_count:
        return False
    return not seen.warnings or request.POST.get("knowing") == "1"


def _begin(request: HttpRequest, endpoint_id: int) -> Operation:
    return plan.create(
        VERB,
        _asked(request, endpoint_id),
        actor=name_of(request.user),
        reason=request.POST.get("reason", "").strip() or "no reason given",
        user=request.user,
    )
