"""A body beyond its door's cap (`settings.BODY_CAPS`) is refused before any view: 413 with the cap in words.

`kernel.web.bodies` reads no more than that from the socket and declares what it cut, so the declared length is judged,
and a body that was cut must never reach a view: half a form is a form. Inbound webhooks are refused by their own view,
which counts them.
"""

from django.conf import settings
from django.core.exceptions import RequestDataTooBig
from django.http import HttpRequest, HttpResponse, JsonResponse

from kernel.api.error_views import API
from kernel.api.problems import CONTENT_TYPE, Problem, document
from kernel.counting import size
from kernel.web.bodies import cap_of
from kernel.web.middleware import Middleware
from kernel.web.refusals import INBOUND


class RefuseLargeBodiesMiddleware(Middleware):
    """Under `/api/` a problem; elsewhere Django's own page."""

    def refuse(self, request: HttpRequest) -> HttpResponse | None:
        path = request.path_info
        cap = None if path.startswith(INBOUND) else cap_of(path, settings.BODY_CAPS)
        if cap is None or _declared(request) <= cap:
            return None
        if not path.startswith(API):
            raise RequestDataTooBig(f"This page takes at most {size(cap)}.")
        problem = Problem(f"This address takes at most {size(cap)}. Send it in parts.", code="too_large", status=413)
        return JsonResponse(document(problem), status=problem.status, content_type=CONTENT_TYPE)


def _declared(request: HttpRequest) -> int:
    text = str(request.META.get("CONTENT_LENGTH") or "")
    return int(text[:20]) if text.isascii() and text.isdigit() else 0
