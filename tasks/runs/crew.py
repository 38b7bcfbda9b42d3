"""Who runs what: the runs that a worker has claimed, handed to its children, taken back from them, ended in time.

Each kind has children of its own, as many as it may use, so one kind's long runs hold up no other. Quick runs are
handed over several at once; whatever waits behind a run that turns out long is given back and goes to another child. A
child that dies takes one run with it: with others behind it nobody knows which it was, so those are all begun again,
each alone.
"""

import signal
import time
from collections import deque
from dataclasses import dataclass, field

import structlog

from tasks.engine.execution import RunKey
from tasks.engine.performing import Ended, failed
from tasks.models import Task
from tasks.runs import words
from tasks.runs.children import Child, Children, speaking, words_of_death

AHEAD_SECONDS = 0.05  # a child is given so much work at once, by what its kind has taken so far
MOST_AHEAD = 100
STALL_SECONDS = 0.3  # after that what waits behind a run is taken back
TERM_SECONDS = 5.0  # between SIGTERM and SIGKILL
CANCEL_SECONDS = 30.0  # how long a run may take to stop when it is asked to
IDLE_SECONDS = 60.0
RUNS_OF_A_CHILD = 20_000

log = structlog.get_logger(__name__)


@dataclass(slots=True, eq=False)
class Running:
    """One claimed run. `began` is when it came first in its child, as far as we know."""

    task: Task
    timeout_seconds: float
    memory_mb: int
    key: RunKey
    began: float = 0.0
    asked_at: float = 0.0
    doom: Ended | None = None  # why its child is being ended
    killed_at: float = 0.0
    is_alone: bool = False


@dataclass(slots=True, eq=False)
class Hands:
    """A child at work: its runs in the order in which it has them, the first of them begun."""

    child: Child
    runs: dict[int, Running] = field(default_factory=dict)
    quiet_since: float = 0.0
    has_given_back: bool = False

    def first(self) -> Running:
        return next(iter(self.runs.values()))


@dataclass(slots=True)
class Squad:
    """A kind's share of the crew."""

    kind: str
    most: int
    waiting: deque[Running] = field(default_factory=deque)
    hands: list[Hands] = field(default_factory=list)
    run_seconds: float = 0.05  # what a run takes, by the latest; a guess at first

    def ahead(self) -> int:
        return max(1, min(MOST_AHEAD, int(AHEAD_SECONDS / max(self.run_seconds, 1e-5))))

    def free(self, most: int) -> int:
        """How many more it could use: what its children take soon, twice over."""
        wanted = self.most * self.ahead() * 2 if self.ahead() > 1 else self.most
        return max(0, min(most, wanted) - len(self.waiting) - sum(len(hands.runs) for hands in self.hands))


