"""Fence around the replicated tables of a PostgreSQL that is cut over from: triggers on each of them that refuse every write.

A trigger that is ALWAYS enabled fires for superusers, owners, replication workers, and sessions with
`session_replication_role = replica`; a `default_transaction_read_only` or a REVOKE passes some of these. Making it takes a
lock that waits for every transaction, prepared ones too, that has written to the table: when it is there, nothing older is
left. Readers are not in the way. What does not live here: whose transactions were in the way (fence_holders.py).
https://www.postgresql.org/docs/current/sql-createtrigger.html · https://www.postgresql.org/docs/current/explicit-locking.html
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, LiteralString

import psycopg
from psycopg import errors, sql

from anabranch.connectors.postgresql.connection import Connection, job_digest
from anabranch.connectors.postgresql.fence_names import SCHEMA, admitted
from anabranch.connectors.postgresql.source.catalog import mark
from anabranch.connectors.postgresql.source.connection import open_session
from anabranch.connectors.postgresql.source.errors import translate, translated
from anabranch.connectors.postgresql.source.fence_definitions import KEY, changes, definitions
from anabranch.connectors.postgresql.source.fence_holders import holders
from anabranch.model.checks import CheckResult, CheckVerdict
from anabranch.model.endpoint import Endpoint
from anabranch.model.ids import TableId
from anabranch.model.position import LogMark

MARKED = "anabranch_cutover"  # the prefix of the marker's message
LOCK_SECONDS = 2  # more than deadlock_timeout, at which an autovacuum gives way
IN_THE_WAY = (errors.LockNotAvailable, errors.DeadlockDetected)
# The tables with all their partitions. `has`: how many of our triggers stand on it as they should.
TABLES: LiteralString = """
WITH RECURSIVE part AS (
    SELECT c.oid FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
     WHERE (n.nspname::text, c.relname::text) IN (SELECT * FROM unnest(%s::text[], %s::text[]))
    UNION
    SELECT c.oid FROM part p JOIN pg_catalog.pg_inherits i ON i.inhparent = p.oid
      JOIN pg_catalog.pg_class c ON c.oid = i.inhrelid AND c.relispartition
)
SELECT c.oid, n.nspname::text, c.relname::text, c.relkind = 'p', pg_has_role(c.relowner, 'USAGE'),
       pg_get_userbyid(c.relowner)::text,
       (SELECT count(*) FROM pg_catalog.pg_trigger t JOIN pg_catalog.pg_proc f ON f.oid = t.tgfoid
          JOIN pg_catalog.pg_namespace s ON s.oid = f.pronamespace
         WHERE t.tgrelid = c.oid AND t.tgenabled = 'A' AND s.nspname = %s AND f.proname = %s)
  FROM part p JOIN pg_catalog.pg_class c ON c.oid = p.oid JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
 ORDER BY 2, 3
"""
# `session_user` may come from a setting of the role; the current user owns what is made.
MAY_CREATE: LiteralString = """
SELECT has_database_privilege(current_database(), 'CREATE')
       OR coalesce((SELECT has_schema_privilege(oid, 'CREATE') FROM pg_catalog.pg_namespace WHERE nspname = %s), false),
       current_database(), current_user::text
"""
# The sessions of a job are known by their application_name, which nobody else has by accident.
REFUSES: LiteralString = """
CREATE OR REPLACE FUNCTION {function}() RETURNS trigger LANGUAGE plpgsql AS $fence$
BEGIN
    IF {let_in} THEN
        IF TG_OP = 'DELETE' THEN RETURN OLD; END IF;
        RETURN NEW;
    END IF;
    RAISE EXCEPTION 'anabranch: %.% takes no more writes: its job is being cut over', TG_TABLE_SCHEMA, TG_TABLE_NAME
          USING ERRCODE = 'read_only_sql_transaction';
END $fence$
"""
PASSES: LiteralString = """
CREATE OR REPLACE FUNCTION {function}() RETURNS trigger LANGUAGE plpgsql AS $fence$
BEGIN
    IF TG_OP = 'DELETE' THEN RETURN OLD; END IF;
    RETURN NEW;
END $fence$
"""
IS_REFUSING: LiteralString = """
SELECT f.prosrc LIKE '%%RAISE EXCEPTION%%' FROM pg_catalog.pg_proc f JOIN pg_catalog.pg_namespace n ON n.oid = f.pronamespace
 WHERE n.nspname = %s AND f.proname = %s
