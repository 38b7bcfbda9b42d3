"""The door at which `manage.py doctor` receives the event that it sends itself. It stores nothing.

Open to anybody, so a stranger gets a 404 for whatever he sends: only the name of a trial under way, which nobody can
guess, leads further. The signature is verified by what verifies providers' calls, not by the code that signed it.
"""

from django.http import Http404, HttpRequest, HttpResponse
from django.views.decorators.csrf import csrf_exempt

from console.health import trial
from kernel import clock
from kernel.secrets import UndecryptableSecret
from webhooks import schemes
from webhooks.bodies import BodyRefused, read_raw

MOST_BYTES = 16 * 1024
WRONG_SIGNATURE, OTHER_KEYS = 401, 409  # what `console.health.doctor.event` makes words of


@csrf_exempt
def door(request: HttpRequest, nonce: str) -> HttpResponse:
    """The trial's proof for its own signed event."""
    if request.method != "POST":
        raise Http404
    try:
        secret = trial.secret_of(nonce)
    except UndecryptableSecret:
        return HttpResponse(status=OTHER_KEYS)
    if not secret:
        raise Http404
    try:
        body = read_raw(request, MOST_BYTES)
    except BodyRefused:
        raise Http404 from None
    headers = {name.lower(): value for name, value in request.headers.items()}
    call = schemes.SignedCall(body, headers)
    if not schemes.verify("standard_webhooks", call, [secret], clock.now()).is_genuine:
        return HttpResponse(status=WRONG_SIGNATURE)
    return HttpResponse(trial.proof_of(secret, nonce), content_type="text/plain")
