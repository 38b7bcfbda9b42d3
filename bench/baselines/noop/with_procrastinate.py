"""procrastinate on the same PostgreSQL: a task that does nothing. Its defaults, ten at once in each process."""

from __future__ import annotations

import asyncio  # noqa: F401 - for whoever fills
import os

import procrastinate

app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=os.environ.get("BENCH_PROCRASTINATE", "")))


@app.task(name="bench.noop")
async def noop(n: int) -> None:
    """Nothing."""


async def fill(count: int) -> None:
    async with app.open_async():
        await app.schema_manager.apply_schema_async()
        for start in range(0, count, 1_000):
            await noop.batch_defer_async(*({"n": n} for n in range(start, min(count, start + 1_000))))
