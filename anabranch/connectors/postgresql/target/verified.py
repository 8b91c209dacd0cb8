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
KEEP: LiteralString = """
INSERT INTO anabranch.verified (job, source_table, verified_at, facts) VALUES (%s, %s, %s, %s)
ON CONFLICT (job, source_table) DO UPDATE SET verified_at = excluded.verified_at, facts = excluded.facts
 WHERE verified.verified_at <= excluded.verified_at
"""


def read(connection: Connection, job: str) -> list[Verified]:
    return [Verified.of(*row) for row in connection.execute(READ, [job]).fetchall()]


def keep(connection: Connection, job: str, found: Verified) -> None:
    connection.execute(KEEP, [job, str(found.source), found.at, Jsonb(found.facts)])
