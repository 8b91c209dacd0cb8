"""Columns of a history that are dropped, renamed or defined anew: drawn, named as they are then, and as the model has them."""

from __future__ import annotations

import json

import pytest

from anabranch.testing.torture.altering import alter_sql
from anabranch.testing.torture.check import BACK, WRONG, Checker
from anabranch.testing.torture.draw import draw_history
from anabranch.testing.torture.history import History, Statement, Transaction
from anabranch.testing.torture.model import Model
from anabranch.testing.torture.order import order_in
from anabranch.testing.torture.sources import Commits
from anabranch.testing.torture.speaker import COMMITTED, Outcome, Result
from anabranch.testing.torture.tables import (
    DEFAULTED,
    DROPPED,
    LEDGER,
    NULLABLE,
    RENAMED,
    WIDENED,
    Column,
    Schema,
    Table,
    column_sql,
)
from rigs.torture_history import seen

VERSIONS = {"mysql": (8, 0, 33), "mariadb": (10, 11, 6)}
EXACT = "utf8mb4_bin"


@pytest.fixture(scope="module", params=["mysql", "mariadb"])
def histories(request: pytest.FixtureRequest) -> list[History]:
    found = [draw_history(seed, request.param, VERSIONS[request.param], grows=True) for seed in range(60)]
    return [history for history in found if any(c.altered for t in history.schema.tables for c in t.columns)]


def named(statement: Statement) -> set[tuple[str, str]]:
    parts = (statement, *statement.parts)
    return {
        (part.table, name)
        for part in parts
        for name in (*part.columns, *(name for name, _ in part.assigned), *(c.column for c in part.where))
    }


def test_columns_have_the_name_of_their_time(histories: list[History]) -> None:
    changes, used = set(), 0
    for history in histories:
        assert History.from_json(json.loads(json.dumps(history.to_json()))) == history
        columns = {(t.name, c.name): c for t in history.schema.tables for c in t.columns if c.altered}
        away = {(table, c.next_name) for (table, _), c in columns.items() if c.altered == RENAMED}
        for statement in (s for t in history.transactions for s in t.statements):
            changed = {c.altered for c in history.schema[statement.table].columns} if statement.table else set()
            assert statement.do != "ignore" or changed.isdisjoint((NULLABLE, WIDENED))
            if statement.do != "alter":
                assert not named(statement) & away
                used += any(name[:2] in ("v5", "v6") for _, name in named(statement))
                continue
            place = (statement.table, statement.columns[0])
            column = columns.pop(place)
            changes.add((column.altered, statement.name))
            if column.altered in (RENAMED, DROPPED):
                away = (away - {(statement.table, column.next_name)}) | {place}
        assert not columns
    assert used > 200 and {change for change, _ in changes} == {DROPPED, RENAMED, NULLABLE, DEFAULTED, WIDENED}
    assert {form for _, form in changes} == {"DROP", "RENAME", "CHANGE", "MODIFY", "ALTER"}


@pytest.mark.parametrize(
    ("column", "form", "said", "at_first"),
    [
        (Column("v5", "int", altered=DROPPED), "DROP", "DROP COLUMN v5", "v5 int"),
        (Column("v5", "int", altered=RENAMED), "RENAME", "RENAME COLUMN v5 TO v5n", "v5 int"),
        (Column("v5", "int", altered=RENAMED), "CHANGE", "CHANGE v5 v5n int", "v5 int"),
        (Column("v5", "int", default="1", altered=NULLABLE), "MODIFY", "MODIFY v5 int DEFAULT 1", "v5 int NOT NULL DEFAULT 1"),
        (Column("v5", "int", altered=DEFAULTED, next_default="7"), "ALTER", "ALTER COLUMN v5 SET DEFAULT 7", "v5 int"),
        (Column("v5", "int", altered=DEFAULTED, next_default="7"), "MODIFY", "MODIFY v5 int DEFAULT 7", "v5 int"),
        (Column("v5", "int, widened", altered=WIDENED), "MODIFY", "MODIFY v5 bigint", "v5 int"),
    ],
)  # fmt: skip
def test_what_is_said_and_found_in_the_log(column: Column, form: str, said: str, at_first: str) -> None:
    table = Table("t1", (Column("id", "int", nullable=False), column), ("id",))
    statement = Statement("alter", "t1", ("v5",), name=form)
    whole = alter_sql(table, statement, 12, EXACT)
    assert whole == f"ALTER /* 12 */ TABLE t1 {said}" and order_in(whole.encode(), "d") == [12]
    assert column_sql(table, table.at_first.column("v5"), EXACT) == at_first
    assert not Transaction(12, 0, (statement,)).is_numbered


