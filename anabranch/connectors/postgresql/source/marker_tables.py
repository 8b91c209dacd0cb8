"""The tables whose rows say which job has written a transaction (K21), as far as a publication has to show them.

A job that leaves out what another has written reads these tables of the other one's state too. That job may not have run yet:
then they are made as its first start would make them, so that no transaction of it is ever read without its marker.
What does not live here: what a row says (marker_rows.py), the state of jobs (`target/`).
"""

from __future__ import annotations

from collections.abc import Collection

from anabranch.connectors.postgresql.connection import Connection, one
from anabranch.connectors.postgresql.quoting import qualified, quote
from anabranch.connectors.sql.migrations import COMMENT, shipped_in
from anabranch.model.ids import TableId
from anabranch.model.markers import MARKERS, SCHEMA, TABLES
from anabranch.model.steps import SetUpStep

_STATE = "anabranch.connectors.postgresql.target"  # the package whose files make the tables, the first of them these
_THERE = """
SELECT c.relname::text FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
 WHERE n.nspname = %s AND c.relname = ANY(%s)
"""
_READABLE = """
SELECT c.relname::text, has_schema_privilege(n.oid, 'USAGE') AND has_table_privilege(c.oid, 'SELECT')
  FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
 WHERE n.nspname = %s AND c.relname = ANY(%s)
"""


def missing(connection: Connection, publication: str, published: Collection[TableId]) -> list[SetUpStep]:
    """Return the steps after which the publication has the tables; the publication is there, or is made before."""
    there = {name for (name,) in connection.execute(_THERE, [SCHEMA, list(TABLES)]).fetchall()}
    made = [] if there else [SetUpStep(_one_line(shipped_in(_STATE)[0].sql))]
    left = sorted(MARKERS - set(published))
    listed = ", ".join(f"ONLY {qualified(table)}" for table in left)
    return [*made, SetUpStep(f"ALTER PUBLICATION {quote(publication)} ADD TABLE {listed}")] if left else made


def has_written(connection: Connection, jobs: Collection[str]) -> bool:
    """Return whether one of these jobs has written here, or nobody can tell: until it is dropped, rows of it are here."""
    for name, is_readable in connection.execute(_READABLE, [SCHEMA, list(TABLES)]).fetchall():
        query = f"SELECT EXISTS (SELECT FROM {qualified(TableId(SCHEMA, name))} WHERE job = ANY(%s))"
        if not is_readable or one(connection, query.encode(), [list(jobs)]):
            return True
    return False


def _one_line(statements: str) -> str:
    return " ".join(COMMENT.sub("", statements).split()).rstrip(";")
