"""Somebody else writes to the target while the job streams (`on_conflict = "source_wins"`): rows get another value, go, or come
under a key that the source may use. At the end `verify --repair` makes the keys equal again.

What was written is kept beside the tables, in the same transaction: whoever looks at the target knows which keys those are.
Not drawn: tables without a primary key, with foreign keys to or from them (each history of this kind has one without), or
whose key ignores case; values of unique columns, which a source's row may need; rows that come where the target enforces
foreign keys, because a row of the source that moves to one's key stops the job there; two writings to one key.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

import psycopg

from anabranch.testing.databases import Database
from anabranch.testing.torture.again import Again
from anabranch.testing.torture.exempt import DELETED, INSERTED, INTRUDER, UPDATED, Noted
from anabranch.testing.torture.history import History
from anabranch.testing.torture.parts import Ended, Parts
from anabranch.testing.torture.schemas import may_be_written_to
from anabranch.testing.torture.tables import LEDGER, Column, Table
from anabranch.testing.torture.values import Text, copied
from anabranch.testing.torture.watcher import OPTIONS

MEND = "mend"  # the part that is verify --repair
WRITTEN_TO = 4  # keys of a table, at most
PLACE = "tableoid::text || ctid::text"  # of a row, also of a partitioned table
CREATE = """
CREATE TABLE IF NOT EXISTS "{0}".{1} (t text, k1 text, k2 text, did text, commits int, mends boolean DEFAULT false, line bytea)
"""
# Of an update or a removal the row was missing; of a row that was there it is that one's key.
CONFLICTS = """
SELECT c.kind, c.decision, {keys} FROM anabranch.conflict c,
       json_populate_record(NULL::"{space}"."{table}", CASE c.kind WHEN 'exists' THEN c.found ELSE c.key END) r
 WHERE c.job = '{space}' AND c.source_table = '{space}.{table}' ORDER BY c.number
