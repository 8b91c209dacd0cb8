"""Foreign-key actions that the log does not show, done at a real MySQL and MariaDB whose own keys are off (K1)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pytest

from anabranch.contracts import Conflict
from anabranch.errors import RowRefused
from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.ids import TableId
from anabranch.rows.lines import escaped_line
from anabranch.rows.net import Cascade, CascadeAction, CascadeRule, Computed, Row, TargetTable
from anabranch.testing.databases import Database
from anabranch.testing.servers import Server
from rigs.mysql_epoch import Epoch, epoch_at

pytestmark = pytest.mark.every_server("fractions")
INT, WORD = LogicalType(Kind.INT32), LogicalType(Kind.TEXT, 20)
DOUBLE, SINGLE = LogicalType(Kind.FLOAT64), LogicalType(Kind.FLOAT32)
DELETE, SET_NULL, UPDATE = CascadeAction.DELETE, CascadeAction.SET_NULL, CascadeAction.UPDATE
Values = Sequence[tuple[object, ...]]


@pytest.fixture
def at(mysql_family: Server, source_database: Callable[[Server], Database]) -> Iterator[Epoch]:
    database = source_database(mysql_family)
    database.execute(
        "CREATE TABLE a (id int PRIMARY KEY)",
        "CREATE TABLE b (id int PRIMARY KEY, a int, FOREIGN KEY (a) REFERENCES a (id) ON DELETE CASCADE)",
        "CREATE TABLE c (id int PRIMARY KEY, b int, FOREIGN KEY (b) REFERENCES b (id))",
        "CREATE TABLE d (id int PRIMARY KEY, c int)",
        "CREATE TABLE tree (id int PRIMARY KEY, up int)",
        "CREATE TABLE pairs (id int PRIMARY KEY, x int, y int)",
        "CREATE TABLE parts (id int PRIMARY KEY, x int, y int)",
        _insert("a", [(i,) for i in range(1, 4)]),
        _insert("b", [(i, 1 + i % 3) for i in range(1, 10)]),
        _insert("c", [(i, 1 + i % 9) for i in range(1, 28)]),
        _insert("d", [(i, 1 + i % 27) for i in range(1, 82)]),
    )
    with epoch_at(database) as made:
        yield made


def _insert(name: str, rows: Values) -> str:
    shown = (", ".join("NULL" if value is None else repr(value) for value in row) for row in rows)
    return f"INSERT INTO {name} VALUES {', '.join(f'({row})' for row in shown)}"


def table(at: Epoch, name: str, *columns: str, type: LogicalType = INT) -> TargetTable:
    names = ("id", *columns)
    types = (INT, *(type for _ in columns))
    return TargetTable(TableId("shop", name), TableId(at.database.name, name), names, types, ("id",), names)


def rule(
    child: TargetTable, column: str, parent: TargetTable, delete: CascadeAction | None, update: CascadeAction | None
) -> CascadeRule:
    return CascadeRule(child, (column,), parent, ("id",), delete, update)


def parents(column: str, *values: int) -> pa.Table:
    return pa.table({column: pa.array(values, pa.int32())})


def run(at: Epoch, cascade: Cascade, *rules: CascadeRule) -> Any:
    return at.run(lambda writer: writer.cascade(cascade, rules))


def abcd(at: Epoch) -> tuple[TargetTable, ...]:
    return table(at, "a"), table(at, "b", "a"), table(at, "c", "b"), table(at, "d", "c")


def test_rule_01_delete_over_three_levels(at: Epoch) -> None:
    a, b, c, d = abcd(at)
    rules = (rule(b, "a", a, DELETE, None), rule(c, "b", b, DELETE, None), rule(d, "c", c, DELETE, None))
    run(at, Cascade(b, ("a",), DELETE, parents("a", 1, 2)), *rules)
    counts = [at.database.query(f"SELECT count(*) FROM {name}")[0][0] for name in "bcd"]
    assert counts == [3, 9, 27]
    assert at.database.query("SELECT count(*) FROM d LEFT JOIN c ON c.id = d.c WHERE c.id IS NULL")[0][0] == 0


def test_rule_01_delete_then_set_null(at: Epoch) -> None:
    _, b, c, d = abcd(at)
    run(at, Cascade(b, ("a",), DELETE, parents("a", 1)), rule(c, "b", b, SET_NULL, None), rule(d, "c", c, DELETE, None))
    assert at.database.query("SELECT count(*), count(b) FROM c") == [(27, 18)]
    assert at.database.query("SELECT count(*) FROM d") == [(81,)]


def test_rule_01_a_restricting_child_is_left_alone(at: Epoch) -> None:
    _, b, c, _ = abcd(at)
    run(at, Cascade(b, ("a",), DELETE, parents("a", 1)), rule(c, "b", b, None, None))
    assert at.database.query("SELECT count(*), count(b) FROM c") == [(27, 27)]


def test_rule_01_pitfall_16_self_reference_deletes_the_subtree(at: Epoch) -> None:
    at.database.execute(_insert("tree", [(i, i // 2 or None) for i in range(1, 64)]))
    tree = table(at, "tree", "up")
    run(at, Cascade(tree, ("up",), DELETE, parents("up", 2)), rule(tree, "up", tree, DELETE, None))
    kept = {i for i in range(1, 64) if i == 2 or f"{i:b}"[:2] != "10"}
    assert {row[0] for row in at.database.query("SELECT id FROM tree")} == kept


def test_rule_01_a_ring_ends(at: Epoch) -> None:
    at.database.execute(_insert("tree", [(1, 3), (2, 1), (3, 2), (4, 4)]))
    tree = table(at, "tree", "up")
    run(at, Cascade(tree, ("up",), DELETE, parents("up", 1)), rule(tree, "up", tree, DELETE, None))
    assert at.database.query("SELECT id FROM tree") == [(4,)]


def test_rule_01_a_deep_chain_and_more_values_than_one_statement_has(at: Epoch) -> None:
    at.database.execute(_insert("tree", [(i, i - 1) for i in range(2, 120)]))
    tree = table(at, "tree", "up")
    down = rule(tree, "up", tree, DELETE, None)
    run(at, Cascade(tree, ("up",), DELETE, parents("up", 1)), down)
    assert at.database.query("SELECT id FROM tree") == []
    at.database.execute(_insert("tree", [(i, i - 1000) for i in range(1001, 3001)]))
    run(at, Cascade(tree, ("up",), DELETE, parents("up", *range(1, 1001))), down)
    assert at.database.query("SELECT id FROM tree") == []


def test_rule_01_updates_follow_shared_columns_and_swap(at: Epoch) -> None:
    pairs, parts = table(at, "pairs", "x", "y"), table(at, "parts", "x", "y")
    shared = CascadeRule(parts, ("x",), pairs, ("x",), None, UPDATE)
    at.database.execute(
        _insert("pairs", [(1, 1, 0), (2, 2, 0), (3, 3, 0)]), _insert("parts", [(1, 1, 0), (2, 2, 0), (3, 3, 0)])
    )
    run(at, Cascade(pairs, ("x",), UPDATE, parents("x", 1, 2), parents("x", 2, 1)), shared)
    for name in ("pairs", "parts"):
        assert at.database.query(f"SELECT id, x FROM {name} ORDER BY id") == [(1, 2), (2, 1), (3, 3)]


@pytest.mark.every_server("generated columns")
def test_rule_01_rule_08_unique_values_are_handed_on_from_child_to_child(at: Epoch) -> None:
    """Parents shift their keys; of each there is one child, whose key it is, or whose unique value, over two levels. What the
    job does not write stays: a computed column, a time that would move by itself."""
    at.database.execute(
        "CREATE TABLE single (id int PRIMARY KEY, x int UNIQUE, extra varchar(9), twice int AS (x + x) STORED,"
        " at timestamp NOT NULL DEFAULT '2001-02-03' ON UPDATE CURRENT_TIMESTAMP)",
        *(f"INSERT INTO single (id, x, extra) VALUES ({i}, {i}, 'of {i}')" for i in range(1, 41)),
        "ALTER TABLE parts ADD UNIQUE (x), ADD extra varchar(9)",
        *(f"INSERT INTO parts VALUES ({i}, {i}, 0, 'of {i}')" for i in range(1, 41)),
    )
    single, parts = table(at, "single", "x"), table(at, "parts", "x", "y")
    follow = CascadeRule(parts, ("x",), single, ("id",), None, UPDATE)
    shift = Cascade(single, ("id",), UPDATE, parents("id", *range(1, 41)), parents("id", *range(2, 42)))
    run(at, shift, follow)
    expected = [(i + 1, i, f"of {i}") for i in range(1, 41)]
    assert at.database.query("SELECT id, x, extra FROM single ORDER BY id") == expected
    assert at.database.query("SELECT x, id, extra FROM parts ORDER BY id") == expected
    assert at.database.query("SELECT count(*) FROM single WHERE year(at) = 2001 AND twice = 2 * x") == [(40,)]


def test_rule_01_children_that_a_trigger_would_see_leave_go_one_by_one(at: Epoch) -> None:
    at.database.execute(
        "ALTER TABLE parts ADD UNIQUE (x)",
        _insert("parts", [(1, 1, 0), (2, 2, 0)]),
        "CREATE TRIGGER sees BEFORE DELETE ON parts FOR EACH ROW SET @seen = 1",
    )
    parts = table(at, "parts", "x", "y")
    with pytest.raises(Conflict, match="hand unique values on"):
        run(at, Cascade(parts, ("x",), UPDATE, parents("x", 1, 2), parents("x", 2, 1)))
    at.writer.rollback()


def test_rule_01_pitfall_50_times_that_move_by_themselves_do_not_by_a_key(at: Epoch) -> None:
    at.database.execute(
        "ALTER TABLE parts ADD at timestamp NOT NULL DEFAULT '2001-02-03' ON UPDATE CURRENT_TIMESTAMP",
        "INSERT INTO parts (id, x, y) VALUES (1, 1, 0), (2, 2, 0)",
    )
    parts = table(at, "parts", "x", "y")
    run(at, Cascade(parts, ("x",), UPDATE, parents("x", 1), parents("x", 9)))
    run(at, Cascade(parts, ("x",), SET_NULL, parents("x", 2)))
    assert at.database.query("SELECT x, year(at) FROM parts ORDER BY id") == [(9, 2001), (None, 2001)]


def test_rule_01_set_null_carries_on_as_null(at: Epoch) -> None:
    at.database.execute(_insert("pairs", [(1, 1, 7), (2, 2, 7)]), _insert("parts", [(1, 1, 7)]))
    pairs, parts = table(at, "pairs", "x", "y"), table(at, "parts", "x", "y")
    follow = CascadeRule(parts, ("x", "y"), pairs, ("x", "y"), None, UPDATE)
    run(at, Cascade(pairs, ("x",), SET_NULL, parents("x", 1)), follow)
    assert at.database.query("SELECT id, x, y FROM pairs ORDER BY id") == [(1, None, 7), (2, 2, 7)]
    assert at.database.query("SELECT x, y FROM parts") == [(None, 7)]


def test_rule_01_an_update_enters_no_table_twice(at: Epoch) -> None:
    at.database.execute(_insert("pairs", [(1, 1, 0)]), _insert("parts", [(1, 1, 0)]))
    pairs, parts = table(at, "pairs", "x", "y"), table(at, "parts", "x", "y")
    ring = (
        CascadeRule(parts, ("x",), pairs, ("x",), None, UPDATE),
        CascadeRule(pairs, ("x",), parts, ("x",), None, UPDATE),
    )
    run(at, Cascade(pairs, ("x",), UPDATE, parents("x", 1), parents("x", 2)), *ring)
    assert at.database.query("SELECT pairs.x, parts.x FROM pairs, parts") == [(2, 2)]


def test_rule_01_composite_keys_and_nulls(at: Epoch) -> None:
    at.database.execute(_insert("parts", [(1, 1, 1), (2, 1, None), (3, None, 1), (4, 1, 2)]))
    parts = table(at, "parts", "x", "y")
    both = {"y": pa.array([1, 2], pa.int32()), "x": pa.array([1, 1], pa.int32())}
    new = {"y": pa.array([2, 1], pa.int32()), "x": pa.array([5, 6], pa.int32())}
    run(at, Cascade(parts, ("x", "y"), UPDATE, pa.table(both), pa.table(new)))
    assert at.database.query("SELECT id, x, y FROM parts ORDER BY id") == [
        (1, 5, 2),
        (2, 1, None),
        (3, None, 1),
        (4, 6, 1),
    ]
    gone = pa.table({"y": pa.array([2], pa.int32()), "x": pa.array([5], pa.int32())})
    run(at, Cascade(parts, ("x", "y"), DELETE, gone))
    assert at.database.query("SELECT id FROM parts ORDER BY id") == [(2,), (3,), (4,)]


def test_rule_01_what_the_target_did_itself_is_no_conflict(at: Epoch) -> None:
    _, b, c, _ = abcd(at)
    run(at, Cascade(b, ("a",), DELETE, parents("a", 77)), rule(c, "b", b, DELETE, None))
    assert at.database.query("SELECT count(*) FROM b") == [(9,)]


def test_rule_01_pitfall_36_children_are_found_by_the_targets_collation(at: Epoch) -> None:
    """Find children whose texts the source took for equal: letters of either case, a blank at the end."""
    at.database.execute(
        "CREATE TABLE words (id int PRIMARY KEY, w varchar(20) COLLATE utf8mb4_general_ci)",
        "INSERT INTO words VALUES (1, 'a'), (2, 'A '), (3, 'b'), (4, 'é'), (5, 'o''\\\\%s')",
        "CREATE TABLE below (id int PRIMARY KEY, w varchar(20) COLLATE utf8mb4_general_ci)",
        "INSERT INTO below VALUES (1, 'A'), (2, 'B')",
    )
    words, below = table(at, "words", "w", type=WORD), table(at, "below", "w", type=WORD)
    follow = CascadeRule(below, ("w",), words, ("w",), None, UPDATE)
    old, new = pa.table({"w": ["a", "b", "o'\\%s"]}), pa.table({"w": ["B", "a", "ü%s'\\"]})
    cascade = Cascade(words, ("w",), UPDATE, old, new, tells_keys=True)
    assert [row["id"] for row in run(at, cascade, follow)] == ["1", "2", "3", "5"]
    assert at.database.query("SELECT w FROM words ORDER BY id") == [("B",), ("B",), ("a",), ("é",), ("ü%s'\\",)]
    assert at.database.query("SELECT w FROM below ORDER BY id") == [("B",), ("a",)]
    spelled = Cascade(words, ("w",), UPDATE, pa.table({"w": ["B"]}), pa.table({"w": ["b"]}))
    run(at, spelled, follow)
    assert at.database.query("SELECT w FROM words WHERE id < 3") == [("b",), ("b",)]


@pytest.mark.parametrize(
    ("olds", "news"), [(["a"], ["abc  "]), (["a", "b"], ["b", "abc  "])], ids=["given", "handed on"]
)
def test_rule_01_blanks_for_which_a_child_has_no_room_are_a_conflict(
    at: Epoch, olds: list[str], news: list[str]
) -> None:
    """The server cuts them with no more than a note."""
    at.database.execute(
        "CREATE TABLE words (id int PRIMARY KEY, w varchar(3) COLLATE utf8mb4_bin)",
        "INSERT INTO words VALUES (1, 'a'), (2, 'b')",
    )
    cascade = Cascade(table(at, "words", "w", type=WORD), ("w",), UPDATE, pa.table({"w": olds}), pa.table({"w": news}))
    with pytest.raises(Conflict):
        at.run(lambda writer: writer.cascade(cascade, ()))
    at.again()
    assert at.database.query("SELECT w FROM words ORDER BY id") == [("a",), ("b",)]


def test_rule_01_of_rows_that_go_only_the_children_are_changed(at: Epoch) -> None:
    at.database.execute(
        _insert("tree", [(1, None), (2, 1), (3, 2), (4, None)]), _insert("pairs", [(i, i, 0) for i in range(1, 5)])
    )
    tree, pairs = table(at, "tree", "up"), table(at, "pairs", "x", "y")
    rules = (rule(tree, "up", tree, DELETE, None), CascadeRule(pairs, ("x",), tree, ("id",), DELETE, None))
    run(at, Cascade(tree, ("up",), DELETE, parents("up", 1), spares_children=True), *rules)
    assert at.database.query("SELECT id FROM tree ORDER BY id") == [(1,), (2,), (3,), (4,)]
    assert at.database.query("SELECT x FROM pairs ORDER BY id") == [(1,), (4,)]


def test_rule_01_computed_columns_are_asked_of_the_source(at: Epoch) -> None:
    """Floats are the same number at both ends, which print them otherwise: 1e+300, 0.3."""
    at.database.execute(
        "ALTER TABLE parts ADD d double, ADD f float, ADD made varchar(20)",
        "INSERT INTO parts VALUES (1, 1, 7, 1e300, 0.3, 'old'), (2, 2, 7, NULL, 1e-9, 'old')",
    )
    names, types = ("id", "x", "y", "d", "f", "made"), (INT, INT, INT, DOUBLE, SINGLE, WORD)
    parts = TargetTable(TableId("shop", "parts"), TableId(at.database.name, "parts"), names, types, ("id",), names)
    as_printed = {"1": ("1e+300", "0.3"), "2": (None, "1e-9")}
    asked: list[Row] = []

    def compute(rows: Sequence[Row]) -> Iterator[bytes]:
        asked.extend(rows)
        for row in rows:
            yield escaped_line((row["x"], row["y"], *as_printed[str(row["id"])], f"{row['x']}+{row['y']}"))

    def silent(rows: Sequence[Row]) -> Iterator[bytes]:
        yield from ()

    told = {parts.source: Computed(parts, ("made",), ("x", "y", "d", "f"), compute)}
    run(at, Cascade(parts, ("x",), UPDATE, parents("x", 1), parents("x", 5), computed=told))
    run(at, Cascade(parts, ("x",), SET_NULL, parents("x", 2), computed=told))
    assert at.database.query("SELECT x, made FROM parts ORDER BY id") == [(5, "5+7"), (None, "None+7")]
    assert [(row["id"], row["x"], row["y"]) for row in asked] == [("1", "5", "7"), ("2", None, "7")]
    untold = {parts.source: Computed(parts, ("made",), ("x", "y"), silent, "do so")}
    with pytest.raises(RowRefused, match=r"did not say what made of the row id=1 is then"):
        run(at, Cascade(parts, ("x",), SET_NULL, parents("x", 5), computed=untold))
    at.writer.rollback()
