"""`manage.py submit FILE.csv --kind map_search`: a batch from a file, or from the results of an earlier batch."""

import getpass
import json
import os
import sys
from argparse import ArgumentParser
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import CommandError
from django.urls import reverse

from kernel import correlation
from kernel.management import base
from kernel.management.arguments import measure, whole
from kernel.management.inputs import bounded
from tasks import kinds
from tasks.errors import TaskError
from tasks.kinds import Kind, chaining
from tasks.kinds.file_import import BadFile, items_from
from tasks.models import Batch
from tasks.reading import progress
from tasks.states import FINAL_STATES
from tasks.submit import submit_batch

BAD_INPUT = 2  # exit code: nothing was submitted; 1 says that not everything succeeded


class Command(base.Command):
    paths = frozenset({"file"})
    help = "Submit a batch of tasks from a CSV or JSON-lines file, or from the results of another batch."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", nargs="?", help="CSV or .jsonl, UTF-8; - reads CSV from standard input.")
        parser.add_argument("--kind", required=True, help=f"One of {', '.join(kinds.KINDS)}.")
        parser.add_argument(
            "--from-batch", type=whole(1, 2**63 - 1), metavar="ID", help="Chain: make the inputs from its results."
        )
        parser.add_argument("--partial", action="store_true", help="Chain a batch that is still running.")
        parser.add_argument("--limit", type=whole(1), metavar="N", help="Take only the first N rows.")
        parser.add_argument("--subscriber", help="Who is told when tasks end.")
        parser.add_argument("--reference", default="", help="Your own name for the batch.")
        parser.add_argument("--wait", action="store_true", help="Show progress until the batch is complete.")
        parser.add_argument("--follow", action="store_true", help="Like --wait, and name each task as it ends.")
        parser.add_argument("--timeout", type=measure, metavar="S", help="Stop waiting after so many seconds.")
        parser.add_argument("--json", action="store_true", help="The last line of the output is one JSON object.")

    def handle(self, *args: Any, **options: Any) -> None:
        if bool(options["file"]) == bool(options["from_batch"]):
            raise CommandError("Give either a FILE or --from-batch ID.", returncode=BAD_INPUT)
        correlation_id, subscriber = correlation.new(), options["subscriber"] or ""
        try:
            kind = kinds.get(options["kind"])
            if options["from_batch"]:
                source = _source_batch(options["from_batch"], partial=options["partial"])
                correlation_id = source.correlation_id
                subscriber = source.subscriber if options["subscriber"] is None else subscriber
                items = list(chaining.next_items(source, kind.name))
            else:
                items = _read(options["file"], kind)
            batch = submit_batch(
                kind.name,
                items[: options["limit"]],
                caller="manage.py",
                subscriber=subscriber,
                reference=options["reference"],
                actor=f"shell:{_who()}",
                correlation_id=correlation_id,
            )
        except BadFile as error:
            self._refuse([vars(row) for row in error.errors], list(map(str, error.errors)), options["json"])
        except TaskError as error:
            self._refuse(
                error.errors or [{"code": error.code, "detail": error.detail}], [error.detail], options["json"]
            )
        self._report(batch, options)

    def _refuse(self, rows: list[dict[str, Any]], words: list[str], as_json: bool) -> None:
        if as_json:
            self.stdout.write(json.dumps({"errors": rows}, ensure_ascii=False))
        raise CommandError("Nothing was submitted:\n  " + "\n  ".join(words), returncode=BAD_INPUT)

    def _report(self, batch: Batch, options: dict[str, Any]) -> None:
        url = f"{settings.PUBLIC_BASE_URL}{reverse('batch', args=[batch.pk])}"
        notes = self.stderr if options["json"] else self.stdout
        notes.write(f"Batch {batch.pk}: {batch.total} tasks of {batch.kind}. Watch it at {url}")
        waits = options["wait"] or options["follow"]
        if waits:
            self._wait(batch, options)
        if options["json"]:
            self.stdout.write(json.dumps(_shown(batch, url), ensure_ascii=False))
        if waits and batch.outcome != "all_succeeded":
            words = "did not all succeed" if batch.is_completed else "are not all finished yet"
            raise CommandError(f"The tasks of batch {batch.pk} {words}: see {url}")

    def _wait(self, batch: Batch, options: dict[str, Any]) -> None:
        out: Any = sys.stderr if options["json"] else self.stdout._out  # type: ignore[attr-defined]
        try:
            progress.show(batch, out, follow=options["follow"], timeout=options["timeout"])
        except KeyboardInterrupt:
            raise CommandError(f"\nBatch {batch.pk} goes on without you.", returncode=130) from None


def _source_batch(pk: int, *, partial: bool) -> Batch:
    batch = Batch.objects.filter(pk=pk).first()
    if batch is None:
        raise CommandError(f"There is no batch {pk}.", returncode=BAD_INPUT)
    if not batch.is_completed and not partial:
        left = sum(count for state, count in batch.counts.items() if state not in FINAL_STATES)
        raise CommandError(
            f"{left} tasks of batch {pk} are not finished. Wait for them, or take what is there with --partial.",
            returncode=BAD_INPUT,
        )
    return batch


def _who() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container runs as a number that has no name
        return str(os.getuid())


def _read(name: str, kind: Kind) -> list[dict[str, Any]]:
    most = settings.BODY_CAPS["/api/v1/batches"]
    try:
        with nullcontext(sys.stdin.buffer) if name == "-" else Path(name).open("rb") as stream:
            content = bounded(stream, most, "The file", returncode=BAD_INPUT)
    except OSError as error:
        raise CommandError(f"{name} cannot be read: {error.strerror}.", returncode=BAD_INPUT) from None
    return items_from(content, kind, json_lines=name.endswith((".jsonl", ".ndjson")))


def _shown(batch: Batch, url: str) -> dict[str, Any]:
    return {
        "id": str(batch.pk),
        "kind": batch.kind,
        "state": batch.state,
        "outcome": batch.outcome or None,
        "total": batch.total,
        "counts": batch.counts,
        "correlation_id": batch.correlation_id,
        "url": url,
    }
