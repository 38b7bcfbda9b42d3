"""Names: one lookup each, nobody blocked by others, faults told apart, and rebinding that gets nowhere."""

import threading
import time

import pytest

from delivery.engine.transport.messages import Request
from delivery.engine.transport.resolver import NameFault, Resolution, Resolver, ResolverConfig, _Entry
from delivery.policy.outcomes import Failure
from delivery.tests.engine.flights import LOOPBACK, fly, flying, land, names_of
from kernel.network.lookup import LookupFailed, NameNotFound
from kernel.tests import hostile
from kernel.tests.hostile import answering, serving


class Clock:
    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now


def ask(names: Resolver, host: str, seconds: float = 3.0):
    done = threading.Event()
    names.ask(host, lambda _host: done.set())
    assert done.wait(seconds)
    return names.peek(host)


def failing(error):
    def look_up(host):
        raise error

    return look_up


def test_addresses_are_cached_and_then_asked_again():
    clock, asked = Clock(), []
    names = Resolver(
        allowed_networks=LOOPBACK, addresses_of=lambda host: asked.append(host) or ["127.0.0.1"], clock=clock
    )
    assert names.peek("a.example") is None
    assert ask(names, "a.example").addresses == ("127.0.0.1",)
    clock.now += 29
    assert names.peek("a.example").addresses == ("127.0.0.1",)
    clock.now += 2
    assert names.peek("a.example") is None
    ask(names, "a.example")
    assert asked == ["a.example", "a.example"]


def test_many_askers_share_one_lookup():
    go, asked = threading.Event(), []

    def look_up(host):
        asked.append(host)
        go.wait(3)
        return ["127.0.0.1"]

    names, told = names_of(look_up), []
    for _ in range(20):
        names.ask("a.example", told.append)
    go.set()
    for _ in range(100):
        if len(told) == 20:
            break
        time.sleep(0.01)
    assert (asked, told) == (["a.example"], ["a.example"] * 20)


def test_the_guard_drops_bad_addresses_and_blocks_when_none_is_left():
    table = {"mixed.example": ["10.0.0.1", "127.0.0.1", "8.8.8.8"], "bad.example": ["169.254.169.254", "10.0.0.1"]}
    names = names_of(table.__getitem__)
    assert ask(names, "mixed.example").addresses == ("127.0.0.1", "8.8.8.8")
    answer = ask(names, "bad.example")
    assert (answer.fault, answer.rule, answer.blocked_address) == (NameFault.BLOCKED, "metadata", "169.254.169.254")
    assert "bad.example" in answer.detail


def test_no_such_name_is_cached_for_a_while():
    clock = Clock()
    names = Resolver(addresses_of=failing(NameNotFound("no")), clock=clock)
    assert ask(names, "gone.example").fault is NameFault.NOT_FOUND
    clock.now += 9
    assert names.peek("gone.example") is not None
    clock.now += 2
    assert names.peek("gone.example") is None


def test_silence_is_the_names_fault_while_others_are_answered():
    def look_up(host):
        if host == "good.example":
            return ["127.0.0.1"]
        raise LookupFailed("SERVFAIL")

    names = names_of(look_up)
    ask(names, "good.example")
    assert ask(names, "bad.example").fault is NameFault.NO_ANSWER


def test_silence_is_our_fault_when_names_of_three_domains_are_silent_and_nothing_is_answered():
    names = names_of(failing(LookupFailed("no resolver")))
    faults = [ask(names, f"hooks.{word}.example").fault for word in ("one", "two", "three")]
    assert faults == [NameFault.NO_ANSWER, NameFault.NO_ANSWER, NameFault.RESOLVER]
    assert ask(names, "hooks.four.example").rule == "name_service"


def test_a_name_that_fails_alone_is_its_own_fault_for_ever():
    """As on a closed network, where nothing else is ever asked."""
    clock = Clock()
    names = Resolver(addresses_of=failing(LookupFailed("SERVFAIL")), clock=clock)
    for _ in range(20):
        assert ask(names, "dead.example").fault is NameFault.NO_ANSWER
        clock.now += 60


def test_names_below_one_domain_are_one_witness():
    names = names_of(failing(LookupFailed("SERVFAIL")))
    assert {ask(names, f"h{n}.dead.example").fault for n in range(6)} == {NameFault.NO_ANSWER}


def test_an_answer_clears_our_name_service_and_old_witnesses_do_not_count():
    clock, up = Clock(), [False]

    def look_up(host):
        if up[0]:
            return ["192.0.2.1"]
        raise LookupFailed("SERVFAIL")

    names = Resolver(addresses_of=look_up, clock=clock)
    ask(names, "a.one.example"), ask(names, "a.two.example")
    clock.now += 121
    assert ask(names, "a.three.example").fault is NameFault.NO_ANSWER
    ask(names, "a.four.example")
    up[0] = True
    ask(names, "good.five.example")
    up[0] = False
    clock.now += 11
    assert ask(names, "a.six.example").fault is NameFault.NO_ANSWER


@pytest.mark.parametrize(
    ("canary", "fault"), [(["192.0.2.1"], NameFault.NO_ANSWER), (None, NameFault.RESOLVER)], ids=["alive", "dead"]
)
def test_a_canary_is_a_witness_for_either_side(canary, fault):
    def look_up(host):
        if host == "canary.example" and canary:
            return canary
        raise LookupFailed("SERVFAIL")

    names = Resolver(ResolverConfig(canary="canary.example"), addresses_of=look_up)
    ask(names, "a.one.example")
    assert ask(names, "a.two.example").fault is fault


