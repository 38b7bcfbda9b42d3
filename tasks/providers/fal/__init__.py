"""fal's queue: any model of its catalogue, the task's input passed on as it is."""

from tasks.providers.fal.client import Fal

__all__ = ["Fal"]
