"""Notes of transactions that are applied beyond a job's checkpoint, at a PostgreSQL target: `anabranch.applied`.

What does not live here: making a note, which commits with the transaction (`pipelined.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import LiteralString

from anabranch.connectors.postgresql.connection import Connection
from anabranch.connectors.sql.migrations import Migration, version_in_use

READ: LiteralString = (
    "SELECT sequence, position FROM anabranch.applied WHERE job = %s AND target = %s ORDER BY sequence"
)
FORGET: LiteralString = "DELETE FROM anabranch.applied WHERE job = %s AND target = %s AND sequence <= %s"
KEEP_OUT: LiteralString = "UPDATE anabranch.meta SET version = %s WHERE version < %s"


IS_THERE: LiteralString = "SELECT to_regclass('anabranch.applied') IS NOT NULL"
IS_BEYOND: LiteralString = """
SELECT EXISTS (SELECT FROM anabranch.applied WHERE job = %s AND target = %s AND sequence > %s)
"""


def is_beyond(connection: Connection, job: str, target: str, sequence: int) -> bool:
    """Return whether anything is applied beyond a checkpoint."""
    if connection.execute(IS_THERE).fetchone() != (True,):  # an earlier release has made the schema
        return False
    return connection.execute(IS_BEYOND, [job, target, sequence]).fetchone() == (True,)


def read(connection: Connection, job: str, target: str) -> dict[int, str]:
    return dict(connection.execute(READ, [job, target]).fetchall())


def forget(connection: Connection, job: str, target: str, upto: int) -> int:
    return connection.execute(FORGET, [job, target, upto]).rowcount


def keep_older_out(connection: Connection, known: Sequence[Migration]) -> None:
    """Raise the version of the state to what a release needs that knows these notes."""
    version = version_in_use(known)
    connection.execute(KEEP_OUT, [version, version])
