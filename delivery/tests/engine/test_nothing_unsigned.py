"""Without a secret there is no request, and an endpoint that is deleted while it is claimed gets none."""

import random
import threading
import time
import uuid

import pytest
from django.db import connection
from django.utils import timezone

from delivery import endpoints, events
from delivery.engine import claiming, claims
from delivery.engine.claiming import Claimer
from delivery.engine.requests import Unsigned, build
from delivery.engine.verdicts import unbuildable
from delivery.models import Attempt, Delivery, Endpoint
from delivery.states import AWAITS_TURN

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.parametrize("form", [{}, {"request_form": "postback", "method": "GET"}], ids=["event", "postback"])
def test_an_endpoint_without_a_secret_is_held_in_words_and_gets_nothing(make_endpoint, sink, drain, form):
    endpoint = make_endpoint(sink.url + "/bare", secret="", **form)
    events.record("a.b", {}, subscriber="acme")
    drain()
    endpoint.refresh_from_db()
    delivery = Delivery.objects.get(endpoint=endpoint)
    assert sink.seen == []
    assert endpoint.state == "needs_attention" and "no secret" in endpoint.hold_reason
    assert (delivery.state, delivery.attempt_count, Attempt.objects.count()) == ("pending", 0, 0)
    assert endpoint.health.throttled_until is None
    endpoints.rotate_secret(endpoint, actor="ada")
    endpoints.resume(endpoint, actor="ada")
    drain()
    delivery.refresh_from_db()
    assert delivery.state == "delivered"
    assert "webhook-signature" in sink.seen[0].headers


@pytest.mark.parametrize("ordering_key", ["", "data.n"])
@pytest.mark.parametrize("knows_it", [True, False], ids=["settings known", "settings not known"])
@pytest.mark.parametrize("verb", [endpoints.delete, endpoints.pause], ids=lambda verb: verb.__name__)
def test_what_is_held_or_deleted_between_look_and_claim_is_not_claimed(
    make_endpoint, monkeypatch, ordering_key, knows_it, verb
):
    endpoint = make_endpoint(ordering_key=ordering_key)
    events.record("a.b", {"n": 1}, subscriber="acme")
    claimer = Claimer()
    if knows_it:
        claimer.configs.of({endpoint.pk: endpoint.version})
    real = claims.find

    def find(*given):
        found = real(*given)
        if found.locked:
            other = threading.Thread(target=lambda: (verb(endpoint.pk, actor="ada", reason="test"), connection.close()))
            other.start()
            while not Endpoint.objects.filter(pk=endpoint.pk, is_held=True).exists() and other.is_alive():
                time.sleep(0.01)
            others.append(other)
        return found

    others: list[threading.Thread] = []
    monkeypatch.setattr(claiming.claims, "find", find)
    claimed, _ = claimer.claim(10, uuid.uuid4())
    for other in others:
        other.join()
    assert others and claimed == []
    delivery = Delivery.objects.get(endpoint=endpoint)
    assert delivery.state in ("pending", "cancelled") and delivery.next_attempt_at < AWAITS_TURN
    endpoint.refresh_from_db()
    assert endpoint.health.throttled_until is None


def test_a_request_is_never_built_without_a_secret(make_endpoint):
    make_endpoint()
    events.record("a.b", {}, subscriber="acme")
    [claimed], _ = Claimer().claim(10, uuid.uuid4())
    claimed.began_at = timezone.now().timestamp()
    claimed.config.secret = ""
    with pytest.raises(Unsigned) as refusal:
        build(claimed)
    verdict = unbuildable(claimed, refusal.value, random.Random(0))
    assert (verdict.outcome, verdict.cost) == ("own_fault", 0)
    assert "no secret" in verdict.error
