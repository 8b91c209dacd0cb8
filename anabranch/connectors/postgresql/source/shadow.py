"""The shadow of a drill at a PostgreSQL: a schema with empty copies of tables, a note of whose it is, and the comparison.

A version of a row is its `xmin`: a transaction that writes the row again leaves another one, so a row of the same xmin was not
written meanwhile. https://www.postgresql.org/docs/current/ddl-system-columns.html
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import closing, suppress
from typing import Any, LiteralString

from psycopg import Error, errors, sql
from psycopg.pq import TransactionStatus

from anabranch.connectors.postgresql.connection import Connection
from anabranch.connectors.postgresql.source.connection import open_session
from anabranch.connectors.postgresql.source.errors import translated
from anabranch.connectors.sql.giving_way import unless_awaited
from anabranch.contracts import Outlook, Unlike, UnlikeRow
from anabranch.model.checks import CheckResult, CheckVerdict
from anabranch.model.endpoint import Endpoint
from anabranch.model.ids import TableId

LOCK_SECONDS = 5  # whoever changes a definition would keep us, and we those who wait behind us
STATE = "anabranch"  # the schema of jobs' state
NOTE = "anabranch_drill_note"  # in the shadow: which job's drill made it
HAS_SCHEMA: LiteralString = "SELECT EXISTS (SELECT FROM pg_catalog.pg_namespace WHERE nspname = %s)"
HAS_TABLE: LiteralString = "SELECT to_regclass(%s) IS NOT NULL"
ROOM: LiteralString = (
    "SELECT coalesce(sum(pg_catalog.pg_total_relation_size(oid)), 0) FROM unnest(%s::regclass[]) AS t (oid)"
)
MAY_MAKE: LiteralString = """
SELECT pg_catalog.has_database_privilege(pg_catalog.current_database(), 'CREATE'), pg_catalog.current_database()::text,
       current_user::text, ARRAY(SELECT pubname::text FROM pg_catalog.pg_publication WHERE puballtables ORDER BY 1)
