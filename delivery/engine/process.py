"""What one worker process keeps between drains: connections, names, endpoint settings. One drain at a time.

Celery runs drains in a thread of its own (`-P threads -c 1`); a second wake-up while one runs returns at once.
"""

from __future__ import annotations

import gc
import resource
import threading

import structlog
from celery.worker import state as worker_state
from django.conf import settings
from django.db import close_old_connections
from django.utils import timezone

from delivery.engine.claiming import Claimer
from delivery.engine.drain import Drain, DrainReport
from delivery.engine.transport.messages import TransferConfig
from delivery.engine.transport.resolver import Resolver, ResolverConfig
from delivery.engine.transport.transfer import Transfers
from delivery.engine.wake import wake
from delivery.maintenance import partitions
from kernel.network.openings import Openings

OTHER_FILES = 128  # database, broker, name lookups, the interpreter's own

log = structlog.get_logger(__name__)
_one_at_a_time = threading.Lock()
_standing: tuple[int, Transfers, Claimer] | None = None


def should_stop() -> bool:
    """Has Celery been told to stop? The flags are None or False while it runs, and may be 0 when it must stop."""
    return any(
        flag is not None and flag is not False for flag in (worker_state.should_stop, worker_state.should_terminate)
    )


def drain() -> DrainReport | None:
    """Drain what is due, with what this process keeps. None where another drain of this process is at it."""
    if not _one_at_a_time.acquire(blocking=False):
        return None
    try:
        close_old_connections()
        transfers, claimer = _kept()
        report = Drain(transfers, claimer, should_stop=should_stop).run()
        if report.more and not should_stop():
            wake()
        return report
    finally:
        close_old_connections()
        _one_at_a_time.release()


def _kept() -> tuple[Transfers, Claimer]:
    """Made anew for every thread: libcurl's handles stay with the thread that made them."""
    global _standing
    if _standing is None or _standing[0] != threading.get_ident():
        partitions.ensure(now=timezone.now())
        # What stands by now stands for good, and a delivery's objects die by their counts: the collector would only
        # walk the hundreds in the air again and again.
        gc.collect()
        gc.freeze()
        gc.set_threshold(20_000, 20, 20)
        networks = tuple(settings.DELIVERY_ALLOWED_NETWORKS)
        _standing = (threading.get_ident(), new_transfers(networks), new_claimer())
    return _standing[1], _standing[2]


def new_claimer() -> Claimer:
    return Claimer(max_bytes=settings.DELIVERY_MAX_BYTES_IN_FLIGHT)


def new_transfers(networks: Openings) -> Transfers:
    in_flight, idle = settings.DELIVERY_MAX_IN_FLIGHT, TransferConfig().max_idle_connections
    config = TransferConfig(
        max_in_flight=in_flight,
        max_waiting=room_for_waiting(settings.DELIVERY_MAX_WAITING, in_flight + idle + OTHER_FILES),
        allowed_networks=networks,
        ca_file=settings.DELIVERY_CA_FILE,
        proxy_url=settings.DELIVERY_PROXY_URL,
    )
    names = ResolverConfig(canary=settings.DELIVERY_CANARY_NAME)
    return Transfers(Resolver(names, allowed_networks=networks), config)


def room_for_waiting(wanted: int, others: int) -> int:
    """How many waiting transfers the limit of open files allows beside so many others; raises the soft limit first."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = wanted + others
    if hard != resource.RLIM_INFINITY:
        needed = min(needed, hard)
    if soft != resource.RLIM_INFINITY and soft < needed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))
    room = max(0, min(wanted, needed - others))
    if room < wanted:
        log.warning("few_open_files_allowed", limit=hard, wanted=wanted + others, waiting_transfers=room)
    return room
