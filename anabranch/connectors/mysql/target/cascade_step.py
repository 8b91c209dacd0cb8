"""One step of a cascade: the children of one table that refer to some values, found, read and changed (K1).

What does not live here: which steps follow from it (`cascade.py`), children that hand unique values on (`handed_on.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from anabranch.connectors.mysql.target.conditions import (
    COLLATED,
    Values,
    batches,
    holds,
    holds_any,
    literal,
    reads,
    which,
)
from anabranch.connectors.mysql.target.known_columns import KnownTable, assigned
from anabranch.connectors.mysql.target.literals import run_each
from anabranch.connectors.mysql.target.session import Connection, ask, quoted, run, table_name
from anabranch.rows.lines import texts
from anabranch.rows.net import Cascade, CascadeAction, TargetTable

PAIRS = 500  # statements of one round trip


@dataclass(frozen=True)
class Step:
    """Children, their foreign-key columns, what happens to these; `olds` what the children refer to, `news` what an UPDATE
    gives them instead, one for each. In text form, and never with NULL in `olds`."""

    child: TargetTable
    columns: tuple[str, ...]
    action: CascadeAction
    olds: Sequence[Values]
    news: Sequence[Values] = ()

    def after(self, number: int, column: str, value: str | None) -> str | None:
        """Return what a column that holds `value` holds afterwards, in a child that refers to the values of this number."""
        if column not in self.columns or self.action is CascadeAction.DELETE:
            return value
        return self.news[number][self.columns.index(column)] if self.news else None

    def before(self, number: int, column: str, value: str | None) -> str | None:
        """Return what a column held before, in a child that has followed already."""
        return self.olds[number][self.columns.index(column)] if column in self.columns else value


def first_step(cascade: Cascade, nul: str) -> Step:
    """Return the step that a cascade begins with."""
    rows = [_texts(cascade, table, nul) for table in (cascade.parents, cascade.replacements) if table is not None]
    news = rows[1] if cascade.action is CascadeAction.UPDATE and len(rows) > 1 else ()
    return Step(cascade.child, cascade.columns, cascade.action, rows[0], news)


def _texts(cascade: Cascade, rows: pa.Table, nul: str) -> list[Values]:
    child = cascade.child
    columns = [texts(child.type_of(name), rows.column(name)).to_pylist() for name in cascade.columns]
    if nul == "strip":
        columns = [[value and value.replace("\0", "") for value in column] for column in columns]
    return list(zip(*columns, strict=True))


# --- finding ----------------------------------------------------------------------------------------------------------


def found(
    connection: Connection, step: Step, columns: Sequence[str], has_followed: bool = False
) -> Iterator[tuple[int, Values]]:
    """Yield the children's values of some columns, and the number of the values that each refers to. `has_followed`: those that
    refer to the new values already."""
    table = step.child
    for batch in batches(step.news if has_followed else step.olds):
        number = which(connection, table, step.columns, batch)
        wanted = holds_any(connection, table, step.columns, [values for _, values in batch])
        query = f"SELECT {number}, {reads(connection, table, columns)} FROM {table_name(table.target)} WHERE {wanted}"
        for at, *values in ask(connection, query):
            yield int(at), tuple(values)


def held(
    connection: Connection, table: TargetTable, columns: Sequence[str], some: Sequence[Values], wanted: Sequence[str]
) -> Iterator[Values]:
    """Yield what rows that hold one of these values have in the wanted columns."""
    for batch in batches(some):
        where = holds_any(connection, table, columns, [values for _, values in batch])
        yield from ask(
            connection, f"SELECT {reads(connection, table, wanted)} FROM {table_name(table.target)} WHERE {where}"
        )


# --- changing ---------------------------------------------------------------------------------------------------------


def remove(connection: Connection, step: Step) -> None:
    for batch in batches(step.olds):
        where = holds_any(connection, step.child, step.columns, [values for _, values in batch])
        run(connection, f"DELETE FROM {table_name(step.child.target)} WHERE {where}")


def clear(connection: Connection, known: KnownTable, step: Step) -> None:
    """Set the children's columns to NULL."""
    table = step.child
    sets = assigned(known, step.columns, ("NULL",) * len(step.columns))
    for batch in batches(step.olds):
        where = holds_any(connection, table, step.columns, [values for _, values in batch])
        run(connection, f"UPDATE {table_name(table.target)} SET {sets} WHERE {where}")


def replace_each(connection: Connection, known: KnownTable, step: Step) -> None:
    """Give the children the new values, those of one parent after those of another. Nobody takes what others leave. Raises
    Conflict for a value that a child's column takes otherwise: blanks behind its length are cut with a note."""
    statements = [_replacement(connection, known, step, number) for number in range(len(step.olds))]
    for start in range(0, len(statements), PAIRS):
        run_each(connection, statements[start : start + PAIRS], step.child.source)


def _replacement(connection: Connection, known: KnownTable, step: Step, number: int) -> str:
    table, new = step.child, step.news[number]
    values = tuple(literal(connection, table, name, value) for name, value in zip(step.columns, new, strict=True))
    where = holds(connection, table, step.columns, step.olds[number])
    return f"UPDATE {table_name(table.target)} SET {assigned(known, step.columns, values)} WHERE {where}"


def hands_on(connection: Connection, step: Step) -> bool:
    """Return whether one of the new values is also an old one, as the child's collation compares them."""
    if len(step.olds) < 2:
        return False
    table = step.child
    if not any(table.type_of(name).kind in COLLATED for name in step.columns):
        return not set(step.olds).isdisjoint(step.news)
    if len(step.olds) > PAIRS:  # not worth a statement of such a length: letting them leave is right in any case
        return True
    names = [f"c{place}" for place in range(len(step.columns))]
    on = " AND ".join(f"p.{name} = r.{name}" for name in names)
    olds, news = (_as_table(connection, step, values) for values in (step.olds, step.news))
    return bool(ask(connection, f"SELECT 1 FROM ({olds}) AS p JOIN ({news}) AS r ON {on} LIMIT 1"))


def _as_table(connection: Connection, step: Step, some: Sequence[Values]) -> str:
    """Return a query for values, which a column without rows gives its type and collation."""
    table = step.child
    columns = ", ".join(f"{quoted(name)} AS c{place}" for place, name in enumerate(step.columns))
    rows = (
        ", ".join(literal(connection, table, name, value) for name, value in zip(step.columns, values, strict=True))
        for values in some
        if None not in values
    )
    nobody = f"SELECT {columns} FROM {table_name(table.target)} WHERE FALSE"
    return " UNION ALL ".join([nobody, *(f"SELECT {row}" for row in rows)])
