"""A job's row as its adapter wants it named."""

from tasks.models import ExternalJob
from tasks.providers.base import JobRef


def ref_of(job: ExternalJob, kind: str) -> JobRef:
    """`kind` is the task's: the row does not hold it."""
    return JobRef(job.job_id, kind, job.item_key, job.provider_batch_id, job.options)
