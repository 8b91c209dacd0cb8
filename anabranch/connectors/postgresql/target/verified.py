"""The last results of verifications that go on for ever: `anabranch.verified`.

What does not live here: what a result is (model/verified.py).
"""

from __future__ import annotations

from typing import LiteralString

from psycopg.types.json import Jsonb

from anabranch.connectors.postgresql.connection import Connection
from anabranch.model.verified import Verified

READ: LiteralString = """
SELECT source_table, verified_at, facts FROM anabranch.verified WHERE job = %s ORDER BY source_table
"""
ADD: LiteralString = """
INSERT INTO anabranch.verified (verified_at, facts, job, source_table) VALUES (%s, %s, %s, %s)
ON CONFLICT (job, source_table) DO NOTHING
"""
REPLACE: LiteralString = """
UPDATE anabranch.verified SET verified_at = %s, facts = %s WHERE job = %s AND source_table = %s AND verified_at = %s
"""


def read(connection: Connection, job: str) -> list[Verified]:
    return [Verified.of(*row) for row in connection.execute(READ, [job]).fetchall()]


def keep(connection: Connection, job: str, found: Verified, before: int) -> bool:
    values = [found.at, Jsonb(found.facts), job, str(found.source)]
    done = connection.execute(REPLACE, [*values, before]) if before else connection.execute(ADD, values)
    return done.rowcount == 1
