"""The task side in the admin. Lists do not count millions; rows are changed by verbs only, each with its own
permission, a page that asks before it acts, and a reason that is kept.
"""

from tasks.admin import batches, jobs, kinds, schedules, tasks

__all__ = ["batches", "jobs", "kinds", "schedules", "tasks"]
