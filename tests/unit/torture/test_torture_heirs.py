"""Tables of a history that inherit from others: how they are drawn, and what is left of them where a failure needs none."""

from __future__ import annotations

import json

from anabranch.testing.torture.check import WRONG, Failure
from anabranch.testing.torture.heirs import OWN, with_heirs
from anabranch.testing.torture.history import History, Statement
from anabranch.testing.torture.model import Model
from anabranch.testing.torture.postgresql_tables import create_statements, shape_of
from anabranch.testing.torture.run import Result
from anabranch.testing.torture.shrink import shrink
from anabranch.testing.torture.tables import Column, Schema, Table
from rigs.torture_history import drawn


def histories() -> list[History]:
    return [drawn(seed) for seed in range(120)]


def heirs() -> list[tuple[Schema, Table]]:
    return [(one.schema, table) for one in histories() for table in one.schema.tables if table.inherits]


def test_heirs_of_every_form_are_drawn() -> None:
    """With the parent's key and without, with its foreign and unique keys, with a column of their own, over two levels."""
    found = heirs()
    assert {bool(heir.key) for _, heir in found} == {bool(heir.uniques) for _, heir in found} == {True, False}
    assert {bool(heir.foreign_keys) for _, heir in found} == {OWN in heir.columns for _, heir in found} == {True, False}
    assert any(schema[heir.inherits].inherits for schema, heir in found)
    for schema, heir in found:
        above = schema[heir.inherits]
        assert not shape_of(above) and not shape_of(heir) and heir.columns[: len(above.columns)] == above.columns
        names = [key.name for table in schema.tables for key in table.foreign_keys]
        assert len(set(names)) == len(names)


def test_statements_make_the_parent_first_and_name_no_column_twice() -> None:
    for schema, heir in heirs():
        said = list(create_statements(schema))
        (made,) = (one for one in said if one.startswith(f"CREATE TABLE {heir.name} "))
        assert made.endswith(f") INHERITS ({heir.inherits})") and "v1 " not in made
        (above,) = (one for one in said if one.startswith(f"CREATE TABLE {heir.inherits} "))
        assert said.index(above) < said.index(made)


def test_they_are_written_to_and_read_back() -> None:
    written = [s.table for one in histories() for t in one.after for s in t.statements]
    assert any(name.startswith("h") for name in written)
    for history in histories()[:40]:
        assert History.from_json(json.loads(json.dumps(history.to_json()))) == history


def test_what_else_is_drawn_stays_as_it_was() -> None:
    column = Column("v1", "pg text")
    schema = Schema((Table("t1", (Column("id", "pg integer", nullable=False), column), ("id",), (("id",),)),))
    assert {with_heirs(schema, seed) == schema for seed in range(20)} == {True, False}
    for seed in range(20):
        assert with_heirs(schema, seed).tables[0] == schema.tables[0]


def test_truncate_empties_the_heirs_too() -> None:
    columns = (Column("v1", "pg text"),)
    model = Model(
        Schema((Table("t1", columns), Table("h1", columns, inherits="t1"), Table("t2", columns))), "postgresql"
    )
    for name in ("t1", "h1", "t2"):
        model.execute(Statement("insert", name, ("v1",), (("'a'",),)))
    model.execute(Statement("empty", "t1"))
    assert [model.lines(name) for name in ("t1", "h1", "t2")] == [[], [], [b"a"]]


def test_a_failure_keeps_the_parent_of_the_heir_that_it_needs() -> None:
    history = next(one for one in histories() if any(table.inherits for table in one.schema.tables))

    def run(smaller: History) -> Result:
        fails = any(smaller.schema[s.table].inherits for t in smaller.transactions for s in t.statements if s.table)
        return Result(1, Failure(WRONG, "so") if fails else None, 1, 1, 1, 0.0, (), frozenset())

    small, _ = shrink(history, run, runs=2000)
    (heir,) = (table for table in small.schema.tables if table.inherits)
    assert [table.name for table in small.schema.tables if table is not heir] == [heir.inherits]
