"""Foreign-key actions that the log does not show, done at a real PostgreSQL whose own keys are off (K1)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pytest

from anabranch.connectors.postgresql.target.apply import PostgresWriter
from anabranch.connectors.postgresql.target.store import PostgresStore
from anabranch.contracts import ValueRules
from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.endpoint import Endpoint
from anabranch.model.ids import TableId
from anabranch.model.position import Position
from anabranch.model.state import Checkpoint
from anabranch.rows.net import Cascade, CascadeAction, CascadeRule, TargetTable

INT = LogicalType(Kind.INT32)
DELETE, SET_NULL, UPDATE = CascadeAction.DELETE, CascadeAction.SET_NULL, CascadeAction.UPDATE


def table(name: str, *columns: str) -> TargetTable:
    names = ("id", *columns)
    return TargetTable(TableId("shop", name), TableId("public", name), names, (INT,) * len(names), ("id",))


A, B, C, D = table("a"), table("b", "a"), table("c", "b"), table("d", "c")
TREE = table("tree", "up")
PAIRS, PARTS = table("pairs", "x", "y"), table("parts", "x", "y")


def rule(
    child: TargetTable, column: str, parent: TargetTable, delete: CascadeAction | None, update: CascadeAction | None
) -> CascadeRule:
    return CascadeRule(child, (column,), parent, ("id",), delete, update)


@pytest.fixture
def writer(target_database: Any) -> Iterator[PostgresWriter]:
    url = urlsplit(target_database.url)
    user, password = unquote(url.username or ""), unquote(url.password or "")
    endpoint = Endpoint("postgresql", url.hostname or "", url.port or 0, user, password, unquote(url.path[1:]))
    store = PostgresStore(endpoint)
    store.prepare()
    store.create_checkpoint("shop", Position(0), 0)
    store.close()
    target_database.execute(
        "CREATE TABLE a (id int PRIMARY KEY)",
        "CREATE TABLE b (id int PRIMARY KEY, a int REFERENCES a ON DELETE CASCADE)",
        "CREATE TABLE c (id int PRIMARY KEY, b int REFERENCES b)",
        "CREATE TABLE d (id int PRIMARY KEY, c int)",
        "CREATE TABLE tree (id int PRIMARY KEY, up int)",
        "CREATE TABLE pairs (id int PRIMARY KEY, x int, y int)",
        "CREATE TABLE parts (id int PRIMARY KEY, x int, y int)",
        "INSERT INTO a SELECT generate_series(1, 3)",
        "INSERT INTO b SELECT i, 1 + i % 3 FROM generate_series(1, 9) i",
        "INSERT INTO c SELECT i, 1 + i % 9 FROM generate_series(1, 27) i",
        "INSERT INTO d SELECT i, 1 + i % 27 FROM generate_series(1, 81) i",
    )
    made = PostgresWriter(endpoint, ValueRules(), True)
    at = made.claim("shop", "me")
    assert made.begin(at, Checkpoint("me", 1, Position(1))) == "open"
    yield made
    made.close()


def parents(column: str, *values: int) -> pa.Table:
    return pa.table({column: pa.array(values, pa.int32())})


def run(writer: PostgresWriter, cascade: Cascade, *rules: CascadeRule) -> None:
    writer.cascade(cascade, rules)
    writer.commit()


def test_rule_01_delete_over_three_levels(writer: PostgresWriter, target_database: Any) -> None:
    rules = (rule(B, "a", A, DELETE, None), rule(C, "b", B, DELETE, None), rule(D, "c", C, DELETE, None))
    run(writer, Cascade(B, ("a",), DELETE, parents("a", 1, 2)), *rules)
    assert target_database.query("SELECT count(*) FROM b WHERE a IN (1, 2)") == [(0,)]
    assert target_database.query("SELECT count(*) FROM b") == [(3,)]
    assert target_database.query("SELECT count(*) FROM c") == [(9,)]
    assert target_database.query("SELECT count(*) FROM d") == [(27,)]
    assert target_database.query("SELECT count(*) FROM d LEFT JOIN c ON c.id = d.c WHERE c.id IS NULL") == [(0,)]


def test_rule_01_delete_then_set_null(writer: PostgresWriter, target_database: Any) -> None:
    rules = (rule(C, "b", B, SET_NULL, None), rule(D, "c", C, DELETE, None))
    run(writer, Cascade(B, ("a",), DELETE, parents("a", 1)), *rules)
    assert target_database.query("SELECT count(*), count(b) FROM c") == [(27, 18)]
    assert target_database.query("SELECT count(*) FROM d") == [(81,)]


def test_rule_01_a_restricting_child_is_left_alone(writer: PostgresWriter, target_database: Any) -> None:
    run(writer, Cascade(B, ("a",), DELETE, parents("a", 1)), rule(C, "b", B, None, None))
    assert target_database.query("SELECT count(*), count(b) FROM c") == [(27, 27)]


def test_rule_01_pitfall_16_self_reference_deletes_the_subtree(writer: PostgresWriter, target_database: Any) -> None:
    target_database.execute("INSERT INTO tree SELECT i, nullif(i / 2, 0) FROM generate_series(1, 63) i")
    run(writer, Cascade(TREE, ("up",), DELETE, parents("up", 2)), rule(TREE, "up", TREE, DELETE, None))
    kept = {i for i in range(1, 64) if i == 2 or f"{i:b}"[:2] != "10"}
    assert {row[0] for row in target_database.query("SELECT id FROM tree")} == kept


def test_rule_01_a_ring_ends(writer: PostgresWriter, target_database: Any) -> None:
    target_database.execute("INSERT INTO tree VALUES (1, 3), (2, 1), (3, 2), (4, 4)")
    run(writer, Cascade(TREE, ("up",), DELETE, parents("up", 1)), rule(TREE, "up", TREE, DELETE, None))
    assert target_database.query("SELECT id FROM tree") == [(4,)]


def test_rule_01_a_deep_chain(writer: PostgresWriter, target_database: Any) -> None:
    target_database.execute("INSERT INTO tree SELECT i, i - 1 FROM generate_series(2, 120) i")
    run(writer, Cascade(TREE, ("up",), DELETE, parents("up", 1)), rule(TREE, "up", TREE, DELETE, None))
    assert target_database.query("SELECT id FROM tree") == []


def test_rule_01_updates_follow_shared_columns_and_swap(writer: PostgresWriter, target_database: Any) -> None:
    """b refers to a by its own key: d, which refers to b's key, follows; values may swap."""
    shared = (CascadeRule(PARTS, ("x",), PAIRS, ("x",), None, UPDATE),)
    target_database.execute("INSERT INTO pairs VALUES (1, 1, 0), (2, 2, 0), (3, 3, 0)")
    target_database.execute("INSERT INTO parts VALUES (1, 1, 0), (2, 2, 0), (3, 3, 0)")
    swap = Cascade(PAIRS, ("x",), UPDATE, parents("x", 1, 2), parents("x", 2, 1))
    run(writer, swap, *shared)
    assert target_database.query("SELECT id, x FROM pairs ORDER BY id") == [(1, 2), (2, 1), (3, 3)]
    assert target_database.query("SELECT id, x FROM parts ORDER BY id") == [(1, 2), (2, 1), (3, 3)]


