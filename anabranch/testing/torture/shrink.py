"""A history that failed, made small: fewer transactions, fewer statements, fewer rows, fewer keys, computed columns and tables.

Every candidate is run again with the same faults. Sessions, phases and numbers stay as they are, so that what is left still
overlaps as it did. The way of leaving out halves first is Zeller and Hildebrandt's delta debugging.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from anabranch.testing.torture.check import MODEL, PIPELINE
from anabranch.testing.torture.history import PASSING, History, Statement, Transaction
from anabranch.testing.torture.run import Result
from anabranch.testing.torture.tables import Column, Schema, Table

RUNS, SECONDS, TRIES = 300, 300.0, 3
T = TypeVar("T")


def shrink(
    history: History,
    run: Callable[[History], Result],
    *,
    runs: int = RUNS,
    seconds: float = SECONDS,
    tries: int = TRIES,
) -> tuple[History, Result | None]:
    """The smallest that was found, with its result; the history itself with None if it does not fail again in `tries`
    runs. No more than `runs` runs, and none begins after `seconds`."""
    search = _Search(run, runs, time.monotonic() + seconds)
    for _ in range(tries):
        if search.fails(history):
            break
    if search.result is None:
        return history, None
    size = -1
    while size != _size(history) and not search.is_over:
        size = _size(history)
        for step in (_fewer_transactions, _fewer_statements, _fewer_rows, _fewer_keys, _fewer_tables):
            history = step(history, search)
    return history, search.result


@dataclass
class _Search:
    run: Callable[[History], Result]
    runs_left: int
    until: float
    result: Result | None = field(default=None, init=False)  # of the last one that failed

    @property
    def is_over(self) -> bool:
        return self.runs_left <= 0 or time.monotonic() > self.until

    def fails(self, history: History) -> bool:
        """Return whether it fails in the same way as the first one."""
        if self.is_over:
            return False
        self.runs_left -= 1
        try:
            result = self.run(history)
        except Exception:  # noqa: BLE001 - what is left makes no sense to the source; then it is no smaller history
            return False
        is_like = result.failure is not None and (
            self.result is None or self.result.failure is None or _way(result) == _way(self.result)
        )
        self.result = result if is_like else self.result
        return is_like

    def fewest(self, items: Sequence[T], build: Callable[[Sequence[T]], History]) -> list[T]:
        """Return as few of the items as still fail."""
        kept, pieces = list(items), 2
        while kept and not self.is_over:
            size = max(1, len(kept) // pieces)
            for first in range(0, len(kept), size):
                fewer = kept[:first] + kept[first + size :]
                if self.fails(build(fewer)):
                    kept, pieces = fewer, max(2, pieces - 1)
                    break
            else:
                if size == 1:
                    break
                pieces = min(len(kept), pieces * 2)
        return kept


def _way(result: Result) -> str:
    """Name the way in which it failed: by what was seen, by the kit's own word, or by the end of a part."""
    if result.failure is None:
        return ""
    if result.failure.kind == PIPELINE:
        return result.failure.message.partition(":")[0]  # `apply ended with code 6 (RowRefused`
    return MODEL if result.failure.kind == MODEL else "seen"


def _size(history: History) -> int:
    rows = sum(1 + len(s.rows) for t in history.transactions for s in t.statements)
    keys = sum(1 + len(list(_without_a_key(table))) for table in history.schema.tables)
    return len(history.transactions) + rows + keys


def _fewer_transactions(history: History, search: _Search) -> History:
    def build(kept: Sequence[int]) -> History:
        numbers = set(kept)
        return history.with_transactions(lambda t: t if t.number in numbers else None)

    return build(search.fewest([t.number for t in history.transactions], build))


def _fewer_statements(history: History, search: _Search) -> History:
    def build(kept: Sequence[tuple[int, int]]) -> History:
        places = set(kept)
        return history.with_transactions(lambda t: _only(t, places))

    every = [(t.number, i) for t in history.transactions for i in range(len(t.statements)) if not t.alone]
    return build(search.fewest(every, build))


def _only(transaction: Transaction, places: set[tuple[int, int]]) -> Transaction:
    """Return the transaction with these statements only; a way back to a savepoint needs its savepoint."""
    if transaction.alone:
        return transaction
    kept = [s for i, s in enumerate(transaction.statements) if (transaction.number, i) in places]
    names = {s.name for s in kept if s.do == "savepoint"}
    return replace(transaction, statements=tuple(s for s in kept if s.do != "back" or s.name in names))


def _fewer_rows(history: History, search: _Search) -> History:
    def build(kept: Sequence[tuple[int, int, int]]) -> History:
        places = set(kept)
        return history.with_transactions(
            lambda t: replace(t, statements=tuple(_rows(s, t.number, i, places) for i, s in enumerate(t.statements)))
        )

    every = [
        (t.number, i, row)
        for t in history.transactions
        for i, s in enumerate(t.statements)
        for row in range(len(s.rows))
        if len(s.rows) > 1
    ]
    return build(search.fewest(every, build)) if every else history


def _rows(statement: Statement, number: int, place: int, places: set[tuple[int, int, int]]) -> Statement:
    """One row stays at least; a statement without any is another step's."""
    kept = tuple(row for i, row in enumerate(statement.rows) if (number, place, i) in places)
    return replace(statement, rows=kept or statement.rows[:1]) if len(statement.rows) > 1 else statement


def _fewer_keys(history: History, search: _Search) -> History:
    """Foreign keys, unique keys, what a table inherits and computed columns, one by one."""
    for table in history.schema.tables:
        for candidate in _without_a_key(table):
            smaller = _with_table(history, candidate)
            if search.fails(smaller):
                return _fewer_keys(smaller, search)
    return history


def _without_a_key(table: Table) -> list[Table]:
    foreign, uniques = table.foreign_keys, table.uniques
    without = [replace(table, foreign_keys=foreign[:i] + foreign[i + 1 :]) for i in range(len(foreign))]
    without += [replace(table, uniques=uniques[:i] + uniques[i + 1 :]) for i in range(len(uniques))]
    without += [replace(table, inherits="")] if table.inherits else []
    return without + [replace(table, columns=kept) for kept in _without_a_computed(table)]


def _without_a_computed(table: Table) -> Iterator[tuple[Column, ...]]:
    """One that no other is computed from."""
    read = {name for column in table.columns if column.computed for name in column.computed.columns}
    for column in table.columns:
        if column.computed and column.name not in read:
            yield tuple(one for one in table.columns if one is not column)


def _with_table(history: History, table: Table) -> History:
    tables = tuple(table if table.name == one.name else one for one in history.schema.tables)
    return replace(history, schema=Schema(tables))


def _fewer_tables(history: History, search: _Search) -> History:
    """Leave out tables that no statement names, no foreign key leads to and no other inherits from."""
    statements = [s for t in history.transactions for s in t.statements]
    used = {part.table for s in statements for part in (s, *s.parts)} | {s.name for s in statements if s.do in PASSING}
    used |= {key.parent for table in history.schema.tables for key in table.foreign_keys}
    used |= {table.inherits for table in history.schema.tables}
    kept = tuple(table for table in history.schema.tables if used & {table.name, *table.names})
    smaller = replace(history, schema=Schema(kept))
    is_less = 0 < len(smaller.schema.tables) < len(history.schema.tables)
    return smaller if is_less and search.fails(smaller) else history
