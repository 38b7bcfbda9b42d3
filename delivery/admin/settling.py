"""What becomes of a deleted endpoint's dead letters, as the admin asks it: the choices this person has, and what came
of them. To give them up or send them elsewhere needs the right to do so with one of them."""

from __future__ import annotations

from typing import Any

from django.core.exceptions import PermissionDenied
from django.http import HttpRequest

from delivery.admin.forms import DeadLettersForm, dead_letters_form
from delivery.dead_letters import dead_letters
from delivery.endpoints import Settled
from delivery.models import Endpoint, lean
from delivery.states import DeadLetters
from kernel.counting import count

RIGHTS = {DeadLetters.DISCARD.value: "delivery.discard_delivery", DeadLetters.MOVE.value: "delivery.redrive_delivery"}
TARGETS_SHOWN = 200


def why_not(endpoint: Endpoint) -> str:
    """Why there is nothing to settle for it."""
    if endpoint.deleted_at is None:
        return "It is not deleted: redrive or discard its dead letters."
    return "" if dead_letters(endpoint=endpoint.pk).exists() else "It has no dead letters by now."


def form_for(request: HttpRequest, endpoint_id: int, *, is_kept: bool) -> type[DeadLettersForm]:
    """Keeping is no choice where they are kept already; without dead letters there is nothing to choose."""
    if not dead_letters(endpoint=endpoint_id).exists():
        return dead_letters_form([], [])
    targets = _targets(endpoint_id) if request.user.has_perm(RIGHTS[DeadLetters.MOVE]) else []
    choices = [] if is_kept else [(DeadLetters.KEEP.value, "Keep them: no alert counts them, nothing more is asked")]
    if request.user.has_perm(RIGHTS[DeadLetters.DISCARD]):
        choices.append((DeadLetters.DISCARD.value, "Discard them: given up for good"))
    if targets:
        choices.append((DeadLetters.MOVE.value, "Move them to another endpoint"))
    return dead_letters_form(choices, targets)


def _targets(endpoint_id: int) -> list[Endpoint]:
    owner = Endpoint.objects.filter(pk=endpoint_id).values("subscriber")
    rows = Endpoint.objects.filter(subscriber__in=owner, deleted_at=None).exclude(pk=endpoint_id)
    return list(lean(rows).order_by("pk")[:TARGETS_SHOWN])


def says(endpoint_id: int) -> list[str]:
    """How many there are, for whoever is about to delete it."""
    number, is_estimate = count(dead_letters(endpoint=endpoint_id))
    if not number:
        return []
    about = "About " if is_estimate else ""
    return [f"{about}{number:,} dead letter{'' if number == 1 else 's'} cannot be redriven any more: choose below."]


def wish(request: HttpRequest, form: dict[str, Any]) -> dict[str, Any]:
    """What was chosen; judged once more, since a hidden choice is no protection."""
    chosen = form.get("dead_letters", DeadLetters.KEEP.value)
    if chosen in RIGHTS and not request.user.has_perm(RIGHTS[chosen]):
        raise PermissionDenied("You may not do this to one dead letter, so not to all of an endpoint either.")
    return {"dead_letters": chosen, "move_to": form.get("move_to")}


def told(done: Settled) -> str:
    """What became of them, in a sentence; "" where nothing was done."""
    parts = [
        f"{number:,} dead letter{' was' if number == 1 else 's were'} {words}"
        for number, words in (
            (done.discarded, "discarded"),
            (done.moved, "moved"),
            (done.had_already, "there already and not sent twice"),
        )
        if number
    ]
    rest = "" if done.is_done else " There are more: they follow within minutes."
    return f"{', '.join(parts)}.{rest}" if parts else rest.strip()