"""
TRIGGERS: tuple[tuple[str, LiteralString], ...] = (
    ("row", "BEFORE INSERT OR UPDATE OR DELETE ON {table} FOR EACH ROW"),  # a replication worker fires no others
    ("all", "BEFORE TRUNCATE ON {table} FOR EACH STATEMENT"),
)
IS_EMPTY: LiteralString = """
SELECT NOT EXISTS (SELECT FROM pg_catalog.pg_proc WHERE pronamespace = n.oid) FROM pg_catalog.pg_namespace n WHERE nspname = %s
"""
MARKER: LiteralString = "SELECT pg_catalog.pg_logical_emit_message(true, %s, %s)"


@dataclass(frozen=True)
class _Table:
    oid: int
    id: TableId
    is_whole: bool  # has no rows itself: its partitions have them
    is_ours: bool
    owner: str
    triggers: int

    @property
    def name(self) -> sql.Identifier:
        return sql.Identifier(self.id.schema, self.id.name)


class PostgresFence:
    """SourceFence. Each call has a session of its own, so that a lost connection costs nothing but the call."""

    def __init__(self, endpoint: Endpoint, name: str) -> None:
        self._endpoint, self._name = endpoint, name
        self._digest = job_digest(name)
        self._function = sql.Identifier(SCHEMA, f"refuse_{self._digest}")

    def checks(self, tables: Sequence[TableId]) -> list[CheckResult]:
        with open_session(self._endpoint) as connection, translated("look whether writers can be kept out"):
            found = self._tables(connection, tables)
            may_create, database, user = connection.execute(MAY_CREATE, [SCHEMA]).fetchall()[0]
        others = sorted({table.owner for table in found if not table.is_ours})
        results = [
            _lacks(f"{user} owns not all of the tables: {owner} does", f"GRANT {_quoted(owner)} TO {_quoted(user)}")
            for owner in others
        ]
        if not may_create:
            grant = f"GRANT CREATE ON DATABASE {_quoted(database)} TO {_quoted(user)}"
            results.append(_lacks(f"{user} may not create the schema {SCHEMA}", grant))
        return results or [_fine(f"{len(found)} tables get triggers that refuse writes, of superusers too")]

    def before(self, tables: Sequence[TableId]) -> dict[str, Any]:
        """Return the definitions of the tables, with their partitions: DDL passes the triggers. Whatever is made is ours alone,
        and is removed as a whole."""
        with open_session(self._endpoint) as connection, translated("read definitions before the fence"):
            return {KEY: definitions(connection, [table.oid for table in self._tables(connection, tables)])}

    def deny(self, tables: Sequence[TableId], before: Mapping[str, Any]) -> list[str]:
        with open_session(self._endpoint) as connection:
            try:
                with connection.transaction():
                    self._deny(connection, tables)
            except IN_THE_WAY:
                with translated("ask who is in the way"):
                    found = [table.oid for table in self._tables(connection, tables)]
                    return holders(connection, found) or ["a session that has ended meanwhile"]
            except psycopg.Error as error:
                raise translate(error, "fence the source") from None
        return []

    def _deny(self, connection: Connection, tables: Sequence[TableId]) -> None:
        connection.execute(f"SET LOCAL lock_timeout = '{LOCK_SECONDS}s'".encode())
        names = sql.SQL(", ").join(table.name for table in self._tables(connection, tables))
        # With them partitions cannot come or go. Whoever has written holds a lock that this one waits for.
        connection.execute(sql.SQL("LOCK TABLE {} IN SHARE ROW EXCLUSIVE MODE").format(names))
        connection.execute(sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(sql.Identifier(SCHEMA)))
        connection.execute(self._refuses())
        for table in self._tables(connection, tables):
            if not table.is_whole and table.triggers < len(TRIGGERS):
                self._make_triggers(connection, table)

    def _make_triggers(self, connection: Connection, table: _Table) -> None:
        for kind, when in TRIGGERS:
            name = self._trigger(kind)
            words = {"name": name, "table": table.name, "function": self._function}
            connection.execute(sql.SQL("DROP TRIGGER IF EXISTS {name} ON {table}").format(**words))
            make: LiteralString = "CREATE TRIGGER {name} " + when + " EXECUTE PROCEDURE {function}()"
            connection.execute(sql.SQL(make).format(**words))
            connection.execute(sql.SQL("ALTER TABLE {table} ENABLE ALWAYS TRIGGER {name}").format(**words))

    def mark(self, before: Mapping[str, Any]) -> LogMark:
        with open_session(self._endpoint) as connection, translated("write the marker behind the last write"):
            connection.execute(MARKER, [MARKED, f"{self._name} {uuid.uuid4()}"])
            return mark(connection)

    def admit(self, tables: Sequence[TableId], before: Mapping[str, Any], back: str) -> None:
        with open_session(self._endpoint) as connection, translated("let the way back through the fence"):
            connection.execute(self._refuses(back))

    def _refuses(self, back: str = "") -> sql.Composed:
        """Return the statement that makes the triggers' function refuse everybody, but for the sessions of the job `back`."""
        return sql.SQL(REFUSES).format(function=self._function, let_in=admitted(back))

    def gaps(
        self, tables: Sequence[TableId], before: Mapping[str, Any], back: str = "", is_flipped: bool = False
    ) -> list[str]:
        """Nobody can be inside: see `deny`. A writer who is just being refused holds the same lock as one who is not."""
        with open_session(self._endpoint) as connection, translated("look whether the fence stands"):
            found = self._tables(connection, tables)
            refuses = connection.execute(IS_REFUSING, [SCHEMA, f"refuse_{self._digest}"]).fetchone()
            changed = [] if is_flipped else changes(connection, before)
        missing = [str(t.id) for t in found if not t.is_whole and t.triggers < len(TRIGGERS)]
        gaps = [f"{table} has not both triggers of the fence, always enabled" for table in missing]
        if not refuses or not refuses[0]:
            gaps.append(f"the function {SCHEMA}.refuse_{self._digest} does not refuse writes")
        return gaps + changed

    def lift(self, tables: Sequence[TableId], before: Mapping[str, Any]) -> list[str]:
        with open_session(self._endpoint) as connection, translated("lift the fence of the source"):
            if not connection.execute(IS_REFUSING, [SCHEMA, f"refuse_{self._digest}"]).fetchone():
                return []
            connection.execute(sql.SQL(PASSES).format(function=self._function))  # lets everybody in at once
            left = [line for table in self._tables(connection, tables) for line in self._remove(connection, table)]
            if not left:
                self._remove_function(connection)
        return left

    def _remove(self, connection: Connection, table: _Table) -> Iterator[str]:
        """Remove the triggers of a table, which waits for those who read it."""
        if not table.triggers:
            return
        drops = [
            sql.SQL("DROP TRIGGER IF EXISTS {} ON {}").format(self._trigger(kind), table.name) for kind, _ in TRIGGERS
        ]
        try:
            with connection.transaction():
                connection.execute(f"SET LOCAL lock_timeout = '{LOCK_SECONDS}s'".encode())
                for drop in drops:
                    connection.execute(drop)
        except IN_THE_WAY:
            yield from (drop.as_string(connection) for drop in drops)

    def _remove_function(self, connection: Connection) -> None:
        try:
            connection.execute(sql.SQL("DROP FUNCTION IF EXISTS {}()").format(self._function))
        except errors.DependentObjectsStillExist:  # on a table that the job has no more; it refuses nobody
            return
        row = connection.execute(IS_EMPTY, [SCHEMA]).fetchone()
        if row and row[0]:
            connection.execute(sql.SQL("DROP SCHEMA {}").format(sql.Identifier(SCHEMA)))

    def _tables(self, connection: Connection, tables: Sequence[TableId]) -> list[_Table]:
        wanted = [table.schema for table in tables], [table.name for table in tables]
        rows = connection.execute(TABLES, [*wanted, SCHEMA, f"refuse_{self._digest}"]).fetchall()
        return [_Table(oid, TableId(schema, name), *rest) for oid, schema, name, *rest in rows]

    def _trigger(self, kind: str) -> sql.Identifier:
        return sql.Identifier(f"anabranch_fence_{self._digest}_{kind}")

    def close(self) -> None: ...


def _lacks(message: str, grant: str) -> CheckResult:
    return CheckResult("cutover.fence", CheckVerdict.FAILED, message, grant)


def _fine(message: str) -> CheckResult:
    return CheckResult("cutover.fence", CheckVerdict.OK, message)


def _quoted(name: str) -> str:
    return sql.Identifier(name).as_string(None)
