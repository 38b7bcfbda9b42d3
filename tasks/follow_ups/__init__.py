"""Follow-ups: the batches that are made from what a batch or a task has brought, and a person's verb for them."""

from tasks.follow_ups.making import make_due
from tasks.follow_ups.verbs import REDRIVEN, redrive

__all__ = ["REDRIVEN", "make_due", "redrive"]
