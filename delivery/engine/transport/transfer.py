"""Hundreds of HTTP requests in the air in one thread, through libcurl's multi interface.

`Transfers.add(request)` starts one, `poll(timeout)` returns those that have ended, `abort_all()` gives back the rest.
One deadline covers a transfer from `add` through the last body byte, name lookup included. No redirect, no proxy or
netrc from the environment, http and https only, and every address is judged when its name is resolved and again when
its socket is opened. It knows no database and no policy, and must never log a URL, a header or a body.
"""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass

import pycurl  # noqa: TID251 - the guarded transport
import structlog

from delivery.engine.tracebacks import told
from delivery.engine.transport.connections import KeptConnections
from delivery.engine.transport.handles import Handle
from delivery.engine.transport.messages import Request, TransferConfig, TransferResult
from delivery.engine.transport.reactor import Reactor
from delivery.engine.transport.resolver import MAX_ADDRESSES, NameFault, Resolution, Resolver, blocked
from delivery.policy.outcomes import Failure
from delivery.policy.own_faults import Kind
from kernel.network.addresses import BLOCKED_PORT, AddressRefused, Ruling, Target, judge, split_url
from kernel.network.openings import NEVER_HTTP

_MAX_PINNED = 20_000
log = structlog.get_logger(__name__)


@dataclass(slots=True)
class _Parked:
    """A request that waits for its name."""

    request: Request
    target: Target
    since: float
    until: float


