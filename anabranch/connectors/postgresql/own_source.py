"""Is the target the database that the job reads, and would it write there to tables that it reads?

Servers tell who they are; URLs do not: names, sockets, ports and proxies differ. What does not live here: the source's side
(source_connection.py), other jobs that write to the same tables (shared.py).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from anabranch.connectors.postgresql.connection import Connection
from anabranch.connectors.postgresql.source_connection import server
from anabranch.errors import TargetError
from anabranch.model.ids import TableId

# https://www.postgresql.org/docs/current/functions-info.html#FUNCTIONS-INFO-CONTROLDATA
MAY_ASK = """
SELECT NOT pg_is_in_recovery() AND has_function_privilege('pg_catalog.pg_control_system()', 'EXECUTE')
"""
FOLLOWED = "SELECT source_identity FROM anabranch.job WHERE job = %s"
PAIRS = "SELECT source_table, target_table FROM anabranch.table_state WHERE job = %s"
# Rows of a partition, or of a child by INHERITS, are rows of every table above it.
# https://www.postgresql.org/docs/current/catalog-pg-inherits.html
RELATIVES = """
WITH RECURSIVE start AS (SELECT c.oid FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
                          WHERE n.nspname = %(schema)s AND c.relname = %(name)s),
     above AS (SELECT oid FROM start UNION SELECT i.inhparent FROM pg_inherits i JOIN above a ON i.inhrelid = a.oid),
     below AS (SELECT oid FROM start UNION SELECT i.inhrelid FROM pg_inherits i JOIN below b ON i.inhparent = b.oid)
SELECT n.nspname::text, c.relname::text FROM (SELECT oid FROM above UNION SELECT oid FROM below) AS r
  JOIN pg_class c ON c.oid = r.oid JOIN pg_namespace n ON n.oid = c.relnamespace ORDER BY 1, 2
"""
REMEDY = "write it to a table that the job does not read ([[rules]] target), or leave that one out ([[rules]] exclude)"


def is_source(connection: Connection, identity: str) -> bool:
    """Does the connection lead to the database whose identity the source gave? False for a server that cannot tell,
    which can be no source either. Two copies of a server's files tell the same until one of them is promoted."""
    may = connection.execute(MAY_ASK).fetchone()
    return bool(identity and may and may[0]) and server(connection) == identity


def read_by_the_job(connection: Connection, target: TableId, sources: Collection[TableId]) -> TableId | None:
    """The table among `sources` whose rows a write to `target` would change, None where there is none."""
    if target in sources:
        return target
    rows = connection.execute(RELATIVES, {"schema": target.schema, "name": target.name}).fetchall()
    return next((found for row in rows if (found := TableId(*row)) in sources), None)


def why(target: TableId, found: TableId) -> str:
    same = "is a table that the job reads" if target == found else f"shares its rows with {found}, which the job reads"
    return f"source and target are the same database, and {target} {same}"


@dataclass
class OwnSource:
    """The answer for one connection: asked once, however many tables come."""

    _asked: dict[tuple[int, str], bool] = field(default_factory=dict)

    def refuse(self, connection: Connection, job: str, targets: Iterable[TableId] = ()) -> None:
        """Raises TargetError where one of these target tables (without any: of all that the job has) is read by the job."""
        if not self._is_own(connection, job):
            return
        pairs = connection.execute(PAIRS, [job]).fetchall()
        sources = {TableId.parse(source) for source, _ in pairs}
        for target in tuple(targets) or [TableId.parse(target) for _, target in pairs]:
            if found := read_by_the_job(connection, target, sources):
                raise TargetError(why(target, found), hint=REMEDY, job=job)

    def _is_own(self, connection: Connection, job: str) -> bool:
        asked = (connection.info.backend_pid, job)
        if asked not in self._asked:
            row = connection.execute(FOLLOWED, [job]).fetchone()
            self._asked = {asked: bool(row and row[0]) and is_source(connection, row[0] if row else "")}
        return self._asked[asked]
