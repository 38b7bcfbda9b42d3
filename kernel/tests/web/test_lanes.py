"""One sort of request waits for its own kind only."""

import asyncio

from kernel.web.lanes import Lane, Lanes

START = {"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]}


def served_at_once(paths, lanes):
    """Paths whose work began while nobody's had ended, and the statuses sent."""
    begun, statuses = [], []

    async def run():
        gate = asyncio.Event()

        async def application(scope, receive, send):
            await receive()
            begun.append(scope["path"])
            await gate.wait()
            await send(START)

        async def receive():
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(message):
            if "status" in message:
                statuses.append(message["status"])

        guarded = Lanes(application, lanes())
        calls = [asyncio.create_task(guarded({"type": "http", "path": path}, receive, send)) for path in paths]
        for _ in range(10):
            await asyncio.sleep(0)
        now = list(begun)
        gate.set()
        await asyncio.gather(*calls)
        return now

    return asyncio.run(run()), statuses


def test_log_ins_wait_for_log_ins_and_nothing_else_does():
    def lanes():
        return {"/webhooks/": None, "/admin/login": Lane(2, 30), "/": Lane(3, 30)}

    paths = ["/admin/login/"] * 20 + ["/api/v1/tasks/", "/webhooks/x/", "/api/v1/tasks/"]
    now, statuses = served_at_once(paths, lanes)
    assert now == ["/admin/login/"] * 2 + ["/api/v1/tasks/", "/webhooks/x/", "/api/v1/tasks/"]
    assert statuses == [200] * 23


def test_whatever_fills_the_api_leaves_inbound_free():
    now, _ = served_at_once(["/x"] * 5 + ["/webhooks/x/"] * 5, lambda: {"/webhooks/": None, "/": Lane(3, 30)})
    assert now == ["/x"] * 3 + ["/webhooks/x/"] * 5


def test_too_many_waiting_are_told_to_come_again():
    _, statuses = served_at_once(["/x"] * 9, lambda: {"/": Lane(1, 2)})
    assert sorted(statuses) == [200] * 3 + [503] * 6


def test_a_slow_sender_and_a_slow_reader_hold_no_place():
    """Four at once, each stuck before its body or behind its answer, and a fifth is served by the only place."""

    async def run():
        lanes = Lanes(application, {"/": Lane(1, 30)})
        never = asyncio.Event()

        async def dripping():
            await never.wait()

        async def whole():
            return {"type": "http.request", "body": b"", "more_body": False}

        async def stuck(message):
            await never.wait()

        sent = []

        async def send(message):
            sent.append(message["type"])

        def scope():
            return {"type": "http", "path": "/x"}

        slow = [asyncio.create_task(lanes(scope(), dripping, send)) for _ in range(2)]
        slow += [asyncio.create_task(lanes(scope(), whole, stuck)) for _ in range(2)]
        await asyncio.wait_for(lanes(scope(), whole, send), 30)
        for task in slow:
            task.cancel()
        await asyncio.gather(*slow, return_exceptions=True)
        return sent

    async def application(scope, receive, send):
        await receive()
        await send(START)

    assert asyncio.run(run()) == ["http.response.start"]