def test_rule_01_rule_08_unique_values_are_handed_on_from_child_to_child(
    writer: PostgresWriter, target_database: Any
) -> None:
    """Parents shift their keys; of each there is one child, whose key it is, or whose unique value, over two levels."""
    target_database.execute(
        "CREATE TABLE single (id int PRIMARY KEY, x int UNIQUE, extra text)",
        "INSERT INTO single SELECT i, i, 'of ' || i FROM generate_series(1, 40) i",
        "ALTER TABLE parts ADD UNIQUE (x), ADD extra text",
        "INSERT INTO parts SELECT i, i, 0, 'of ' || i FROM generate_series(1, 40) i",
    )
    single = table("single", "x")
    follow = CascadeRule(PARTS, ("x",), single, ("id",), None, UPDATE)
    shift = Cascade(single, ("id",), UPDATE, parents("id", *range(1, 41)), parents("id", *range(2, 42)))
    run(writer, shift, follow)
    expected = [(i + 1, i, f"of {i}") for i in range(1, 41)]
    assert target_database.query("SELECT id, x, extra FROM single ORDER BY id") == expected
    assert target_database.query("SELECT x, id, extra FROM parts ORDER BY id") == expected


def test_rule_01_set_null_carries_on_as_null(writer: PostgresWriter, target_database: Any) -> None:
    target_database.execute("INSERT INTO pairs VALUES (1, 1, 7), (2, 2, 7)", "INSERT INTO parts VALUES (1, 1, 7)")
    follow = CascadeRule(PARTS, ("x", "y"), PAIRS, ("x", "y"), None, UPDATE)
    run(writer, Cascade(PAIRS, ("x",), SET_NULL, parents("x", 1)), follow)
    assert target_database.query("SELECT id, x, y FROM pairs ORDER BY id") == [(1, None, 7), (2, 2, 7)]
    assert target_database.query("SELECT x, y FROM parts") == [(None, 7)]


def test_rule_01_an_update_enters_no_table_twice(writer: PostgresWriter, target_database: Any) -> None:
    target_database.execute("INSERT INTO pairs VALUES (1, 1, 0)", "INSERT INTO parts VALUES (1, 1, 0)")
    ring = (
        CascadeRule(PARTS, ("x",), PAIRS, ("x",), None, UPDATE),
        CascadeRule(PAIRS, ("x",), PARTS, ("x",), None, UPDATE),
    )
    run(writer, Cascade(PAIRS, ("x",), UPDATE, parents("x", 1), parents("x", 2)), *ring)
    assert target_database.query("SELECT pairs.x, parts.x FROM pairs, parts") == [(2, 2)]


def test_rule_01_composite_keys_and_nulls(writer: PostgresWriter, target_database: Any) -> None:
    target_database.execute("INSERT INTO parts VALUES (1, 1, 1), (2, 1, NULL), (3, NULL, 1), (4, 1, 2)")
    gone = pa.table({"y": pa.array([1], pa.int32()), "x": pa.array([1], pa.int32())})
    run(writer, Cascade(PARTS, ("x", "y"), DELETE, gone))
    assert target_database.query("SELECT id FROM parts ORDER BY id") == [(2,), (3,), (4,)]


def test_rule_01_what_the_target_did_itself_is_no_conflict(writer: PostgresWriter, target_database: Any) -> None:
    run(writer, Cascade(B, ("a",), DELETE, parents("a", 77)), rule(C, "b", B, DELETE, None))
    assert target_database.query("SELECT count(*) FROM b") == [(9,)]
