"""Is the target the database that the job reads, and would it write there to tables that it reads?

Two facts tell, without any right: before a job begins, the target's session sees a lock that the source's holds, or does
not; once it has begun, its slot is in the database that it reads. URLs do not tell (names, sockets, ports, proxies differ), and
each copy of a server's files has its system identifier. What does not live here: other jobs (shared_tables.py, registered.py).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import LiteralString

from anabranch.connectors.postgresql.connection import Connection
from anabranch.connectors.postgresql.registered import may_read
from anabranch.errors import TargetError
from anabranch.model.ids import TableId

# https://www.postgresql.org/docs/current/view-pg-locks.html: all may read it; a key of 64 bits stands there in halves. It has
# the locks of this server alone: those of a primary are not seen at its standbys.
IS_SEEN = """
SELECT EXISTS (SELECT FROM pg_catalog.pg_locks l JOIN pg_catalog.pg_database d ON d.oid = l.database
 WHERE d.datname = current_database() AND l.locktype = 'advisory' AND l.objsubid = 1 AND l.granted
   AND l.classid::bigint << 32 | l.objid::bigint = %s::bigint)
"""
# A slot leaves its server with a copy of all files, or as one that a standby keeps for a failover: what is left of it there
# holds that server's log, and has to go anyway.
SLOT = r"""
SELECT s.slot_name::text FROM anabranch.job j
  JOIN pg_catalog.pg_replication_slots s ON s.slot_name LIKE 'anabranch\_%%' AND right(s.slot_name, 8) = left(j.uuid, 8)
 WHERE j.job = %s AND s.database = current_database()
"""
PAIRS = "SELECT source_table, target_table FROM anabranch.table_state WHERE job = %s"
READ = "SELECT source_table FROM anabranch.table_state WHERE job = %s AND source_table = ANY(%s)"
# Rows of a partition, or of a child by INHERITS, are rows of every table above it.
# https://www.postgresql.org/docs/current/catalog-pg-inherits.html
RELATIVES: LiteralString = """
WITH RECURSIVE start AS (SELECT t.place, c.oid
                           FROM unnest(%(schemas)s::text[], %(names)s::text[]) WITH ORDINALITY AS t (schema, name, place)
                           JOIN pg_namespace n ON n.nspname = t.schema
                           JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = t.name),
     above AS (SELECT place, oid FROM start
                UNION SELECT a.place, i.inhparent FROM pg_inherits i JOIN above a ON i.inhrelid = a.oid),
     below AS (SELECT place, oid FROM start
                UNION SELECT b.place, i.inhrelid FROM pg_inherits i JOIN below b ON i.inhparent = b.oid)
SELECT r.place, n.nspname::text, c.relname::text FROM (SELECT * FROM above UNION SELECT * FROM below) AS r
  JOIN pg_class c ON c.oid = r.oid JOIN pg_namespace n ON n.oid = c.relnamespace ORDER BY 1, 2, 3
"""
REMEDY = "write it to a table that the job does not read ([[rules]] target), or leave that one out ([[rules]] exclude)"

STATE = "anabranch"  # the schema of state.sql
STATE_REMEDY = "choose another schema for it ([[rules]] target)"


def sees(connection: Connection, key: str) -> bool:
    """Return whether the connection leads to the database whose session holds the lock. False without a key: the source
    is of another kind.
    """
    row = connection.execute(IS_SEEN, [key]).fetchone() if key else None
    return bool(row and row[0])


def read_by_the_job(
    connection: Connection, targets: Sequence[TableId], sources: Collection[TableId]
) -> dict[TableId, TableId]:
    """Return, for each target table, the one among `sources` whose rows a write to it would change, if there is one."""
    found = {target: target for target in targets if target in sources}
    for target, relative in _relatives(connection, targets):
        if relative in sources:
            found.setdefault(target, relative)
    return found


def _relatives(connection: Connection, targets: Sequence[TableId]) -> list[tuple[TableId, TableId]]:
    """Return each existing table with all that it shares rows with, itself among them."""
    names = {"schemas": [target.schema for target in targets], "names": [target.name for target in targets]}
    return [(targets[place - 1], TableId(*table)) for place, *table in connection.execute(RELATIVES, names).fetchall()]


def why(target: TableId, found: TableId) -> str:
    same = "is a table that the job reads" if target == found else f"shares its rows with {found}, which the job reads"
    return f"source and target are the same database, and {target} {same}"


def is_state(target: TableId) -> str:
    return f"{target} would be in the schema in which jobs keep their state"


def followed(connection: Connection, job: str) -> set[TableId]:
    """Return the tables that a job which has begun reads, where it reads this database; else none."""
    if not may_read(connection) or connection.execute(SLOT, [job]).fetchone() is None:
        return set()
    return {TableId.parse(source) for source, _ in connection.execute(PAIRS, [job]).fetchall()}


@dataclass
class OwnSource:
    """The answer for one connection. Whether the job reads this database is asked once, what its tables are each time."""

    _asked: dict[tuple[int, str], str] = field(default_factory=dict)

    def refuse(self, connection: Connection, job: str, targets: Iterable[TableId] = ()) -> None:
        """Raise TargetError where the job reads one of these target tables, or it is among what jobs keep their state
        in.

        Without `targets`, all target tables of the job are checked.
        """
        targets = tuple(targets)
        if state := next((target for target in targets if target.schema == STATE), None):
            raise TargetError(is_state(state), hint=STATE_REMEDY, job=job)
        if slot := self._slot(connection, job):
            pairs = () if targets else connection.execute(PAIRS, [job]).fetchall()
            targets = targets or tuple(TableId.parse(target) for _, target in pairs)
            relatives = [*zip(targets, targets, strict=True), *_relatives(connection, targets)]
            rows = connection.execute(READ, [job, list({str(relative) for _, relative in relatives})]).fetchall()
            read = {TableId.parse(source) for (source,) in rows}
            if found := next(((target, relative) for target, relative in relatives if relative in read), None):
                hint = f"{REMEDY}; in a copy of the source: SELECT pg_drop_replication_slot('{slot}') there"
                raise TargetError(why(*found), hint=hint, job=job)

    def _slot(self, connection: Connection, job: str) -> str:
        asked = (connection.info.backend_pid, job)
        if asked not in self._asked:
            row = connection.execute(SLOT, [job]).fetchone()
            self._asked = {asked: str(row[0]) if row else ""}
        return self._asked[asked]
