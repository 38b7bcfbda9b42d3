"""One long value of a row as a file, read from the database in parts: nothing here holds it whole. SQL by hand."""

import tempfile
from typing import IO

from django.db import connection, transaction

PART_BYTES = 256 * 1024
PARTS_AT_ONCE = 4
SPOOL_BYTES = 1024 * 1024  # what is longer waits on disk, so that a slow reader costs no memory and no connection

# Flattened and materialized: otherwise each part would unpack the whole value once more.
_PARTS = """
WITH whole AS MATERIALIZED ({source})
SELECT substring(whole.body FROM at FOR {part})
FROM whole, generate_series(1, octet_length(whole.body), {part}) AS at
"""


def spooled(source: str, pk: int) -> tuple[IO[bytes], int]:
    """The bytes that `source` selects as `body` for this id, as a file at its beginning, and how many they are.

    Read in parts, quickly, so that whoever takes it slowly afterwards holds no connection of the database. `source` is
    SQL that we wrote; a bytea column in it is flattened by `|| ''::bytea`.
    """
    spool = tempfile.SpooledTemporaryFile(max_size=SPOOL_BYTES)  # noqa: SIM115
    query = _PARTS.format(source=source, part=PART_BYTES)
    with transaction.atomic(), connection.chunked_cursor() as cursor:
        cursor.execute(query, [pk])
        while rows := cursor.fetchmany(PARTS_AT_ONCE):
            for (part,) in rows:
                spool.write(part)
    length = spool.tell()
    spool.seek(0)
    return spool, length
