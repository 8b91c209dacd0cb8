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
from dataclasses import dataclass, field

from anabranch.testing.torture.again import Again
from anabranch.testing.torture.exempt import DELETED, INSERTED, UPDATED
from anabranch.testing.torture.history import History
from anabranch.testing.torture.parts import Ended, Parts
from anabranch.testing.torture.schemas import may_be_written_to
from anabranch.testing.torture.tables import Column, Table
from anabranch.testing.torture.targets import Intrusion, TargetTables
from anabranch.testing.torture.values import Text

MEND = "mend"  # the part that is verify --repair
WRITTEN_TO = 4  # keys of a table, at most


@dataclass
class Intruding:
    """A deed (deeds.py). `may_mend`: everything that the source committed is at the target."""

    draw: int
    target: TargetTables
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
            self.target.mend(is_over=True)
            self.is_done = True
        elif self._mending is not None:
            self._is_mended = self._mending.turn()
        elif self.may_mend():
            self.target.mend(is_over=False)
            # verify wants apply to run and every table to stream: what a fault has ended is begun again
            expected = frozenset({"Fenced", "StateError"})
            self._mending = Again(MEND, self.parts, self.judge, self.draw, expected)

    def kill(self) -> None:
        if self._mending is not None:
            self._mending.kill()

    # --- writing ------------------------------------------------------------------------------------------------------

    def _write(self) -> None:
        """Write all in one transaction. Raises the driver's error where the target is away or a table is held."""
        tables = may_be_written_to(self.history.schema)
        if not tables:
            return
        drawn = random.Random(f"intruder {self.draw}")
        tables = drawn.sample(tables, min(len(tables), 2))
        with self.target.intrude(tables) as session:
            if not session.has_written:
                for table in tables:
                    _OneTable(session, table, self.history, self.family, drawn).write()


@dataclass
class _OneTable:
    session: Intrusion
    table: Table
    history: History
    family: str
    drawn: random.Random

    def write(self) -> None:
        there = self._rows()
        chosen = self.drawn.sample(there, min(len(there), self.drawn.randint(1, WRITTEN_TO)))
        for at, key, row in chosen:
            may_change = self._payload()
            if may_change and self.drawn.random() < 0.4:
                self._update(at, key, row, self.drawn.choice(may_change))
            else:
                self.session.delete(self.table, at)
                self.session.note(self.table, key, DELETED)
        unnullable = any(not self.table.column(n).nullable for n in self._unique_only())
        keys = sorted(self._keys_to_come() - {key for _, key, _ in there})
        for key in self.drawn.sample(keys, min(len(keys), 3)) if self.session.may_insert and not unnullable else ():
            if self.drawn.random() < 0.6:
                self._insert(key)

    def _rows(self) -> list[tuple[str, tuple[str, ...], dict[str, Text]]]:
        """Return each row's place, its key, and its texts by column."""
        rows = self.session.rows(self.table)
        return sorted((at, tuple(str(row[name]) for name in self.table.key), row) for at, row in rows)

    def _unique_only(self) -> set[str]:
        return {name for unique in self.table.uniques for name in unique} - set(self.table.key)

    def _payload(self) -> list[Column]:
        return [c for c in self.table.given if c.name not in self._unique_only() and c.name not in self.table.key]

    def _update(self, at: str, key: tuple[str, ...], row: dict[str, Text], column: Column) -> None:
        others = [text for text in self._texts(column) if text != row[column.name]]
        text = self.drawn.choice(others) if others else row[column.name]
        self.session.update(self.table, at, column.name, text)
        self.session.note(self.table, key, UPDATED)

    def _insert(self, key: tuple[str, ...]) -> None:
        row: dict[str, Text] = dict(zip(self.table.key, key, strict=True))
        row |= {column.name: self.drawn.choice(self._texts(column)) for column in self._payload()}
        self.session.insert(self.table, row)
        self.session.note(self.table, key, INSERTED)

    def _texts(self, column: Column) -> Sequence[Text]:
        found: list[Text] = [column.of.text(literal, self.family) for literal in sorted(column.of.texts)]
        return [*found, None] if column.nullable else found

    def _keys_to_come(self) -> set[tuple[str, ...]]:
        """Return the keys of rows that the history puts into the table, or tries to."""
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
