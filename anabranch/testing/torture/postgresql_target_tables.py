"""One history's tables at a PostgreSQL target (targets.TargetTables): what is shown, written, refused and hidden there.

What does not live here: which rows and tables are drawn (intruder.py, setting_aside.py, bound.py), servers and databases
(postgresql_target.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any

import psycopg

from anabranch.testing.databases import Database
from anabranch.testing.torture.exempt import ASIDE, INTRUDER, Noted
from anabranch.testing.torture.policies import KINDS
from anabranch.testing.torture.postgresql_snapshots import OPTIONS, PostgresqlSnapshots
from anabranch.testing.torture.tables import LEDGER, Column, Schema, Table
from anabranch.testing.torture.targets import Disturbance, Refuses
from anabranch.testing.torture.values import Text, copied

CONNECT_SECONDS = 5
LOCK_TIMEOUT = "SET lock_timeout = '0.3s'"
PLACE = "tableoid::text || ctid::text"  # of a row, also of a partitioned table
CREATE_INTRUDER = """
CREATE TABLE IF NOT EXISTS "{0}".{1} (t text, k1 text, k2 text, did text, commits int, mends boolean DEFAULT false, line bytea)
"""
VIEW_ASIDE = """
SELECT '{table}'::text AS t, {first} AS k1, {second} AS k2 FROM anabranch.set_aside s,
       json_populate_record(NULL::"{space}"."{table}", s.key) r
 WHERE s.job = '{space}' AND s.source_table = '{space}.{table}' AND s.discarded_at IS NULL
"""
# Of an update or a removal the row was missing; of a row that was there it is that one's key.
CONFLICTS = """
SELECT c.kind, c.decision, {keys} FROM anabranch.conflict c,
       json_populate_record(NULL::"{space}"."{table}", CASE c.kind WHEN 'exists' THEN c.found ELSE c.key END) r
 WHERE c.job = '{space}' AND c.source_table = '{space}.{table}' ORDER BY c.number
