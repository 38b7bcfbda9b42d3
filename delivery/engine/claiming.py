"""One claim, start to end: find endpoints with something due, ask their policies for room, lease rows.

The policies (breaker, rate, concurrency) are the pure ones of `delivery.policy`, asked while the endpoint's health row
is locked, so what they decide holds for all workers together. Two statements and a commit, whatever the number of rows.
"""

from __future__ import annotations

import random
import time
from dataclasses import dataclass, replace
from datetime import timedelta
from uuid import UUID

from django.db import transaction

from delivery import lifecycle
from delivery.engine import ahead, claims, health_rows
from delivery.engine.claims import LockedEndpoint, Memory, Quota
from delivery.engine.requests import KEYLESS, Claimed, Config, Configs, parts_of
from delivery.engine.shares import Promises, Shares
from delivery.policy import pace as paces
from delivery.policy.breaker import Admission, Breaker, admission, take_probe
from delivery.policy.own_faults import Kind
from delivery.policy.pace import Pace
from delivery.policy.process_faults import ProcessFaults
from kernel import clock
from kernel.token_bucket import Bucket, take

ENDPOINTS_LEAST = 8  # asked in one claim, if so many have something due
ROWS_WANTED = 12  # of one endpoint at a time: enough to use its connections again, few enough to be fair
LAST = 2**63 - 1
ROUNDS_MOST = 40  # with 512 endpoints looked at in each, beyond it the next claim goes on
FLOOR_SLACK_SECONDS = 60.0
UNUSABLE_PAUSE_SECONDS = 60.0
SMALL_BYTES = 64 * 1024  # a payload of up to so much is bounded by the slots alone
MAX_BYTES = 64 * 1024 * 1024


@dataclass(slots=True)
class _Admitted:
    """What the policies grant an endpoint in this claim."""

    endpoint: LockedEndpoint
    config: Config
    room: int
    is_probe: bool
    test_id: int | None = None  # goes out whatever holds the endpoint


