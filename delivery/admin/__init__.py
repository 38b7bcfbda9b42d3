"""The delivery side in the admin. Lists do not count millions, nothing that would lose data can be deleted, and every
verb has its own permission, asks before it acts, and says who did it and why.
"""

from delivery.admin import attempts, deliveries, endpoints, events, health

__all__ = ["attempts", "deliveries", "endpoints", "events", "health"]
