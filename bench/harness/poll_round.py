"""One round of the poll in a process of its own, so that its memory is the round's: ends with a line of JSON."""

from __future__ import annotations

import json
import os
import time

import django

from bench.harness import measure


def main() -> None:
    django.setup()
    from kernel import clock
    from tasks.external.reconcile import reconcile
    from tasks.providers import register
    from tasks.providers.base import Provider
    from tasks.providers.sandbox import SandboxProvider

    class OneByOne(SandboxProvider):
        """The sandbox's, as if it had no listing."""

        adapter = "one_by_one"
        list_jobs = Provider.list_jobs

    register(OneByOne)
    before, cpu = time.monotonic(), time.process_time()
    report = reconcile(clock.now())
    seconds = time.monotonic() - before
    shown = {
        "cpu": time.process_time() - cpu,
        "asked": report.asked,
        "changed": report.changed,
        "calls": report.calls,
        **report.unreachable,
    }
    print(json.dumps({"seconds": seconds, "rss_mb": measure.peak_rss_mb(os.getpid()), **shown}), flush=True)


if __name__ == "__main__":
    main()
