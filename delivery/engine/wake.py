"""Tell the delivery workers that something is due. Losing a wake-up costs at most a beat (`kernel.wakeups`)."""

from kernel import wakeups

DRAIN = "delivery.drain"


def wake() -> None:
    """After the current transaction commits (now, if there is none): somebody look at the deliveries."""
    wakeups.after_commit(DRAIN)