"""
# https://www.postgresql.org/docs/current/functions-info.html#FUNCTIONS-INFO-SESSION
AWAITED: LiteralString = """
SELECT EXISTS (SELECT FROM pg_catalog.pg_locks w WHERE NOT w.granted AND %s = ANY (pg_catalog.pg_blocking_pids(w.pid)))
"""
# Columns whose values have an equality of their own, by which 1.5 is 1.50.
NUMBERS: LiteralString = """
SELECT attname::text FROM pg_catalog.pg_attribute WHERE attrelid = %s::regclass AND atttypid = 'numeric'::regtype AND attnum > 0
"""


class PostgresShadow:
    """`contracts.Shadow`."""

    numbers_rows = True

    def __init__(self, endpoint: Endpoint, schema: str, job: str) -> None:
        self.endpoint, self.schema, self.job = endpoint, schema, job
        self._session: Connection | None = None

    @property
    def _open(self) -> Connection:
        if self._session is None or self._session.closed:
            self._session = open_session(self.endpoint, "anabranch-drill", limited=False)
        return self._session

    @property
    def _note(self) -> sql.Identifier:
        return sql.Identifier(self.schema, NOTE)

    def owner(self) -> str | None:
        with translated(f"cannot look for schema {self.schema}"):
            if not self._is(HAS_SCHEMA, self.schema):
                return None
            if not self._is(HAS_TABLE, self._note.as_string(None)):
                return ""
            found = self._open.execute(sql.SQL("SELECT job FROM {}").format(self._note)).fetchone()
            return str(found[0]) if found else ""

    def is_begun(self) -> bool:
        """Return False: the schema and its note are made in one transaction."""
        return False

    def outlook(self, tables: Collection[TableId], admits_log: bool) -> Outlook:
        """Its writes always stand in the log, which replays everything at a physical standby."""
        with translated(f"cannot ask what a shadow {self.schema} takes"):
            names = [_named(table).as_string(None) for table in sorted(tables)]
            room = self._open.execute(ROOM, [names]).fetchone()
            found = self._open.execute(MAY_MAKE).fetchone()
        assert room is not None and found is not None
        may_make, database, user, publications = found
        findings = []
        if not may_make:
            text = f"{user} may not make a schema in the database {database}"
            grant = sql.SQL("GRANT CREATE ON DATABASE {} TO {}").format(sql.Identifier(database), sql.Identifier(user))
            findings.append(CheckResult("drill.rights", CheckVerdict.FAILED, text, grant.as_string(None)))
        if publications:
            text = f"publications of all tables have the shadow's, too: {', '.join(publications)}"
            hint = "their subscribers stop at tables that they do not have, unless their jobs leave the shadow out"
            findings.append(CheckResult("drill.publications", CheckVerdict.WARNING, text, hint))
        return Outlook(int(room[0]), tuple(findings))

    def make(self, tables: Mapping[TableId, TableId]) -> None:
        with translated(f"cannot make the shadow {self.schema}"), self._open.transaction():
            self._open.execute(f"SET LOCAL lock_timeout = '{LOCK_SECONDS}s'")
            makes_state = not self._is(HAS_SCHEMA, STATE)
            self._open.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(self.schema)))
            self._open.execute(sql.SQL("CREATE TABLE {} (job text, makes_state boolean)").format(self._note))
            self._open.execute(sql.SQL("INSERT INTO {} VALUES (%s, %s)").format(self._note), [self.job, makes_state])
            for table, shadow in tables.items():
                made = sql.SQL("CREATE TABLE {} (LIKE {} INCLUDING ALL)")
                self._open.execute(made.format(_named(shadow), _named(table)))

    def unlike(
        self, table: TableId, shadow: TableId, key: Sequence[str], columns: Sequence[str], limit: int
    ) -> Unlike | None:
        with translated(f"cannot compare {table} with its shadow"):
            name = _named(table).as_string(None)
            numbers = {str(row[0]) for row in self._open.execute(NUMBERS, [name])}
            query = _query(table, shadow, key, columns, numbers, limit)
            rows = self._giving_way(query)
        if rows is None:
            return None
        total, count = (int(rows[0][0]), int(rows[0][1])) if rows else (0, 0)
        sample = (UnlikeRow(tuple(r[2]), (r[3] or "", r[4] or ""), tuple(r[5])) for r in rows if r[2] is not None)
        return Unlike(total, count, tuple(sample))

    def _giving_way(self, query: sql.Composed) -> list[tuple[Any, ...]] | None:
        """Return the rows of a query that holds tables; None where it was ended for somebody who waits for one of them."""
        session = self._open
        with closing(open_session(self.endpoint, "anabranch-drill")) as watch:

            def is_awaited() -> bool:
                with translated("cannot ask who waits"):
                    found = watch.execute(AWAITED, [session.info.backend_pid]).fetchone()
                    return bool(found and found[0])

            def end() -> None:
                with translated("cannot end the comparison"):
                    session.cancel()

            def ask() -> list[tuple[Any, ...]]:
                return session.execute(query).fetchall()  # without parameters: names may have a % in them

            rows = unless_awaited(ask, is_awaited, end, errors.QueryCanceled)
        if rows is None:
            self.close()
        return rows

    def remove(self) -> list[str]:
        with translated(f"cannot remove the shadow {self.schema}"), self._open.transaction():
            note = self._open.execute(sql.SQL("SELECT makes_state FROM {}").format(self._note)).fetchone()
            removed = [f"source: schema {self.schema}"]
            if note and note[0] and self._is_unused():
                removed += self._remove_state()
            self._open.execute(sql.SQL("DROP SCHEMA {} CASCADE").format(sql.Identifier(self.schema)))
            return removed

    def _remove_state(self) -> list[str]:
        """Remove the schema of the state, if nothing is in it by now."""
        try:
            with self._open.transaction():
                self._open.execute(sql.SQL("DROP SCHEMA {}").format(sql.Identifier(STATE)))
        except errors.DependentObjectsStillExist:
            return []
        return [f"source: schema {STATE}, which the drill had made"]

    def close(self) -> None:
        """End a comparison, too, that its process was called away from: it would keep the tables."""
        session, self._session = self._session, None
        if session is not None:
            with suppress(Error):  # the server may be away
                if session.info.transaction_status is TransactionStatus.ACTIVE:
                    session.cancel()
            session.close()

    def _is_unused(self) -> bool:
        """Return whether the state has no job in it."""
        if not self._is(HAS_SCHEMA, STATE):
            return False
        if not self._is(HAS_TABLE, f"{STATE}.job"):
            return True
        return self._is(sql.SQL("SELECT NOT EXISTS (SELECT FROM {})").format(sql.Identifier(STATE, "job")))

    def _is(self, query: LiteralString | sql.Composed, *values: str) -> bool:
        found = self._open.execute(query, values).fetchone()
        return bool(found and found[0])


def _named(table: TableId) -> sql.Identifier:
    return sql.Identifier(table.schema, table.name)


def _query(
    table: TableId, shadow: TableId, key: Sequence[str], columns: Sequence[str], numbers: set[str], limit: int
) -> sql.Composed:
    """Return rows of: rows of the table, rows that differ, key as texts, both versions, columns that differ. The first two are
    in every row; without a row that differs, one has NULL in the others."""
    on = sql.SQL(" AND ").join(sql.SQL("o.{0} = s.{0}").format(sql.Identifier(name)) for name in key)
    keys = sql.SQL(", ").join(sql.SQL("coalesce(o.{0}::text, s.{0}::text)").format(sql.Identifier(k)) for k in key)
    named = [(sql.Literal(name), _differs(name, name in numbers)) for name in columns]
    unlike = sql.SQL(", ").join(sql.SQL("CASE WHEN {} THEN {} END").format(d, name) for name, d in named)
    any_ = sql.SQL(" OR ").join([sql.SQL("o.xmin IS NULL OR s.xmin IS NULL"), *(differs for _, differs in named)])
    return sql.SQL("""
        WITH unlike AS MATERIALIZED (
            SELECT ARRAY[{keys}]::text[] AS key, o.xmin::text AS original, s.xmin::text AS shadow,
                   CASE WHEN o.xmin IS NULL OR s.xmin IS NULL THEN '{{}}'::text[]
                        ELSE array_remove(ARRAY[{unlike}]::text[], NULL) END AS columns
              FROM (SELECT xmin, * FROM {table}) o FULL JOIN (SELECT xmin, * FROM {shadow}) s ON {on}
             WHERE {any_})
        SELECT (SELECT count(*) FROM {table}), (SELECT count(*) FROM unlike), u.key, u.original, u.shadow, u.columns
          FROM (SELECT 1) one LEFT JOIN (SELECT * FROM unlike ORDER BY key LIMIT {limit}) u ON true
    """).format(keys=keys, unlike=unlike, table=_named(table), shadow=_named(shadow), on=on, any_=any_, limit=limit)


def _differs(name: str, is_number: bool) -> sql.Composed:
    """Compare as texts, which every type has: equal there is equal in each bit that a reader sees."""
    cast = sql.SQL("" if is_number else "::text")
    return sql.SQL("o.{0}{1} IS DISTINCT FROM s.{0}{1}").format(sql.Identifier(name), cast)