def test_no_name_is_asked_that_nobody_named():
    asked = []

    def look_up(host):
        asked.append(host)
        raise LookupFailed("SERVFAIL")

    ask(Resolver(addresses_of=look_up), "only.example")
    assert asked == ["only.example"]


def test_old_addresses_serve_while_our_resolver_is_down():
    clock, up = Clock(), [True]

    def look_up(host):
        if up[0]:
            return ["127.0.0.1"]
        raise LookupFailed("down")

    names = Resolver(ResolverConfig(canary=""), allowed_networks=LOOPBACK, addresses_of=look_up, clock=clock)
    ask(names, "a.example")
    up[0] = False
    clock.now += 60
    assert ask(names, "a.example").addresses == ("127.0.0.1",)
    clock.now += 3600
    assert ask(names, "a.example").addresses == ()


def test_a_resolver_that_raises_nonsense_is_still_an_answer():
    assert ask(names_of(failing(ZeroDivisionError())), "a.example").fault is NameFault.NO_ANSWER


def test_the_table_of_names_is_bounded():
    names = names_of(lambda host: ["127.0.0.1"], max_names=20)
    for i in range(50):
        ask(names, f"h{i}.example")
    assert len(names._entries) <= 20


def test_fifty_silent_names_leave_the_good_ones_flowing():
    silent = threading.Event()

    def look_up(host):
        if host.startswith("silent"):
            silent.wait(20)
            raise LookupFailed("nothing")
        return ["127.0.0.1"]

    names = names_of(look_up, deadline_seconds=1.0)
    with serving(answering(hostile.OK)) as server, flying(names, max_in_flight=200) as transfers:
        for i in range(50):
            transfers.add(Request(f"http://silent{i}.example:{server.port}/", key="silent"))
        for i in range(50):
            transfers.add(Request(server.url(host=f"good{i}.example"), key="good"))
        good = land(transfers, 50)  # those that land first
        assert {(r.request.key, r.status) for r in good} == {("good", 200)}
        bad = land(transfers, 50)
        assert {(r.request.key, r.failure) for r in bad} == {("silent", Failure.DNS)}
        assert all(r.dns_ms > 900 and not r.request_sent for r in bad)
        silent.set()


def test_names_that_were_silent_once_stay_in_their_own_lane():
    silent = threading.Event()

    def look_up(host):
        if host.startswith("silent"):
            silent.wait(20)
            raise LookupFailed("nothing")
        return ["127.0.0.1"]

    names = names_of(look_up, max_threads=4, max_slow_threads=2, negative_seconds=0.0)
    for i in range(4):
        names._entries[f"silent{i}.example"] = _Entry(Resolution(fault=NameFault.NO_ANSWER), until=0.0, slow=True)
        names.ask(f"silent{i}.example", lambda host: None)
    assert ask(names, "good.example").addresses == ("127.0.0.1",)
    silent.set()


def test_a_name_that_was_never_asked_is_not_to_blame():
    silent = threading.Event()
    names = names_of(lambda host: silent.wait(20) or ["127.0.0.1"], max_threads=1)
    names._answered_at = time.monotonic()
    names.ask("silent.example", lambda host: None)
    names.ask("queued.example", lambda host: None)
    time.sleep(0.05)
    assert names.silence("silent.example").fault is NameFault.NO_ANSWER
    assert names.silence("queued.example").fault is NameFault.RESOLVER
    silent.set()


def test_our_resolver_down_is_an_own_fault_and_charges_nobody():
    result = fly("http://a.example/", names=names_of(failing(LookupFailed("down")), witnesses=1))
    assert (result.failure, result.rule, result.request_sent) == (Failure.OWN_FAULT, "name_service", False)


def test_a_name_that_changes_its_mind_never_reaches_the_second_address():
    answers = [["127.0.0.1"], ["169.254.169.254"], ["10.0.0.1"]]
    names = names_of(lambda host: answers.pop(0), fresh_seconds=0.05)
    with serving(hostile.close_after_read) as server, flying(names) as transfers:
        seen = []
        for _ in range(3):
            transfers.add(Request(server.url(host="rebind.example"), timeout_ms=2000))
            seen.append(land(transfers)[0])
            time.sleep(0.1)
            names._entries["rebind.example"].until = 0.0
    assert [(r.failure, r.rule) for r in seen] == [
        (Failure.CONNECTION, ""),
        (Failure.BLOCKED, "metadata"),
        (Failure.BLOCKED, "private"),
    ]


def test_the_pinned_address_is_followed_when_the_name_moves():
    answers = [["127.0.0.1"], ["127.0.0.2"]]
    names = names_of(lambda host: answers.pop(0))
    with serving(hostile.close_after_read, address="127.0.0.1") as server, flying(names) as transfers:
        seen = []
        for _ in range(2):
            transfers.add(Request(server.url(host="moving.example"), timeout_ms=2000))
            seen.append(land(transfers)[0])
            names._entries["moving.example"].until = 0.0
    assert [r.address for r in seen] == ["127.0.0.1", "127.0.0.2"]


def test_libcurls_own_resolver_meets_the_socket_guard():
    """The second line: were a pin lost, the address that libcurl finds by itself is judged before it is dialled."""
    names = names_of(lambda host: ["8.8.8.8"])
    with serving(answering(hostile.OK)) as server, flying(names, allowed_networks=()) as transfers:
        transfers._pinned[("localhost", server.port)] = ("8.8.8.8",)
        transfers.add(Request(server.url(host="localhost"), timeout_ms=2000))
        result = land(transfers)[0]
        assert server.connections == 0
    assert (result.failure, result.rule) == (Failure.BLOCKED, "loopback")
