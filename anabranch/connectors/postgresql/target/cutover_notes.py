"""Notes of a job's cut-overs: `anabranch.cutover`.

What does not live here: what is noted, and what follows from it (model/cutover.py).
"""

from __future__ import annotations

from typing import LiteralString

from psycopg.types.json import Jsonb

from anabranch.connectors.postgresql.connection import Connection
from anabranch.errors import Fenced
from anabranch.model.cutover import CutoverNote, Phase, Step

READ: LiteralString = """
SELECT number, step, phase, noted_at, facts FROM anabranch.cutover WHERE job = %s ORDER BY number
"""
ADD: LiteralString = """
INSERT INTO anabranch.cutover (job, number, step, phase, noted_at, facts) VALUES (%s, %s, %s, %s, %s, %s)
ON CONFLICT DO NOTHING
"""


def read(connection: Connection, job: str) -> list[CutoverNote]:
    rows = connection.execute(READ, [job]).fetchall()
    return [CutoverNote(number, Step(step), Phase(phase), at, facts) for number, step, phase, at, facts in rows]


def add(connection: Connection, job: str, note: CutoverNote) -> None:
    """Add a note. Raises Fenced where another process has added one with its number."""
    row = [job, note.number, str(note.step), str(note.phase), note.at, Jsonb(dict(note.facts))]
    if connection.execute(ADD, row).rowcount != 1:
        raise Fenced("another process is at the same cut-over", job=job, hint="let only one anabranch cutover run")
