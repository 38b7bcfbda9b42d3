"""What each live topic shows: its whole small state, read from PostgreSQL."""

from console.live.snapshots.registry import Snapshot, database_clock, read

__all__ = ["Snapshot", "database_clock", "read"]
