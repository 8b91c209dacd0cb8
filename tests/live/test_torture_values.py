"""The torture kit's table of values, written by hand, against real servers: once all of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from anabranch.testing.databases import Database
from anabranch.testing.servers import Server
from anabranch.testing.torture.ends import version_of
from anabranch.testing.torture.ground import Ground
from anabranch.testing.torture.history import Condition, History, Statement, Transaction
from anabranch.testing.torture.one import One
from anabranch.testing.torture.tables import Column, Schema, Table
from anabranch.testing.torture.values import KINDS, Kind, kinds

BESIDE = 12  # kinds in one table


def test_the_texts_are_the_target_s_own(target_database: Database) -> None:
    """Each is what PostgreSQL prints of it."""
    pairs = [
        (kind, text)
        for kind in KINDS.values()
        for family in ("mysql", "mariadb")
        for text in {kind.text(literal, family) for literal in (*kind.texts, *([kind.nth(17)] if kind.nth else []))}
    ]
    with target_database.connect(options="-c TimeZone=UTC") as connection:
        columns = ", ".join(f"format('%%s', %s::{kind.at_target})" for kind, _ in pairs)
        (printed,) = connection.execute(f"SELECT {columns}", [text for _, text in pairs]).fetchall()
    wrong = [(k.name, text, out) for (k, text), out in zip(pairs, printed, strict=True) if out != text]
    assert not wrong


@pytest.mark.one_case("mariadb")
def test_every_value_arrives_by_the_load_and_by_the_log(
    mysql_family: Server, target_database: Database, tmp_path: Path
) -> None:
    """The same rows once before the job and once behind it, then each value changed to the next; the kit compares both ends
    with this table. A session with each kind of row image."""
    known = kinds(mysql_family.name, version_of(mysql_family))
    tables = list(in_tables(known))
    before = Transaction(1, 0, tuple(s for t in tables for s in inserts(t, 1000)))
    after = [
        Transaction(
            2 + i, i, tuple(s for t in tables for s in (*inserts(t, 2000 + 100 * i), *updates(t, 2000 + 100 * i)))
        )
        for i in range(3)
    ]
    history = History(9_000_001, Schema(tuple(tables)), (before,), (), tuple(after), ("", "MINIMAL", "NOBLOB"))
    one = One(Ground([mysql_family], target_database), tmp_path)
    result = one.run(history, ())
    assert result.failure is None, str(result.failure)
    assert result.committed == 4


def in_tables(known: Sequence[Kind]) -> Iterator[Table]:
    for first in range(0, len(known), BESIDE):
        columns = tuple(Column(f"c{i}", kind.name) for i, kind in enumerate(known[first : first + BESIDE]))
        yield Table(f"t{first}", (Column("id", "int", nullable=False), *columns), ("id",))


def edges(table: Table) -> list[list[str | None]]:
    """Rows that have every value of every column, and NULL."""
    values = [[*sorted(c.of.texts), *([c.of.nth(5)] if c.of.nth else []), None] for c in table.columns[1:]]
    return [[some[row % len(some)] for some in values] for row in range(max(map(len, values)))]


def inserts(table: Table, first: int) -> Iterator[Statement]:
    names = tuple(column.name for column in table.columns)
    rows = tuple((str(first + i), *row) for i, row in enumerate(edges(table)))
    yield Statement("insert", table.name, names, rows)


def updates(table: Table, first: int) -> Iterator[Statement]:
    rows = edges(table)
    for i, row in enumerate(rows):
        assigned = tuple((c.name, v) for c, v in zip(table.columns[1:], rows[i - 1], strict=True) if v not in row)
        if assigned:
            where = (Condition("id", "<=>", (str(first + i),)),)
            yield Statement("update", table.name, assigned=assigned, where=where)
