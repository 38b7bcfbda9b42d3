"""Large bodies come in one after the other; small ones, and those still on their way, wait for nobody."""

import asyncio

import pytest

from kernel.web.weights import SMALL_BYTES, HeavyBodies, Scale

LARGE = 10 * SMALL_BYTES


class Door:
    """An application that works on each whole body until it is told to answer."""

    def __init__(self, most: int, packed: int = 0) -> None:
        self.inside: list[str] = []
        self.most_inside: list[int] = []
        self.go: dict[str, asyncio.Event] = {}
        self.app = HeavyBodies(self._work, packed, most, apart=("/webhooks/",))

    async def _work(self, scope, receive, send):
        while (await receive()).get("more_body"):
            pass
        name = scope["path"]
        self.inside.append(name)
        self.most_inside.append(len(self.inside))
        await self.go[name].wait()
        self.inside.remove(name)
        await send({"type": "http.response.start"})

    def call(self, name: str, chunks: list[int], *, packed: bool = False, slow: bool = False) -> asyncio.Task:
        self.go[name], self.go[name + " comes"] = asyncio.Event(), asyncio.Event()
        left = list(chunks)

        async def receive():
            if slow and len(left) == 1:
                await self.go[name + " comes"].wait()
            size = left.pop(0)
            return {"type": "http.request", "body": b"x" * size, "more_body": bool(left)}

        async def send(_message):
            pass

        headers = [(b"content-encoding", b"gzip")] if packed else []
        return asyncio.create_task(self.app({"path": name, "headers": headers}, receive, send))

    async def settle(self) -> list[str]:
        for _ in range(20):
            await asyncio.sleep(0)
        return sorted(self.inside)


async def test_no_more_bytes_are_inside_than_may_be_and_the_first_come_first():
    door = Door(2 * LARGE)
    for name in ("a", "b", "c", "d"):
        door.call(name, [LARGE // 2, LARGE // 2])
    assert await door.settle() == ["a", "b"]
    door.go["b"].set()
    assert await door.settle() == ["a", "c"]
    door.go["a"].set()
    assert await door.settle() == ["c", "d"]


async def test_a_small_body_waits_for_no_large_one():
    door = Door(LARGE)
    door.call("large", [LARGE])
    door.call("second", [LARGE])
    door.call("small", [SMALL_BYTES])
    door.call("none", [0])
    assert await door.settle() == ["large", "none", "small"]


async def test_inbound_webhooks_do_not_wait_for_the_other_doors():
    door = Door(LARGE)
    for name in ("api", "api too", "/webhooks/a", "/webhooks/b"):
        door.call(name, [LARGE])
    assert await door.settle() == ["/webhooks/a", "api"]


async def test_one_that_is_larger_than_all_goes_alone_and_is_not_overtaken():
    door = Door(LARGE)
    door.call("a", [LARGE // 2])
    door.call("huge", [3 * LARGE])
    door.call("b", [LARGE // 2])
    assert await door.settle() == ["a"]
    door.go["a"].set()
    assert await door.settle() == ["huge"]
    door.go["huge"].set()
    assert await door.settle() == ["b"]


async def test_a_body_that_drips_holds_nothing_until_it_is_whole():
    door = Door(LARGE)
    door.call("drips", [LARGE, 1], slow=True)
    door.call("a", [LARGE])
    assert await door.settle() == ["a"]
    door.go["drips comes"].set()
    assert await door.settle() == ["a"]
    door.go["a"].set()
    assert await door.settle() == ["drips"]


async def test_a_packed_body_counts_as_what_it_may_unfold_to():
    door = Door(LARGE, packed=LARGE)
    door.call("a", [1_000], packed=True)
    door.call("b", [1_000], packed=True)
    door.call("plain", [1_000])
    assert await door.settle() == ["a", "plain"]


@pytest.mark.parametrize("is_let_in", [True, False])
async def test_who_leaves_while_waiting_leaves_nothing_behind(is_let_in):
    scale = Scale(LARGE)
    await scale.take(LARGE)
    second = asyncio.create_task(scale.take(LARGE))
    third = asyncio.create_task(scale.take(LARGE))
    await asyncio.sleep(0)
    if is_let_in:
        scale.give_back(LARGE)  # its turn came in the moment in which it left
    second.cancel()
    await asyncio.gather(second, return_exceptions=True)
    if not is_let_in:
        scale.give_back(LARGE)
    await asyncio.wait_for(third, 1)
    scale.give_back(LARGE)
    await asyncio.wait_for(scale.take(LARGE), 1)
    assert (scale._taken, list(scale._waiting)) == (LARGE, [])


async def test_a_request_that_breaks_gives_its_bytes_back():
    door = Door(LARGE)
    first = door.call("a", [LARGE])
    await door.settle()
    first.cancel()
    door.call("b", [LARGE])
    await asyncio.gather(first, return_exceptions=True)
    assert "b" in await door.settle()
