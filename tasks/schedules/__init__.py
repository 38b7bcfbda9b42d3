"""Schedules: when they are due, the tick that makes their slots, and what a person does with them."""

from tasks.schedules.ticking import tick
from tasks.schedules.times import MOST_SLOTS, SHORTEST, refuse_bad_rhythm, upcoming
from tasks.schedules.verbs import RHYTHM, change, create, delete, pause, resume, run_now

__all__ = [
    "MOST_SLOTS",
    "RHYTHM",
    "SHORTEST",
    "change",
    "create",
    "delete",
    "pause",
    "refuse_bad_rhythm",
    "resume",
    "run_now",
    "tick",
    "upcoming",
]
