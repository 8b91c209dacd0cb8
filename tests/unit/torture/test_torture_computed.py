"""Computed columns of a history: where they are drawn, and what the model says of them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace

import pytest

from anabranch.testing.torture.check import WRONG, Failure
from anabranch.testing.torture.computed import with_computed
from anabranch.testing.torture.draw import draw_history
from anabranch.testing.torture.expressions import HOWS, Computed
from anabranch.testing.torture.history import History
from anabranch.testing.torture.model import Model
from anabranch.testing.torture.run import Result
from anabranch.testing.torture.shrink import shrink
from anabranch.testing.torture.tables import CASCADE, RESTRICT, SET_NULL, Column, Schema, Table, create_statements
from anabranch.testing.torture.values import KINDS
from rigs.torture_tables import delete, family, insert, update

VERSIONS = {"mysql": (8, 0, 33), "mariadb": (10, 11, 6)}
SEEDS = range(120)


@pytest.fixture(scope="module", params=sorted(VERSIONS))
def drawn(request: pytest.FixtureRequest) -> list[History]:
    return [draw_history(seed, request.param, VERSIONS[request.param]) for seed in SEEDS]


def computed(histories: list[History]) -> Iterator[tuple[Table, Column, Computed]]:
    for table in (table for history in histories for table in history.schema.tables):
        yield from ((table, column, column.computed) for column in table.columns if column.computed)


def test_all_that_a_key_changes_is_computed_from(drawn: list[History]) -> None:
    """Every expression, over keys with every action, over each other in levels, stored or not, before and behind what they
    are computed from."""
    found = list(computed(drawn))
    assert {one.how for _, _, one in found} == {*HOWS}
    assert {one.is_stored for _, _, one in found} == {True, False}
    actions = {
        (key.on_delete, key.on_update)
        for table, _, one in found
        for key in table.foreign_keys
        if {*key.columns} & {*one.columns}
    }
    assert actions >= {(SET_NULL, CASCADE), (CASCADE, SET_NULL), (RESTRICT, CASCADE), (SET_NULL, RESTRICT)}
    over = [table.column(one.columns[0]).computed for table, _, one in found if one.how == "over"]
    assert any(computed is not None and computed.how == "over" for computed in over)
    assert {table.place(column.name) < table.place(one.columns[0]) for table, column, one in found} == {True, False}


def test_what_the_servers_refuse_is_not_drawn(drawn: list[History]) -> None:
    """A stored column over a key that acts, or over a CHAR, whose spaces depend on the session; one before a computed one that
    it is computed from."""
    for table, column, one in computed(drawn):
        acting = {
            n for k in table.foreign_keys if (k.on_delete, k.on_update) != (RESTRICT, RESTRICT) for n in k.columns
        }
        assert not (one.is_stored and acting & {*one.columns}), table
        assert not (one.is_stored and any(table.column(name).kind == "short text" for name in one.columns)), table
        below = [name for name in one.columns if table.column(name).computed]
        assert all(table.place(name) < table.place(column.name) for name in below), table


def test_no_statement_gives_them_and_they_are_read_back(drawn: list[History]) -> None:
    for history in drawn[:40]:
        assert History.from_json(json.loads(json.dumps(history.to_json()))) == history
        for statement in (s for t in history.transactions for s in t.statements if s.table):
            given = {column.name for column in history.schema[statement.table].given}
            named = {
                *statement.columns,
                *(name for name, _ in statement.assigned),
                *(c.column for c in statement.where),
            }
            assert named <= given


def test_what_else_is_drawn_stays_as_it_was() -> None:
    schema = family()
    assert {with_computed(schema, seed) == schema for seed in range(20)} == {True, False}
    for seed in range(20):
        tables = (replace(table, columns=table.given) for table in with_computed(schema, seed).tables)
        assert Schema(tuple(tables)) == schema


def test_the_model_follows_a_key_that_acts() -> None:
    schema = family(SET_NULL, CASCADE)
    more = (
        Column("c1", "computed text", computed=Computed("word", ("p",))),
        Column("c2", "computed text", computed=Computed("over", ("c1",))),
        Column("c3", "computed number", computed=Computed("crc", ("p",))),
        Column("c4", "computed text", computed=Computed("joined", ("id", "p"))),
    )
    tables = (replace(t, columns=(*more, *t.columns)) if t.name == "child" else t for t in schema.tables)
    made = Model(Schema(tuple(tables)), "mysql")
    for statement in (insert("parent", ("1", "1", None), ("2", "1", None)), insert("child", ("1", "1"), ("2", "2"))):
        made.execute(statement)
    assert made.lines("child")[0].split(b"\t") == [b"b1", b"<b1>", b"1204558816", b"1/1", b"1", b"1"]
    made.execute(update("parent", "1", id="7"))
    made.execute(delete("parent", "2"))
    moved, cleared = (line.decode().split("\t") for line in reversed(made.lines("child")))
    assert moved[:2] == ["b7", "<b7>"] and moved[3:] == ["1/7", "1", "7"]
    assert cleared == ["\\N", "<?>", "\\N", "2", "2", "\\N"]


def test_texts_are_as_the_source_prints_what_they_are_computed_from() -> None:
    moment, bits = KINDS["moment"], KINDS["bytes"]
    assert Computed("word", ("m",)).text([moment], ["2024-02-29 12:00:00.1"]) == "b2024-02-29 12:00:00.100000"
    assert Computed("word", ("m",)).text([moment], ["2024-01-01 00:00:01"]) == "b2024-01-01 00:00:01.000000"
    assert Computed("word", ("x",)).text([bits], ["\\x00ff"]) == "b00FF"
    assert Computed("word", ("x",)).sql([bits]) == "AS (CONCAT('b', HEX(x))) VIRTUAL"
    said = "\n".join(create_statements(draw_history(1, "mysql", VERSIONS["mysql"]).schema, "mysql", VERSIONS["mysql"]))
    assert " VIRTUAL" in said and "{exact}" not in said


def test_what_a_failure_does_not_need_is_left_out() -> None:
    def is_there(history: History) -> bool:
        return any(one.how == "over" for _, _, one in computed([history]))

    def run(history: History) -> Result:
        failure = Failure(WRONG, "so") if is_there(history) else None
        return Result(1, failure, 1, 1, 1, 0.0, (), frozenset())

    history = next(h for n in SEEDS if is_there(h := draw_history(n, "mysql", VERSIONS["mysql"])))
    small, _ = shrink(history, run, runs=2000)
    assert sorted(one.how == "over" for _, _, one in computed([small])) == [False, True]
