"""Planned definitions as the target prints them, to compare each with an existing one: the server is asked with an
empty copy of the table, which is rolled back. No lock on the table that a writer would notice.

What does not live here: planning (planned.py, indexes.py), building (constraints.py, structures.py).
"""

from __future__ import annotations

from typing import LiteralString

from psycopg import sql

from anabranch.connectors.postgresql.connection import Connection, table_name
from anabranch.model.ids import TableId

COPY: LiteralString = "CREATE TEMPORARY TABLE anabranch_copy (LIKE {})"
CHECK: LiteralString = """
SELECT pg_catalog.pg_get_constraintdef(oid) FROM pg_catalog.pg_constraint
 WHERE conname = 'anabranch_check' AND conrelid = to_regclass('pg_temp.anabranch_copy')
"""
INDEX: LiteralString = "SELECT pg_catalog.pg_get_indexdef(to_regclass('pg_temp.anabranch_index'))"


def check_definition(connection: Connection, table: TableId, condition: str, tail: str = "") -> str:
    """Return `CHECK (…)` as the catalogue would have it. Raises psycopg.Error, also without the right to TEMPORARY tables."""
    add = f"ALTER TABLE pg_temp.anabranch_copy ADD CONSTRAINT anabranch_check CHECK ({condition}){tail}"
    return _written(connection, table, add, CHECK)


def index_definition(connection: Connection, table: TableId, body: str) -> str:
    """Return `USING btree (…)` as the catalogue would have it, for `(…)` or more. Raises psycopg.Error."""
    create = f"CREATE INDEX anabranch_index ON pg_temp.anabranch_copy {body}"
    return "USING" + _written(connection, table, create, INDEX).partition(" USING")[2]


def _written(connection: Connection, table: TableId, statement: str, question: LiteralString) -> str:
    with connection.transaction(force_rollback=True):
        connection.execute(sql.SQL(COPY).format(table_name(table)))
        connection.execute(statement.encode())
        row = connection.execute(question).fetchone()
    assert row is not None
    return str(row[0])
