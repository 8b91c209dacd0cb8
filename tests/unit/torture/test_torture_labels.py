"""An enum of a history, and labels that are added to it."""

from __future__ import annotations

import json

from anabranch.testing.torture.history import History, Statement
from anabranch.testing.torture.labels import has_labels, with_labels
from anabranch.testing.torture.postgresql_sql import sql
from anabranch.testing.torture.postgresql_tables import create_statements
from anabranch.testing.torture.postgresql_values import LABEL, LABELS
from anabranch.testing.torture.tables import Column, Schema, Table
from rigs.torture_history import drawn


def histories() -> list[History]:
    return [drawn(seed) for seed in range(80)]


def with_their_labels() -> list[History]:
    return [history for history in histories() if has_labels(history.schema)]


def said(history: History) -> list[Statement]:
    return [s for t in history.transactions for s in t.statements]


def test_labels_are_added_and_taken() -> None:
    """Some come before the load, some while it streams, at every place among the others; some are there already."""
    drawn_with = with_their_labels()
    added = [
        s for history in drawn_with for t in (*history.during, *history.after) for s in t.statements if s.do == "label"
    ]
    assert {s.order.partition(" ")[0] for s in added} == {"", "BEFORE", "AFTER"}
    assert {s.name in LABELS for s in added} == {True, False}
    new = {s.name for s in added} - {*LABELS}
    given = {value for history in drawn_with for s in said(history) for row in s.rows for value in row}
    given |= {
        value for history in drawn_with for s in said(history) for _, value in s.assigned if isinstance(value, str)
    }
    assert len(new & given) > 5
    columns = [c for history in drawn_with for t in history.schema.tables for c in t.columns if c.kind == LABEL]
    assert {column.nullable for column in columns} == {column.default is None for column in columns} == {True, False}


def test_what_is_said_of_them() -> None:
    schema = Schema((Table("t1", (Column("v7", LABEL, default="'mid'"),)),))
    assert list(create_statements(schema))[1:3] == [
        "CREATE TYPE mood AS ENUM ('low', 'mid', 'high')",
        "CREATE TABLE t1 (v7 mood DEFAULT 'mid')",
    ]
    assert sql(Statement("label", name="'x 3'", order="BEFORE 'low'"), schema) == (
        "ALTER TYPE mood ADD VALUE IF NOT EXISTS 'x 3' BEFORE 'low'"
    )
    assert sql(Statement("label", name="'x 3'"), schema) == "ALTER TYPE mood ADD VALUE IF NOT EXISTS 'x 3'"


def test_histories_without_the_type_are_as_they_were_and_all_are_read_back() -> None:
    for history in histories():
        assert has_labels(history.schema) or not any(s.do == "label" for s in said(history))
        assert History.from_json(json.loads(json.dumps(history.to_json()))) == history
    schema = Schema((Table("t1", (Column("v1", "pg text"),)),))
    assert {with_labels(schema, seed) == schema for seed in range(20)} == {True, False}