"""


@dataclass
class Intruding:
    """A deed (deeds.py). `may_mend`: everything that the source committed is at the target."""

    draw: int
    target: Database
    history: History
    family: str
    parts: Parts
    judge: Callable[[Ended], None]
    may_mend: Callable[[], bool]
    is_done: bool = field(default=False, init=False)
    pauses_apply: bool = field(default=False, init=False)
    stops_apply: bool = field(default=False, init=False)
    _has_written: bool = field(default=False, init=False)
    _is_mended: bool = field(default=False, init=False)
    _mending: Again | None = field(default=None, init=False)

    @property
    def has_begun(self) -> bool:
        return self._has_written

    def explains(self, ended: Ended) -> bool:
        return False

    def turn(self) -> None:
        if self.is_done:
            return
        if not self._has_written:
            self._write()
            self._has_written = True
        elif self._is_mended:
            self.target.execute(f'DELETE FROM "{self.history.database}".{INTRUDER}')
            self.is_done = True
        elif self._mending is not None:
            self._is_mended = self._mending.turn()
        elif self.may_mend():
            self.target.execute(f'UPDATE "{self.history.database}".{INTRUDER} SET mends = true')
            # verify wants apply to run and every table to stream: what a fault has ended is begun again
            expected = frozenset({"Fenced", "StateError"})
            self._mending = Again(MEND, self.parts, self.judge, self.draw, expected)

    def kill(self) -> None:
        if self._mending is not None:
            self._mending.kill()

    # --- writing ------------------------------------------------------------------------------------------------------

    def _write(self) -> None:
        """All of it in one transaction. Raises psycopg.Error where the target is away or apply holds a table: soon again."""
        tables = may_be_written_to(self.history.schema)
        if not tables:
            return
        drawn = random.Random(f"intruder {self.draw}")
        tables = drawn.sample(tables, min(len(tables), 2))
        with closing(self.target.connect(connect_timeout=5, options=OPTIONS)) as connection:
            enforces = _enforces_keys(connection)
            connection.autocommit = False
            connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            connection.execute(f'SET search_path = "{self.history.database}"')
            connection.execute("SET lock_timeout = '0.3s'")
            for table in sorted(tables, key=lambda one: one.name):  # what is seen is what is there, behind these
                connection.execute(f'LOCK TABLE "{table.name}" IN SHARE ROW EXCLUSIVE MODE')
            if not connection.execute(f"SELECT FROM {INTRUDER} LIMIT 1").fetchone():  # a COMMIT whose answer was lost
                for table in tables:
                    _OneTable(connection, table, self.history, self.family, drawn, not enforces).write()
            connection.commit()


def _enforces_keys(connection: Any) -> bool:
    try:
        connection.execute("SET session_replication_role = replica")
    except psycopg.errors.InsufficientPrivilege:
        return True
    connection.execute("RESET session_replication_role")
    return False


@dataclass
class _OneTable:
    connection: Any
    table: Table
    history: History
    family: str
    drawn: random.Random
    may_insert: bool

    def write(self) -> None:
        there = self._rows()
        chosen = self.drawn.sample(there, min(len(there), self.drawn.randint(1, WRITTEN_TO)))
        for at, key, row in chosen:
            may_change = self._payload()
            if may_change and self.drawn.random() < 0.4:
                self._update(at, key, row, self.drawn.choice(may_change))
            else:
                self.connection.execute(f'DELETE FROM "{self.table.name}" WHERE {PLACE} = %s', [at])
                self._keep(key, DELETED)
        unnullable = any(not self.table.column(n).nullable for n in self._unique_only())
        keys = sorted(self._keys_to_come() - {key for _, key, _ in there})
        for key in self.drawn.sample(keys, min(len(keys), 3)) if self.may_insert and not unnullable else ():
            if self.drawn.random() < 0.6:
                self._insert(key)

    def _rows(self) -> list[tuple[str, tuple[str, ...], dict[str, Text]]]:
        """Where each is, its key, and the whole of it."""
        names = [column.name for column in self.table.columns]
        columns = ", ".join(f'"{name}"::text' for name in names)
        found = self.connection.execute(f'SELECT {PLACE}, {columns} FROM "{self.table.name}"').fetchall()
        rows = [(at, dict(zip(names, values, strict=True))) for at, *values in found]
        return sorted((at, tuple(row[name] for name in self.table.key), row) for at, row in rows)

    def _unique_only(self) -> set[str]:
        return {name for unique in self.table.uniques for name in unique} - set(self.table.key)

    def _payload(self) -> list[Column]:
        return [c for c in self.table.given if c.name not in self._unique_only() and c.name not in self.table.key]

    def _update(self, at: str, key: tuple[str, ...], row: dict[str, Text], column: Column) -> None:
        others = [text for text in self._texts(column) if text != row[column.name]]
        text = self.drawn.choice(others) if others else row[column.name]
        self.connection.execute(f'UPDATE "{self.table.name}" SET "{column.name}" = %s WHERE {PLACE} = %s', [text, at])
        self._keep(key, UPDATED)

    def _insert(self, key: tuple[str, ...]) -> None:
        row: dict[str, Text] = dict(zip(self.table.key, key, strict=True))
        row |= {column.name: self.drawn.choice(self._texts(column)) for column in self._payload()}
        names, places = ", ".join(f'"{name}"' for name in row), ", ".join(["%s"] * len(row))
        self.connection.execute(f'INSERT INTO "{self.table.name}" ({names}) VALUES ({places})', [*row.values()])
        self._keep(key, INSERTED)

    def _texts(self, column: Column) -> Sequence[Text]:
        found: list[Text] = [column.of.text(literal, self.family) for literal in sorted(column.of.texts)]
        return [*found, None] if column.nullable else found

    def _keys_to_come(self) -> set[tuple[str, ...]]:
        """Of rows that the history puts into the table, or tries to."""
        return {
            tuple(text for text in texts if text is not None)
            for transaction in (*self.history.during, *self.history.after)
            for statement in transaction.statements
            if statement.table == self.table.name and statement.rows
            for texts in self._keys(statement.columns, statement.rows)
        }

    def _keys(self, columns: Sequence[str], rows: Sequence[Sequence[str | None]]) -> Iterator[tuple[Text, ...]]:
        for literals in rows:
            named = dict(zip(columns, literals, strict=True))
            yield tuple(self.table.column(name).of.text(named[name], self.family) for name in self.table.key)

    def _keep(self, key: tuple[str, ...], did: str) -> None:
        """With the row as it is now."""
        names = ", ".join(f'"{column.name}"' for column in self.table.columns)
        wanted = " AND ".join(
            f"\"{name}\"::text = '{_quoted(text)}'" for name, text in zip(self.table.key, key, strict=True)
        )
        with (
            self.connection.cursor() as cursor,
            cursor.copy(f'COPY (SELECT {names} FROM "{self.table.name}" WHERE {wanted}) TO STDOUT') as copy,
        ):
            line = b"".join(bytes(block) for block in copy).rstrip(b"\n")
        self.connection.execute(
            f"INSERT INTO {INTRUDER} (t, k1, k2, did, commits, line) SELECT %s, %s, %s, %s, count(*), %s FROM {LEDGER}",
            [self.table.name, key[0], key[1] if len(key) > 1 else None, did, line or None],
        )


def _quoted(text: str) -> str:
    return text.replace("'", "''")


def noted(target: Database, history: History) -> list[Noted]:
    """The conflicts that the job has noted. Raises psycopg.Error."""
    found = []
    with closing(target.connect(options=OPTIONS)) as connection:
        for table in history.schema.tables:
            keys = ", ".join(f'r."{name}"::text' for name in table.key) or "''"
            query = CONFLICTS.format(space=history.database, table=table.name, keys=keys)
            for kind, decision, *key in connection.execute(query).fetchall():
                fields = tuple(copied(text).encode() for text in key)
                found.append(Noted(table.name, kind, decision, fields))
    return found
