"""The bytes of results that could not be used as they came, kept beside the external job, for the operator.

What is written here is untrusted and never parsed again; it is shown as text only to those who may see payloads.
"""

from kernel.network.http import MAX_BODY_BYTES
from tasks.models import ExternalJob, KeptAnswer

KEPT_BYTES = MAX_BODY_BYTES  # all that the guarded client reads, so that a paid result is kept whole
NOTE_LENGTH = 2000


def keep(job: ExternalJob, raw: bytes | None, note: str) -> None:
    """In the caller's transaction; a later answer for the same job takes the place of an earlier one.

    An empty answer says nothing, and must not take the place of one that did.
    """
    if not raw:
        return
    part = raw[:KEPT_BYTES]
    values = {"body": part, "body_bytes": len(raw), "is_cut": len(part) < len(raw), "note": note[:NOTE_LENGTH]}
    KeptAnswer.objects.update_or_create(job=job, defaults=values)


def drop(job: ExternalJob) -> None:
    """A later answer could be used."""
    KeptAnswer.objects.filter(job=job).delete()