def test_rows_as_the_model_has_them() -> None:
    columns = (
        Column("id", "int", nullable=False),
        Column("v1", "int", default="5", altered=DROPPED),
        Column("v2", "int", altered=RENAMED),
        Column("v3", "int", default="1", altered=DEFAULTED, next_default="2"),
    )
    model = Model(Schema((Table("t1", columns, ("id",)),)), "mysql")
    model.execute(Statement("insert", "t1", ("id", "v1", "v2"), (("1", "7", "8"),)))
    assert model.lines("t1") == [b"1\t7\t8\t1"]
    model.replay([(Statement("alter", "t1", (name,), name="MODIFY"), 0) for name in ("v1", "v2", "v3")])
    model.execute(Statement("insert", "t1", ("id", "v2n"), (("2", "9"),)))
    assert model.lines("t1") == [b"1\t5\t8\t1", b"2\t5\t9\t2"]


def test_a_column_is_shown_under_the_name_that_is_there() -> None:
    renamed, dropped = Column("v5", "int", altered=RENAMED), Column("v6", "int", altered=DROPPED)
    assert (renamed.shown_as(["v5"]), renamed.shown_as(["v5n"]), renamed.shown_as([])) == ("v5", "v5n", "")
    assert (dropped.shown_as(["v6"]), dropped.shown_as(["v5"])) == ("v6", "")
    assert Column("v1", "int").shown_as([]) == "v1" and Column("v1", "int").varying == ()


def test_a_table_that_was_emptied_by_then_owes_no_wider_type() -> None:
    """Torture seed 45196. At a PostgreSQL a snapshot that is older than the wider type finds the table empty (K16); one that is
    behind a TRUNCATE, which the ledger does not have, finds it empty in its own right."""
    table = Table("t1", (Column("id", "int", nullable=False), Column("v5", "int, widened", altered=WIDENED)), ("id",))
    alone = {3: Statement("truncate", "t1"), 5: Statement("alter", "t1", ("v5",), name="MODIFY")}
    rows = {n: Statement("insert", "t1", ("id",), ((str(n),),)) for n in (1, 2, 4)}
    statements = rows | alone
    history = History(1, Schema((table,)), (), (), tuple(Transaction(n, 0, (statements[n],)) for n in range(1, 6)))
    outcomes = {n: Outcome(n, (Result(0, int(n in rows)),), COMMITTED) for n in statements}

    def failure(*states: tuple[str, str]) -> str:
        judge = Checker(history, "mysql", outcomes, Commits(tuple(range(1, 6))), truncates=False)
        found = judge.observed(
            seen(*({LEDGER: [n.encode() for n in ledger], "t1": [row(n) for n in ids]} for ledger, ids in states))
        )
        return found.kind if found else ""

    def row(number: str) -> bytes:
        return f"{number}\t\\N".encode()

    assert failure(("12", "12"), ("12", ""), ("12", ""), ("124", "4")) == ""
    assert failure(("12", "12"), ("124", ""), ("124", "4")) == ""  # too old for the wider type
    assert failure(("124", ""), ("12", "")) == BACK and failure(("1", ""), ("12", "12")) == WRONG