class Crew:
    """All of a worker's children. `ended` and `progress` are what the worker has to write."""

    def __init__(self, children: Children) -> None:
        self._children = children
        self._idle: list[tuple[Child, float]] = []
        self.squads: dict[str, Squad] = {}
        self.ended: dict[RunKey, Ended] = {}
        self.progress: dict[RunKey, tuple[int, str]] = {}

    def squad(self, kind: str, most: int) -> Squad:
        return self.squads.setdefault(kind, Squad(kind, most))

    def runs(self) -> list[Running]:
        """Everything that is claimed and not ended."""
        found: list[Running] = []
        for squad in self.squads.values():
            found += squad.waiting
            for hands in squad.hands:
                found += hands.runs.values()
        return found

    def is_idle(self) -> bool:
        return not any(squad.waiting or squad.hands for squad in self.squads.values())

    # --- handing out ------------------------------------------------------------------------------------------

    def hand_out(self) -> None:
        for squad in self.squads.values():
            for hands in squad.hands:
                if squad.waiting and len(hands.runs) <= squad.ahead() // 2 and not self._is_taken(hands):
                    self._give(squad, hands)
            while squad.waiting and len(squad.hands) < squad.most:
                hands = Hands(self._take_child())
                squad.hands.append(hands)
                self._give(squad, hands)

    @staticmethod
    def _is_taken(hands: Hands) -> bool:
        """Whether this child takes no more: a run is being ended, is by itself, or turned out long."""
        return hands.has_given_back or any(run.is_alone or run.doom for run in hands.runs.values())

    def _give(self, squad: Squad, hands: Hands) -> None:
        batch: list[Running] = []
        while squad.waiting and len(hands.runs) + len(batch) < squad.ahead():
            if squad.waiting[0].is_alone and (hands.runs or batch):
                break
            batch.append(squad.waiting.popleft())
            if batch[-1].is_alone:
                break
        now = time.monotonic()
        if not hands.runs:
            hands.quiet_since = now
            if batch:
                batch[0].began = now
        hands.runs |= {run.task.pk: run for run in batch}
        hands.child.runs += len(batch)
        if batch:
            hands.child.say(words.RUN, [words.order_of(run.task, run.memory_mb) for run in batch])

    def _take_child(self) -> Child:
        return self._idle.pop()[0] if self._idle else self._children.make()

    # --- listening --------------------------------------------------------------------------------------------

    def listen(self, seconds: float) -> None:
        """Hear what the children say within so many seconds."""
        at_work = {hands.child: (squad, hands) for squad in self.squads.values() for hands in squad.hands}
        for child in speaking([*at_work, *(child for child, _ in self._idle)], seconds):
            said = child.heard()
            if child not in at_work:
                self._idle = [pair for pair in self._idle if pair[0] is not child]
                if said is None:
                    self._children.how_died(child)
                continue
            squad, hands = at_work[child]
            if said is None:
                self._buried(squad, hands)
            else:
                self._note(squad, hands, said)

    def _note(self, squad: Squad, hands: Hands, said: list) -> None:  # type: ignore[type-arg]
        now = hands.quiet_since = time.monotonic()
        for word, *rest in said:
            if word == words.DONE:
                self._done(squad, hands, *rest)
            elif word == words.PROGRESS and (run := hands.runs.get(rest[0])) is not None:
                self.progress[run.key] = rest[1], rest[2]
            elif word == words.UNBEGUN:
                squad.waiting.extendleft(hands.runs.pop(pk) for pk in reversed(rest[0]) if pk in hands.runs)
        if hands.runs:
            hands.first().began = hands.first().began or now
        else:
            squad.hands.remove(hands)
            self._rest(hands.child)

    def _done(self, squad: Squad, hands: Hands, pk: int, said: tuple, seconds: float) -> None:  # type: ignore[type-arg]
        run = hands.runs.pop(pk, None)
        if run is None:
            return
        squad.run_seconds += (seconds - squad.run_seconds) * (0.5 if seconds > squad.run_seconds else 0.1)
        ended = Ended(*said)
        self.ended[run.key] = ended
        if ended.code == "out_of_memory":
            hands.child.is_ended = True

    def _rest(self, child: Child) -> None:
        if child.is_ended or child.runs >= RUNS_OF_A_CHILD:
            self._dismiss(child)
        else:
            self._idle.append((child, time.monotonic()))

    def _dismiss(self, child: Child) -> None:
        child.kill(signal.SIGKILL)
        self._children.how_died(child)

    def _buried(self, squad: Squad, hands: Hands) -> None:
        """Its process is dead."""
        squad.hands.remove(hands)
        status = self._children.how_died(hands.child)
        runs = list(hands.runs.values())
        doomed = [run for run in runs if run.doom is not None]
        for run in doomed:
            self.ended[run.key] = run.doom or failed("run_died", "")
        rest = [run for run in runs if run.doom is None]
        if not doomed and len(rest) == 1:
            log.warning("run_died", task=rest[0].task.pk, kind=squad.kind, status=status)
            self.ended[rest.pop().key] = failed("run_died", words_of_death(status))
        for run in reversed(rest):
            run.began, run.is_alone = 0.0, not doomed
            squad.waiting.appendleft(run)

    # --- watching ---------------------------------------------------------------------------------------------

    def watch(self) -> None:
        """Take back what waits behind long runs; end what has had its time; let idle children go."""
        now = time.monotonic()
        for squad in self.squads.values():
            for hands in squad.hands:
                self._watch_one(hands, now)
        for child, since in self._idle:
            if now - since > IDLE_SECONDS:
                self._dismiss(child)
        self._idle = [(child, since) for child, since in self._idle if now - since <= IDLE_SECONDS]

    def _watch_one(self, hands: Hands, now: float) -> None:
        run = hands.first()
        if len(hands.runs) > 1 and now - hands.quiet_since > STALL_SECONDS and not hands.has_given_back:
            hands.has_given_back = True
            hands.child.say(words.GIVE_BACK)
        if run.doom is not None:
            if now - run.killed_at > TERM_SECONDS:
                hands.child.kill(signal.SIGKILL)
        elif run.began and now - run.began > run.timeout_seconds:
            text = f"The run took longer than the {run.timeout_seconds:,.0f} s of its kind's policy, and was ended."
            self._doom(hands, run, failed("timed_out", text), now)
        elif run.asked_at and now - run.asked_at > CANCEL_SECONDS:
            text = f"Asked to stop, the run went on for {CANCEL_SECONDS:.0f} s, and was ended."
            self._doom(hands, run, Ended("cancel", code="cancelled_by_force", text=text), now)

    @staticmethod
    def _doom(hands: Hands, run: Running, ended: Ended, now: float) -> None:
        run.doom, run.killed_at = ended, now
        hands.child.kill(signal.SIGTERM)

    def ask_to_stop(self, keys: set[int]) -> None:
        """Tell these runs that somebody wants them cancelled. One that has not begun ends at once."""
        for squad in self.squads.values():
            for run in [run for run in squad.waiting if run.task.pk in keys]:
                squad.waiting.remove(run)
                self.ended[run.key] = Ended("cancel", code="cancelled", text="It was cancelled before it began.")
            for hands in squad.hands:
                for pk in hands.runs.keys() & keys:
                    if not hands.runs[pk].asked_at:
                        hands.runs[pk].asked_at = time.monotonic()
                        hands.child.say(words.CANCEL, pk)

    def abandon(self, lost: set[int]) -> None:
        """End runs whose lease is lost: another worker has them, and what they come to is written nowhere."""
        for squad in self.squads.values():
            squad.waiting = deque(run for run in squad.waiting if run.task.pk not in lost)
            for hands in squad.hands:
                if hands.first().task.pk in lost and hands.first().doom is None:
                    self._doom(hands, hands.first(), failed("lease_lost", "Another worker has it."), time.monotonic())

    def disband(self) -> list[RunKey]:
        """End all children now; returns what was claimed and has not ended."""
        left = [run.key for run in self.runs()]
        at_work = [hands.child for squad in self.squads.values() for hands in squad.hands]
        self._children.end([*at_work, *(child for child, _ in self._idle)])
        self._idle, self.squads = [], {}
        return left
