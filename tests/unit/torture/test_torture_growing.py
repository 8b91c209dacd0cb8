"""Columns that are added to tables of a history: drawn, named by no statement before, and as the model has them."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from anabranch.testing.torture.draw import draw_history
from anabranch.testing.torture.growing import grow_sql, growing_faults, may_grow
from anabranch.testing.torture.history import History, Statement, Transaction
from anabranch.testing.torture.model import Model
from anabranch.testing.torture.order import order_in
from anabranch.testing.torture.rows import TableRows
from anabranch.testing.torture.shrink import _only
from anabranch.testing.torture.tables import Column, Schema, Table

VERSIONS = {"mysql": (8, 0, 33), "mariadb": (10, 11, 6)}


def drawn(seed: int, family: str, grows: bool = True) -> History:
    return draw_history(seed, family, VERSIONS[family], grows=grows)


@pytest.fixture(scope="module", params=["mysql", "mariadb"])
def histories(request: pytest.FixtureRequest) -> list[History]:
    return [drawn(seed, request.param) for seed in range(40)]


def names_in(statement: Statement) -> set[str]:
    parts = (statement, *statement.parts)
    assigned = {name for part in parts for name, _ in part.assigned}
    return assigned | {name for part in parts for name in part.columns} | {c.column for p in parts for c in p.where}


def test_columns_are_named_from_their_statement_on(histories: list[History]) -> None:
    used, orders, kinds = 0, set(), set()
    for history in histories:
        assert history.grows and not any(t.alone and t.alone.do == "grow" for t in (*history.before, *history.during))
        hidden = {(t.name, c.name) for t in history.schema.tables for c in t.columns if c.added}
        for transaction in history.transactions:
            for statement in transaction.statements:
                if statement.do == "grow":
                    assert transaction.alone and not transaction.is_numbered and not transaction.truncates
                    hidden -= {(statement.table, name) for name in statement.columns}
                    orders.add(statement.order.partition(" ")[0])
                    kinds |= {history.schema[statement.table].column(name).kind for name in statement.columns}
                else:
                    for part in (statement, *statement.parts):
                        named = {(part.table, name) for name in names_in(part)}
                        assert not named & hidden
                        used += any(name in ("v8", "v9") for _, name in named)
        assert not hidden
    assert used > 100 and orders == {"", "FIRST", "AFTER"} and len(kinds) > 20


def test_others_are_as_they_were_and_all_are_read_back(histories: list[History]) -> None:
    for history in histories:
        assert History.from_json(json.loads(json.dumps(history.to_json()))) == history
    assert not drawn(3, "mysql", grows=False).grows
    assert 0.2 < sum(map(may_grow, range(1000))) / 1000 < 0.4
    assert {len(growing_faults(history)) for history in histories} == {0, 1}
    assert growing_faults(drawn(3, "mysql", grows=False)) == ()


def test_what_is_said_and_found_in_the_log() -> None:
    column = Column("v8", "int", nullable=False, default="5", added=True)
    table = Table("t1", (Column("id", "int"), column, Column("v9", "date", added=True)), ("id",))
    said = grow_sql(table, Statement("grow", "t1", ("v8", "v9"), order="FIRST"), 12, "utf8mb4_bin")
    assert said == "ALTER /* 12 */ TABLE t1 ADD COLUMN v8 int NOT NULL DEFAULT 5 FIRST, ADD COLUMN v9 date FIRST"
    assert order_in(f"BEGIN\n{said}\n/*!*/;\nTRUNCATE TABLE t1 /* 13 */\nALTER TABLE t1 ADD x int".encode(), "d") == [
        12,
        13,
    ]
    one = Transaction(12, 0, (Statement("grow", "t1", ("v8",)),))
    assert _only(one, set()) == one
    assert column.before() == "5" and replace(column, default=None, nullable=True).before() is None
    assert [c.name for c in Schema((table,)).at_first["t1"].columns] == ["id"]


def test_rows_have_the_default_from_the_beginning() -> None:
    columns = (Column("id", "int", nullable=False), Column("v8", "int", default="5", added=True))
    model = Model(Schema((Table("t1", columns, ("id",)),)), "mysql")
    model.execute(Statement("insert", "t1", ("id",), (("1",),)))
    model.replay([(Statement("grow", "t1", ("v8",)), 1)])
    model.execute(Statement("insert", "t1", ("id", "v8"), (("2", "7"),)))
    assert model.lines("t1") == [b"1\t5", b"2\t7"]


def test_at_a_postgresql_they_are_added_inside_transactions() -> None:
    """Alone, and in front of, behind and between rows; no table is emptied whose rows' values nobody could tell."""
    found = [draw_history(seed, "postgresql", (18, 4), grows=True) for seed in range(40)]
    places = set()
    for history in found:
        assert History.from_json(json.loads(json.dumps(history.to_json()))) == history
        for transaction in history.after:
            does = [statement.do for statement in transaction.statements]
            assert transaction.alone is None and transaction.is_numbered
            if "add" in does:
                at = does.index("add")
                places.add((at > 0, at + 1 < len(does)))
        untold = {table.name for table in history.schema.tables if not table.may_be_emptied}
        emptied = {
            p.table for t in history.transactions for s in t.statements for p in (s, *s.parts) if p.do == "empty"
        }
        assert not untold & emptied
    assert places == {(False, False), (False, True), (True, False), (True, True)}
    assert not any(h.grows for h in [draw_history(3, "postgresql", (15, 0), grows=True, decoder="wal2json")])


def test_rows_of_a_log_from_before_a_column_have_its_default() -> None:
    columns = (Column("id", "int", nullable=False), Column("v8", "int", default="5", added=True))
    rows = TableRows(Table("t1", columns), ())
    assert rows.changed(None, {"id": "1"}) == ("1", "5") and rows.changed(("1", "7"), {"id": "2"}) == ("2", "7")
    rows.put(1, ("1", "5"))
    assert rows.named({"id": "1"}) == 1
