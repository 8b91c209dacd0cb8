"""Transactions that a person has told a job to leave out: `anabranch.skipped`.

What does not live here: leaving them out (apply engine), whether one may be (`lifecycle/skipping.py`).
"""

from __future__ import annotations

from typing import LiteralString

from psycopg.types.json import Json

from anabranch.connectors.postgresql.connection import Connection
from anabranch.model.state import Skipped

ADD: LiteralString = """
INSERT INTO anabranch.skipped (job, sequence, position, commit_time, changes) VALUES (%s, %s, %s, %s, %s)
ON CONFLICT DO NOTHING
"""
READ: LiteralString = """
SELECT sequence, position, commit_time, changes, (extract(epoch FROM asked_at) * 1000000)::bigint
  FROM anabranch.skipped WHERE job = %s ORDER BY sequence
"""
REMOVE: LiteralString = "DELETE FROM anabranch.skipped WHERE job = %s AND sequence = %s"


def add(connection: Connection, job: str, one: Skipped) -> None:
    connection.execute(ADD, [job, one.sequence, one.position, one.commit_time, Json(dict(one.changes))])


def read(connection: Connection, job: str) -> list[Skipped]:
    return [Skipped(*row) for row in connection.execute(READ, [job])]


def remove(connection: Connection, job: str, sequence: int) -> bool:
    return connection.execute(REMOVE, [job, sequence]).rowcount == 1