class Transfers:
    """Not thread-safe, but for `wake()`. Close it in the thread that used it."""

    def __init__(self, names: Resolver, config: TransferConfig | None = None) -> None:
        self.config = config or TransferConfig()
        self._names = names
        self._kept = KeptConnections()
        # libcurl counts those in use too: fewer, and beside many that wait nobody's connection would be kept.
        most_kept = max(64, self.config.max_idle_connections) + self.config.max_waiting
        self._reactor = Reactor(most_kept, self._kept.listen)
        self._multi = self._reactor.multi
        self._free: list[Handle] = []
        self._handles: list[Handle] = []
        self._busy: dict[pycurl.Curl, Handle] = {}
        self._parked: dict[str, list[_Parked]] = {}
        self._parked_count = 0
        self._parked_until = 0.0
        self._woken = False
        self._named: deque[str] = deque()
        self._pinned: dict[tuple[str, int], tuple[str, ...]] = {}
        self._ended: list[TransferResult] = []

    def __len__(self) -> int:
        """Transfers in the air: parked, running, or ended and not yet fetched by `poll`."""
        return len(self._busy) + self._parked_count + len(self._ended)

    @property
    def free_slots(self) -> int:
        return self.config.max_in_flight + self.config.max_waiting - len(self)

    def add(self, request: Request) -> None:
        """Start a transfer. What is wrong with the request itself comes back from `poll` as a result.

        Raises RuntimeError above `max_in_flight` and `max_waiting` together: whoever adds asks `free_slots` first.
        """
        if self.free_slots <= 0:
            raise RuntimeError("no free slot: ask free_slots before adding")
        try:
            target = split_url(request.url)
        except AddressRefused as error:
            self._end(request, Failure.BLOCKED, error.detail, rule=error.code)
            return
        if target.literal:
            self._start_literal(request, target)
        elif (answer := self._names.peek(target.host)) is not None:
            self._start_named(request, target, answer, 0.0)
        else:
            self._park(request, target)

    def poll(self, timeout: float) -> list[TransferResult]:
        """Move everything on; wait up to `timeout` seconds for an end or a `wake()`. Returns what has ended."""
        ends = time.monotonic() + timeout
        while True:
            self._turn(ends)
            self._collect()
            if self._ended or self._woken or time.monotonic() >= ends:
                self._woken = False
                results, self._ended = self._ended, []
                return results

    def wake(self) -> None:
        """Make a waiting `poll` return at once. The one method for other threads and signal handlers."""
        self._woken = True
        self._reactor.ring()

    def abort_all(self) -> list[TransferResult]:
        """Cut everything that is in the air. `request_sent` of a result says whether the receiver may have it."""
        self._collect()
        results, self._ended = self._ended, []
        for handle in list(self._busy.values()):
            self._finish(handle, handle.result(Failure.ABORTED, "We stopped before the answer was complete."))
        for waiting in self._parked.values():
            for parked in waiting:
                self._end(parked.request, Failure.ABORTED, "We stopped before the name was resolved.")
        self._parked.clear()
        self._parked_count = 0
        self._pinned.clear()  # a handle cut before its first step has not loaded its pin
        aborted, self._ended = self._ended, []
        return results + aborted

    def close(self) -> None:
        """Abort what is left and free every handle and socket."""
        self.abort_all()
        self._reactor.close()
        for handle in self._handles:
            handle.curl.close()

    # --- starting ---------------------------------------------------------------------------------------------

    def _start_literal(self, request: Request, target: Target) -> None:
        verdict = self._judge(request, target, target.host)
        if verdict.allowed:
            self._launch(request, target, 0.0)
        else:
            self._end(request, Failure.BLOCKED, verdict.explanation, rule=verdict.rule, address=target.host)

    def _judge(self, request: Request, target: Target, address: str) -> Ruling:
        allowed = self.config.allowed_networks
        return judge(address, allowed, port=target.port, subscriber=request.subscriber)

    def _for_this_one(self, request: Request, target: Target, answer: Resolution) -> Resolution:
        """What of a name's addresses this request may be sent to: by its port, and by whose it is."""
        verdicts = [(address, self._judge(request, target, address)) for address in answer.addresses]
        good = tuple(address for address, verdict in verdicts if verdict.allowed)
        if good:
            return Resolution(good[:MAX_ADDRESSES])
        address, verdict = verdicts[0]
        if verdict.rule == BLOCKED_PORT:
            return Resolution(fault=NameFault.BLOCKED, detail=verdict.explanation, rule=verdict.rule)
        return blocked(target.host, address, verdict)

    def _start_named(self, request: Request, target: Target, answer: Resolution, waited: float) -> None:
        if answer.addresses and (not answer.is_public or target.port in NEVER_HTTP):
            answer = self._for_this_one(request, target, answer)
        if answer.addresses:
            pin = self._pin(target, answer.addresses)
            self._launch(request, target, waited, pin, answer.addresses)
        else:
            failure = _FAILURE_OF_NAME[answer.fault or NameFault.NO_ANSWER]
            address = answer.blocked_address
            self._end(request, failure, answer.detail, rule=answer.rule, address=address, dns_seconds=waited)

    def _pin(self, target: Target, addresses: tuple[str, ...]) -> list[str] | None:
        """The CURLOPT_RESOLVE entry, or None where libcurl's cache holds this very one already."""
        key = (target.host, target.port)
        if self._pinned.get(key) == addresses:
            return None
        if len(self._pinned) >= _MAX_PINNED:
            self._pinned.clear()
        self._pinned[key] = addresses
        shown = ",".join(f"[{a}]" if ":" in a else a for a in addresses)
        return [f"{target.host}:{target.port}:{shown}"]

    def _launch(
        self,
        request: Request,
        target: Target,
        waited: float,
        pin: list[str] | None = None,
        addresses: tuple[str, ...] = (),
    ) -> None:
        handle = self._free.pop() if self._free else self._new_handle()
        try:
            handle.prepare(request, target, waited, pin, addresses)
        except (pycurl.error, ValueError, UnicodeError) as error:
            if pin:
                self._pinned.pop((target.host, target.port), None)
            handle.release()
            self._retire(handle)
            self._end(request, Failure.BLOCKED, f"The request cannot be sent: {error}.", rule="unsendable")
            return
        self._busy[handle.curl] = handle
        self._multi.add_handle(handle.curl)

    def _new_handle(self) -> Handle:
        handle = Handle(self.config, self._kept)
        self._handles.append(handle)
        return handle

    def _retire(self, handle: Handle) -> None:
        """A handle whose options are in doubt starts afresh; libcurl's own lives on, since sockets may refer to it."""
        handle.configure()
        self._free.append(handle)

    def _park(self, request: Request, target: Target) -> None:
        now = time.monotonic()
        seconds = min(self._names.config.deadline_seconds, request.timeout_ms / 1000)
        waiting = self._parked.setdefault(target.host, [])
        waiting.append(_Parked(request, target, now, now + seconds))
        self._parked_until = min(self._parked_until, now + seconds) if self._parked_count else now + seconds
        self._parked_count += 1
        if len(waiting) == 1:
            self._names.ask(target.host, self._on_name)

    # --- moving -----------------------------------------------------------------------------------------------

    def _turn(self, ends: float) -> None:
        """One wait and what it brought."""
        self._unpark()
        if self._ended:
            ends = 0.0
        self._reactor.turn(min(ends, self._parked_until) if self._parked_count else ends, len(self._busy))

    def _unpark(self) -> None:
        if not self._parked_count:
            self._named.clear()
            return
        while self._named:
            host = self._named.popleft()
            answer = self._names.peek(host)
            for parked in self._parked.pop(host, ()):
                self._parked_count -= 1
                self._resume(parked, answer or self._names.silence(host))
        if self._parked_until <= time.monotonic():
            self._give_up_waiting(time.monotonic())

    def _give_up_waiting(self, now: float) -> None:
        for host, waiting in list(self._parked.items()):
            late = [parked for parked in waiting if parked.until <= now]
            if not late:
                continue
            self._parked_count -= len(late)
            self._parked[host] = [parked for parked in waiting if parked.until > now]
            if not self._parked[host]:
                del self._parked[host]
            answer = self._names.silence(host)
            for parked in late:
                self._resume(parked, answer)
        self._parked_until = min((p.until for w in self._parked.values() for p in w), default=now + 3600)

    def _resume(self, parked: _Parked, answer: Resolution) -> None:
        waited = time.monotonic() - parked.since
        if waited * 1000 >= parked.request.timeout_ms and answer.addresses:
            self._end(parked.request, Failure.TIMEOUT, "The name took the whole time.", dns_seconds=waited)
            return
        try:
            self._start_named(parked.request, parked.target, answer, waited)
        except Exception as error:  # noqa: BLE001 - nobody who polls for others' results shall lose them by this one
            log.error("transfer_not_started", **told(error))
            words = f"The transfer could not be started: {type(error).__name__}."
            self._end(parked.request, Failure.OWN_FAULT, words, rule=Kind.PROCESS)

    def _collect(self) -> None:
        while True:
            queued, good, bad = self._multi.info_read(512)
            for curl in good:
                handle = self._busy[curl]
                self._finish(handle, handle.ended(0, ""))
            for curl, number, message in bad:
                handle = self._busy[curl]
                if handle.is_stale:
                    handle.insist_on_a_fresh_connection()
                    self._start_again(handle)
                elif handle.starts_again_with_http2(number, message):
                    self._start_again(handle)
                else:
                    self._finish(handle, handle.ended(number, message))
            if not queued:
                return

    def _start_again(self, handle: Handle) -> None:
        """Its connection was unfit, which showed before anything was sent: the same request on a new one."""
        self._multi.remove_handle(handle.curl)
        self._multi.add_handle(handle.curl)

    def _finish(self, handle: Handle, result: TransferResult) -> None:
        self._ended.append(result)
        del self._busy[handle.curl]
        self._multi.remove_handle(handle.curl)
        if handle.release():
            self._free.append(handle)
        else:
            self._retire(handle)

    def _end(
        self,
        request: Request,
        failure: Failure,
        detail: str,
        *,
        rule: str = "",
        address: str = "",
        dns_seconds: float = 0.0,
    ) -> None:
        """The end of a transfer that never reached libcurl."""
        dns_ms = dns_seconds * 1000
        self._ended.append(TransferResult(request, 0, failure, detail, rule, address, dns_ms=dns_ms, total_ms=dns_ms))

    # --- called by others ---------------------------------------------------------------------------------------

    def _on_name(self, host: str) -> None:
        self._named.append(host)
        self._reactor.ring()


_FAILURE_OF_NAME = {
    NameFault.NOT_FOUND: Failure.DNS,
    NameFault.NO_ANSWER: Failure.DNS,
    NameFault.BLOCKED: Failure.BLOCKED,
    NameFault.RESOLVER: Failure.OWN_FAULT,
}