"""
REFUSES = "DROP CONSTRAINT IF EXISTS deed, ADD CONSTRAINT deed CHECK ({check}) NOT VALID"
TAKES = "DROP CONSTRAINT IF EXISTS deed"
HIDES = "ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY; {policies}"
SHOWS = """NO FORCE ROW LEVEL SECURITY, DISABLE ROW LEVEL SECURITY;
DROP POLICY IF EXISTS hides ON {table}; DROP POLICY IF EXISTS more ON {table}"""


@dataclass(frozen=True)
class PostgresqlTargetTables:
    target: Database
    namespace: str

    def snapshots(
        self,
        columns: Mapping[str, Sequence[Column]],
        beside: Sequence[str] = (),
        passing: Mapping[str, Sequence[Sequence[Column]]] | None = None,
    ) -> PostgresqlSnapshots:
        return PostgresqlSnapshots(self.target, self.namespace, columns, tuple(beside), passing or {})

    def show(self, relation: str, schema: Schema) -> None:
        made = {INTRUDER: CREATE_INTRUDER.format(self.namespace, INTRUDER), ASIDE: self._view(schema)}
        self.target.execute(made[relation])

    def _view(self, schema: Schema) -> str:
        selects = []
        for table in (table for table in schema.tables if table.key):
            first, second, *_ = [*(f'r."{name}"::text' for name in table.key), "NULL::text"]
            selects.append(VIEW_ASIDE.format(table=table.name, space=self.namespace, first=first, second=second))
        return f'CREATE OR REPLACE VIEW "{self.namespace}".{ASIDE} AS {" UNION ".join(selects)}'

    @contextmanager
    def intrude(self, tables: Sequence[Table]) -> Iterator[PostgresqlIntrusion]:
        with closing(self.target.connect(connect_timeout=CONNECT_SECONDS, options=OPTIONS)) as connection:
            enforces = _enforces_keys(connection)
            connection.autocommit = False
            connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            connection.execute(f'SET search_path = "{self.namespace}"')
            connection.execute(LOCK_TIMEOUT)
            for table in sorted(tables, key=lambda one: one.name):  # what is seen is what is there, behind these
                connection.execute(f'LOCK TABLE "{table.name}" IN SHARE ROW EXCLUSIVE MODE')
            yield PostgresqlIntrusion(connection, may_insert=not enforces)
            connection.commit()

    def mend(self, *, is_over: bool) -> None:
        relation = f'"{self.namespace}".{INTRUDER}'
        self.target.execute(f"DELETE FROM {relation}" if is_over else f"UPDATE {relation} SET mends = true")

    def noted(self, schema: Schema) -> list[Noted]:
        found = []
        with closing(self.target.connect(options=OPTIONS)) as connection:
            for table in schema.tables:
                keys = ", ".join(f'r."{name}"::text' for name in table.key) or "''"
                query = CONFLICTS.format(space=self.namespace, table=table.name, keys=keys)
                for kind, decision, *key in connection.execute(query).fetchall():
                    fields = tuple(copied(text).encode() for text in key)
                    found.append(Noted(table.name, kind, decision, fields))
        return found

    def disturb(self, table: str, how: Disturbance) -> None:
        self._alter(table, self.making(table, how))

    def calm(self, table: str, how: Disturbance) -> None:
        self._alter(table, self.lifting(table, how))

    def flush(self) -> None:
        self.target.execute("CHECKPOINT")

    def making(self, table: str, how: Disturbance) -> str:
        """Return the ALTER TABLE that makes a table refuse or hide rows, without its first words."""
        if isinstance(how, Refuses):
            return REFUSES.format(check=_taken(how))
        return HIDES.format(policies=KINDS[how.way % len(KINDS)].format(self._place(table)))

    def lifting(self, table: str, how: Disturbance) -> str:
        """Return the ALTER TABLE that takes that back."""
        return TAKES if isinstance(how, Refuses) else SHOWS.format(table=self._place(table))

    def _alter(self, table: str, what: str) -> None:
        """Apply holds the table while it writes: short waits, many of them."""
        with closing(self.target.connect(connect_timeout=CONNECT_SECONDS)) as connection:
            connection.execute(LOCK_TIMEOUT)
            connection.execute(f"ALTER TABLE {self._place(table)} {what}")

    def _place(self, table: str) -> str:
        return f'"{self.namespace}"."{table}"'


def _taken(how: Refuses) -> str:
    """Return the condition that is true of the rows that a table takes."""
    if not how.key:
        return "false"
    key = " || '/' || ".join(f'"{name}"::text' for name in how.key)
    return f"abs(hashtext({key})::bigint) % {how.parts} <> {how.part}"


def _enforces_keys(connection: Any) -> bool:
    try:
        connection.execute("SET session_replication_role = replica")
    except psycopg.errors.InsufficientPrivilege:
        return True
    connection.execute("RESET session_replication_role")
    return False


@dataclass
class PostgresqlIntrusion:
    """Writes in a transaction of `connection` that has locked the tables; places are of physical rows, which nobody moves."""

    connection: Any
    may_insert: bool

    @property
    def has_written(self) -> bool:
        return bool(self.connection.execute(f"SELECT FROM {INTRUDER} LIMIT 1").fetchone())

    def rows(self, table: Table) -> list[tuple[str, dict[str, Text]]]:
        names = [column.name for column in table.columns]
        columns = ", ".join(f'"{name}"::text' for name in names)
        found = self.connection.execute(f'SELECT {PLACE}, {columns} FROM "{table.name}"').fetchall()
        return [(place, dict(zip(names, values, strict=True))) for place, *values in found]

    def delete(self, table: Table, place: str) -> None:
        self.connection.execute(f'DELETE FROM "{table.name}" WHERE {PLACE} = %s', [place])

    def update(self, table: Table, place: str, column: str, text: Text) -> None:
        self.connection.execute(f'UPDATE "{table.name}" SET "{column}" = %s WHERE {PLACE} = %s', [text, place])

    def insert(self, table: Table, row: Mapping[str, Text]) -> None:
        names, places = ", ".join(f'"{name}"' for name in row), ", ".join(["%s"] * len(row))
        self.connection.execute(f'INSERT INTO "{table.name}" ({names}) VALUES ({places})', [*row.values()])

    def note(self, table: Table, key: Sequence[Text], did: str) -> None:
        line = self._line(table, key)
        self.connection.execute(
            f"INSERT INTO {INTRUDER} (t, k1, k2, did, commits, line) SELECT %s, %s, %s, %s, count(*), %s FROM {LEDGER}",
            [table.name, key[0], key[1] if len(key) > 1 else None, did, line or None],
        )

    def _line(self, table: Table, key: Sequence[Text]) -> bytes:
        names = ", ".join(f'"{column.name}"' for column in table.columns)
        wanted = " AND ".join(f"\"{n}\"::text = '{_quoted(text)}'" for n, text in zip(table.key, key, strict=True))
        with (
            self.connection.cursor() as cursor,
            cursor.copy(f'COPY (SELECT {names} FROM "{table.name}" WHERE {wanted}) TO STDOUT') as copy,
        ):
            return b"".join(bytes(block) for block in copy).rstrip(b"\n")


def _quoted(text: Text) -> str:
    return str(text).replace("'", "''")
