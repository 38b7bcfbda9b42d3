"""Whether the first few of a redrive came back with the same failure. Reads only."""

from console.models import Operation
from delivery import dead_letters
from delivery import stats as delivery_stats
from delivery.models import Delivery, Endpoint
from delivery.states import State as DeliveryState
from tasks.models import Task
from tasks.states import State as TaskState

_TASK_BAD = (TaskState.RETRYING.value, TaskState.DEAD_LETTER.value)


def returned(verb: str, before: dict[int, str]) -> tuple[list[int], int]:
    """Of these canaries (id → its old failure): which failed the same way again, and how many are not decided yet."""
    if verb == Operation.Verb.REDRIVE_DELIVERIES:
        return _returned_deliveries(before)
    rows = Task.objects.filter(pk__in=before).values_list("pk", "state", "kind", "error_code")
    again = [pk for pk, state, kind, code in rows if state in _TASK_BAD and f"{kind}/{code}" == before[pk]]
    undecided = [pk for pk, state, _kind, _code in rows if state not in (*_TASK_BAD, "succeeded", "cancelled")]
    return again, len(undecided)


def _returned_deliveries(before: dict[int, str]) -> tuple[list[int], int]:
    again, undecided = [], 0
    for row in Delivery.objects.filter(pk__in=before):
        if row.state in (DeliveryState.FAILED, DeliveryState.DEAD_LETTER) and row.attempt_count:
            failure = row.fingerprint
            if row.state == DeliveryState.FAILED:  # the fingerprint is written at death; ask what it would be now
                failure = dead_letters.fingerprint(
                    row.endpoint_id, row.last_outcome, row.last_status_code, row.last_error
                )
            if failure == before[row.pk]:
                again.append(row.pk)
        elif row.state in (DeliveryState.PENDING, DeliveryState.IN_FLIGHT, DeliveryState.FAILED):
            undecided += 1
    return again, undecided


def held_words(verb: str, before: dict[int, str]) -> str:
    """What to press where canaries cannot go out because their endpoint is held; empty otherwise."""
    if verb != Operation.Verb.REDRIVE_DELIVERIES:
        return ""
    owed = Endpoint.objects.filter(delivery_stats.HELD, deliveries__in=list(before))
    held = owed.only("name", "host").distinct()[:3]
    names = ", ".join(endpoint.name or endpoint.host for endpoint in held)
    return f" Held at the moment: {names}; resume or enable it, or wait until it may be sent to." if names else ""