class Claimer:
    """Keeps the rotating cursor, the endpoints' settings, the subscribers' shares and the faults of one process.

    The large payloads (above 64 KiB) that it has in memory at once share `max_bytes`.
    """

    def __init__(self, configs: Configs | None = None, max_bytes: int = MAX_BYTES) -> None:
        self.configs = configs or Configs()
        self._max_bytes = max_bytes
        self.shares = Shares()
        self.faults = ProcessFaults()
        self._cursor = random.getrandbits(20)
        self._floor = ahead.LONG_AGO
        self._floor_until = 0.0

    def claim(
        self, slots: int, token: UUID, large_bytes: int = 0, *, slow_too: bool = True
    ) -> tuple[list[Claimed], bool]:
        """Deliveries leased under `token`, and whether it is worth claiming again at once.

        Up to `slots`, which is the room for quick ones; beside them, where `slow_too`, what the waiting room allows.
        `large_bytes` are the large payloads that are in memory already (see `large_bytes_of`).
        """
        memory = Memory(SMALL_BYTES, self._max_bytes - large_bytes, is_empty=not large_bytes)
        most = min(slots, max(ENDPOINTS_LEAST, slots // ROWS_WANTED))
        start = self._cursor
        after, until = start, LAST
        for _ in range(ROUNDS_MOST if slots > 0 else 0):
            self._look_where_it_begins()
            with transaction.atomic():
                found = claims.find(after, until, most, self._floor)
                promises = self.shares.promises(slow_too=slow_too)
                claimed, parked = self._take(found.locked, slots, token, promises, memory) if found.locked else ([], 0)
            self._hold_without_secret()
            self._cursor = found.go_on_after or 0
            if claimed or parked:
                return claimed, True
            if found.go_on_after is not None:
                after = found.go_on_after
            elif until == LAST and start > 0:
                after, until = 0, start  # round the corner, up to where we began
            else:
                break
        return [], False

    def _hold_without_secret(self) -> None:
        """Outside of the claim's transaction: an endpoint's row is locked before its health row, never after."""
        while self.configs.without_secret:
            lifecycle.need_attention(self.configs.without_secret.pop(), reason=KEYLESS)

    def _look_where_it_begins(self) -> None:
        """Renew the floor: every second, and seldom while looking is dear; it may cost a twentieth of the time."""
        began = time.monotonic()
        if began < self._floor_until:
            return
        self._floor = ahead.earliest_due(FLOOR_SLACK_SECONDS)
        now = time.monotonic()
        self._floor_until = now + min(30.0, max(1.0, 20 * (now - began)))

    def _take(
        self, endpoints: list[LockedEndpoint], slots: int, token: UUID, promises: Promises, memory: Memory
    ) -> tuple[list[Claimed], int]:
        grants = self._grants(endpoints, slots, promises)
        by_endpoint = {grant.config.id: grant for grant in grants}
        rows: list[claims.ClaimedRow] = []
        for grant in [grant for grant in grants if grant.test_id is not None]:
            rows += claims.claim_test(grant.config.id, grant.test_id or 0, token, grant.config.lease_seconds)
        tests, parked = {row[0] for row in rows}, 0
        for (in_order, lease_seconds), rooms in _alike(grants).items():
            if in_order:
                taken, waiting = claims.claim_in_order(rooms, token, lease_seconds, self._floor, memory)
                parked += waiting
            else:
                taken = claims.claim(rooms, token, lease_seconds, self._floor, memory)
            rows += taken
            if large := sum(large_bytes_of(row[8]) for row in taken):
                memory = replace(memory, free=memory.free - large, is_empty=False)
        most = sum(grant.room for grant in grants) + len(tests)
        if len(rows) > most:
            raise AssertionError(f"claimed {len(rows)} of at most {most}")
        began_at = self._note(grants, [row for row in rows if row[0] not in tests], token)
        claimed = [
            parts_of(row, token, by_endpoint[row[1]].config, by_endpoint[row[1]].is_probe and row[0] not in tests)
            for row in rows
        ]
        for one in claimed:
            one.began_at = began_at
        return claimed, parked

    def _grants(self, endpoints: list[LockedEndpoint], slots: int, promises: Promises) -> list[_Admitted]:
        configs = self.configs.of({locked.endpoint_id: locked.version for locked in endpoints})
        grants, able = [], []
        for locked in endpoints:
            pk, config = locked.endpoint_id, configs.get(locked.endpoint_id)
            if pk in self.configs.without_secret or (pk in self.configs.held and locked.test_id is None):
                continue
            if config is None and pk in self.configs.keyless:
                claims.forget_test(pk)  # else it would be looked for in every claim, until somebody rotates
            elif config is None:
                health_rows.note_unusable(pk, Kind.SETTINGS, UNUSABLE_PAUSE_SECONDS)
            elif promises.give(config.owner, config.id, 1):
                able.append((locked, config))
        share = max(1, slots // max(1, len(able)))
        for locked, config in able:
            grant = _grant(locked, config, promises.give(config.owner, config.id, share))
            if grant.room or grant.test_id is not None:
                promises.took(config.owner, config.id, grant.room + (grant.test_id is not None))
                grants.append(grant)
        return grants

    def _note(self, grants: list[_Admitted], rows: list[claims.ClaimedRow], token: UUID) -> float:
        """Write tokens and probes to the health rows; returns the moment by the database's clock."""
        counts: dict[int, int] = {}
        for row in rows:
            counts[row[1]] = counts.get(row[1], 0) + 1
        changed = [
            change for grant in grants if (n := counts.get(grant.config.id)) and (change := _change(grant, n, token))
        ]
        if changed:
            health_rows.save_admissions(changed)
        return grants[0].endpoint.now.timestamp() if grants else clock.now().timestamp()


def large_bytes_of(payload: bytes) -> int:
    """What a payload counts towards the bytes in memory: nothing, up to 64 KiB."""
    return len(payload) if len(payload) > SMALL_BYTES else 0


def _grant(endpoint: LockedEndpoint, config: Config, share: int) -> _Admitted:
    admitted = admission(_breaker_of(endpoint), endpoint.now)
    share = max(0, share - (endpoint.test_id is not None))
    room = 0
    if endpoint.is_open:
        room = {Admission.SEND: share, Admission.PROBE: min(1, share), Admission.HOLD: 0}[admitted]
    pace = Pace.of(endpoint)
    room = paces.room(pace, room)
    if room and (rate := paces.limit(config.rate, pace, endpoint.now)) is not None:
        room, _ = take(Bucket(endpoint.tokens, endpoint.tokens_at), rate, endpoint.now, room)
    return _Admitted(endpoint, config, room, admitted is Admission.PROBE, endpoint.test_id)


def _alike(grants: list[_Admitted]) -> dict[tuple[bool, float], list[Quota]]:
    """Rooms that one statement can claim: with or without order, and of one lease."""
    found: dict[tuple[bool, float], list[Quota]] = {}
    for grant in grants:
        config = grant.config
        room = Quota(config.id, grant.room, config.max_concurrency)
        found.setdefault((config.in_order, config.lease_seconds), []).append(room)
    return found


def _breaker_of(endpoint: LockedEndpoint) -> Breaker:
    return Breaker(
        endpoint.breaker_state,
        endpoint.consecutive_failures,
        endpoint.cooldown_seconds,
        endpoint.opened_at,
        endpoint.probe_at,
        endpoint.probe_token,
        endpoint.probe_until,
    )


def _change(grant: _Admitted, count: int, token: UUID) -> tuple[object, ...] | None:
    """The health row after `count` rows were claimed, or None where nothing changes."""
    endpoint, config = grant.endpoint, grant.config
    bucket, breaker = Bucket(endpoint.tokens, endpoint.tokens_at), _breaker_of(endpoint)
    pace, now = Pace.of(endpoint), endpoint.now
    rate = paces.limit(config.rate, pace, now)
    if rate is not None:
        _, bucket = take(bucket, rate, now, count)
    pace = paces.sent(pace, count, now, probe_until=now + timedelta(seconds=config.lease_seconds))
    if grant.is_probe:
        breaker = take_probe(breaker, now=endpoint.now, token=token, lease_seconds=config.lease_seconds) or breaker
    if rate is None and not grant.is_probe:
        return None
    return (
        bucket.tokens,
        bucket.tokens_at,
        str(breaker.breaker_state),
        breaker.probe_token,
        breaker.probe_until,
        pace.per_second,
        pace.ceiling,
        pace.clock,
        pace.sent,
        pace.probe_until,
        config.id,
    )
