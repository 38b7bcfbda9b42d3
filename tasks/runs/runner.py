"""The loop of a worker process that runs internal kinds: claim, hand out, listen, settle; and beat while runs live.

One thread, started by the first wake-up and ended when there was nothing to do for a while, or when the worker stops:
what runs then gets a moment, and what is left is given back, uncharged. The wake-up itself returns at once, so that no
message stays unacknowledged for as long as a run takes. The database is used by this thread alone.
"""

import threading
import time
from collections.abc import Callable

import structlog
from django.db import InterfaceError, OperationalError, close_old_connections, connection

from tasks import kinds
from tasks.engine import clock, execution, wake
from tasks.engine.performing import Ended
from tasks.runs.children import Children
from tasks.runs.crew import Crew, Running

LOOK_SECONDS = 0.2
BEAT_SECONDS = 1.0
GATHER_SECONDS = 0.03  # what ends within it is settled together
MOST_AT_ONCE = 500  # claimed, or settled, in one transaction
IDLE_SECONDS = 30.0  # beyond it children and template go; the next wake-up makes them anew
STOP_SECONDS = 8.0  # what runs gets so long when the worker is told to stop
FAULT_SECONDS = 1.0

log = structlog.get_logger(__name__)


class Runner:
    """`should_stop` tells that the worker process ends."""

    def __init__(self, should_stop: Callable[[], bool], children: Children) -> None:
        self._should_stop = should_stop
        self._crew = Crew(children)
        self._nudged = threading.Event()
        self._dry: set[str] = set()
        self._beat_at = self._gathered_since = self._passed_on_at = 0.0
        self._busy_at = time.monotonic()
        self.has_ended = False

    def nudge(self) -> None:
        """A wake-up came: look again."""
        self._nudged.set()

    def run(self) -> None:
        """Until there is nothing to do, or the worker stops."""
        try:
            while not self._should_stop() and not self._is_over():
                self._guarded(self.turn)
            self.has_ended = True
            self._finish()
        finally:
            self.has_ended = True
            self._guarded(self._give_back)
            connection.close()

    def _guarded(self, step: Callable[[], None]) -> None:
        """A database that is away for a moment must not end what runs: leases outlast it, or the rescue helps."""
        try:
            step()
        except (OperationalError, InterfaceError) as error:
            log.warning("runs_without_database", error=type(error).__name__)
            close_old_connections()
            time.sleep(FAULT_SECONDS)

    def turn(self) -> None:
        """Once round."""
        if self._nudged.is_set():
            self._nudged.clear()
            self._dry.clear()
        self._claim()
        self._crew.hand_out()
        self._crew.listen(GATHER_SECONDS if self._crew.ended else LOOK_SECONDS)
        self._settle()
        self._beat()

    def _is_over(self) -> bool:
        if not self._crew.is_idle() or self._crew.ended or self._nudged.is_set():
            self._busy_at = time.monotonic()
        return time.monotonic() - self._busy_at > IDLE_SECONDS

    # --- claiming ---------------------------------------------------------------------------------------------

    def _claim(self) -> None:
        for name in kinds.internal():
            squad = self._crew.squad(name, kinds.get(name).processes)
            free = squad.free(MOST_AT_ONCE)
            if name in self._dry or free < max(1, squad.ahead() // 2):
                continue
            claimed = execution.claim(name, free, clock.now())
            for task in claimed.tasks:
                assert task.lease_token is not None
                key = task.pk, task.lease_token
                squad.waiting.append(Running(task, claimed.timeout_seconds, claimed.memory_mb, key))
            if not claimed.tasks:
                self._dry.add(name)
            elif len(claimed.tasks) == free:
                self._pass_on()

    def _pass_on(self) -> None:
        """There is more than we can take: another worker may be asleep, and the wake-up came to us."""
        if time.monotonic() - self._passed_on_at > BEAT_SECONDS:
            self._passed_on_at = time.monotonic()
            wake.publish(wake.RUN_INTERNAL)

    # --- settling ---------------------------------------------------------------------------------------------

    def _settle(self, *, all_of_it: bool = False) -> None:
        ended = self._crew.ended
        now = time.monotonic()
        if not ended:
            self._gathered_since = now
            return
        if not all_of_it and len(ended) < MOST_AT_ONCE // 2 and now - self._gathered_since < GATHER_SECONDS:
            return
        part = dict(list(ended.items())[:MOST_AT_ONCE])
        self._write(part)
        for key in part:
            ended.pop(key, None)
            self._crew.progress.pop(key, None)
        self._gathered_since = time.monotonic()

    def _write(self, part: dict[execution.RunKey, Ended]) -> None:
        """All together; where one of them breaks that, each for itself. That one is left to its lease."""
        try:
            execution.settle(part, clock.now())
            self._dry.clear()  # a slot became free, and a retry may be due at once
        except (OperationalError, InterfaceError):
            raise
        except Exception:
            log.exception("settle_failed", runs=len(part))
            for key, ended in part.items() if len(part) > 1 else ():
                self._write({key: ended})

    # --- the heartbeat ----------------------------------------------------------------------------------------

    def _beat(self) -> None:
        if time.monotonic() - self._beat_at < BEAT_SECONDS:
            return
        self._beat_at = time.monotonic()
        close_old_connections()
        self._dry.clear()
        self._crew.watch()
        live = [run.key for run in self._crew.runs() if run.key not in self._crew.ended]
        if live:
            held, unwanted = execution.extend(live, clock.now())
            self._crew.ask_to_stop(unwanted)
            self._crew.abandon({pk for pk, _ in live} - held)
        if self._crew.progress:
            said, self._crew.progress = self._crew.progress, {}
            execution.note_progress(said, clock.now())

    # --- the end ----------------------------------------------------------------------------------------------

    def _finish(self) -> None:
        """The worker stops: nothing new begins; what runs gets a moment."""
        ends = time.monotonic() + STOP_SECONDS
        while not self._crew.is_idle() and time.monotonic() < ends:
            self._crew.listen(LOOK_SECONDS)
            self._guarded(lambda: self._settle(all_of_it=True))
            self._guarded(self._beat)

    def _give_back(self) -> None:
        left = self._crew.disband()
        now = clock.now()
        text = "The worker that ran it was told to stop. It begins again elsewhere, and this costs no attempt."
        back = {key: Ended("snooze", code="worker_stopped", text=text, until=now) for key in left}
        if ended := {**back, **self._crew.ended}:
            self._write(ended)


def _run(runner: Runner, children: Children) -> None:
    try:
        runner.run()
    finally:
        children.close()


_lock = threading.Lock()
_running: tuple[Runner, threading.Thread] | None = None


def wake_up(should_stop: Callable[[], bool]) -> None:
    """Have this process run what is due. Returns at once."""
    global _running
    with _lock:
        if _running is not None and _running[1].is_alive():
            _running[0].nudge()
            if not _running[0].has_ended or should_stop():
                return
            _running[1].join()
        children = Children()
        runner = Runner(should_stop, children)
        thread = threading.Thread(target=lambda: _run(runner, children), name="runs")
        _running = runner, thread
        thread.start()
