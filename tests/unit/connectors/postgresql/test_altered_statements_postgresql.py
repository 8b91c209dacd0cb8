"""Statements that alter a table at a PostgreSQL."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from anabranch.connectors.postgresql.target.altered_columns import statements
from anabranch.connectors.postgresql.target.label_checks import LabelCheck, read_check
from anabranch.contracts import Conflict, ValueRules
from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.ids import TableId
from anabranch.model.schema import Column, TableSchema
from anabranch.rows.altered import (
    AlteredTable,
    ColumnAdded,
    ColumnDropped,
    ColumnRenamed,
    ColumnRetyped,
    DefaultChanged,
    NullabilityChanged,
    Step,
)
from anabranch.rows.net import TargetTable

INT, LONG, LABELS = LogicalType(Kind.INT32), LogicalType(Kind.INT64), LogicalType(Kind.ENUM, values=("b", "a"))
ID, A = Column("id", INT, "int", nullable=False), Column("a", INT, "int", has_default=True)
B, E = replace(A, name="b"), Column("e", LABELS, "enum('b','a')", nullable=False)
AT = "ALTER TABLE there.item "


def altered(now: Sequence[Column], *steps: Step) -> AlteredTable:
    def defined(columns: Sequence[Column]) -> tuple[TableSchema, TargetTable]:
        names, types = tuple(c.name for c in columns), tuple(c.type for c in columns if c.type)
        schema = TableSchema(TableId("shop", "item"), tuple(columns), ("id",))
        return schema, TargetTable(schema.id, TableId("there", "item"), names, types, ("id",), source_columns=names)

    return AlteredTable(*defined((ID, A)), *defined(now), steps)


def told(found: AlteredTable, *checks: LabelCheck) -> list[str]:
    return [one.replace('"', "") for one in statements(found, ValueRules(), 180000, checks)]


@pytest.mark.parametrize(
    ("now", "steps", "expected"),
    [
        ((ID, A, B), [ColumnAdded("b")], [f"{AT}ADD COLUMN b integer"]),
        ((ID, A, replace(B, comment="it's")), [ColumnAdded("b")],
         [f"{AT}ADD COLUMN b integer", "COMMENT ON COLUMN there.item.b IS 'it''s'"]),
        ((ID, A, replace(B, nullable=False, has_default=False)), [ColumnAdded("b", "0")],
         [f"{AT}ADD COLUMN b integer DEFAULT '0' NOT NULL", f"{AT}ALTER COLUMN b DROP DEFAULT"]),
        ((ID, A, E), [ColumnAdded("e", "b")],
         [f"{AT}ADD COLUMN e text CHECK (e IN ('b', 'a', '')) DEFAULT 'b' NOT NULL", f"{AT}ALTER COLUMN e DROP DEFAULT"]),
        ((ID,), [ColumnDropped("a")], [f"{AT}DROP COLUMN a"]),
        ((ID,), [ColumnDropped("a", keeps=True)], [f"{AT}ALTER COLUMN a DROP NOT NULL, ALTER COLUMN a DROP DEFAULT"]),
        ((ID, B), [ColumnRenamed("a", "b")], [f"{AT}RENAME COLUMN a TO b"]),
        ((ID, replace(B, type=LONG, default="7")), [ColumnRenamed("a", "b"), ColumnRetyped("b"), DefaultChanged("b")],
         [f"{AT}RENAME COLUMN a TO b", f"{AT}ALTER COLUMN b TYPE bigint, ALTER COLUMN b SET DEFAULT '7'"]),
        ((ID, replace(A, nullable=False)), [NullabilityChanged("a")], [f"{AT}ALTER COLUMN a SET NOT NULL"]),
        ((ID, A), [DefaultChanged("a")], [f"{AT}ALTER COLUMN a DROP DEFAULT"]),
        ((ID, A), [ColumnRetyped("a")], []),
    ],
)  # fmt: skip
def test_the_steps_are_statements(now: Sequence[Column], steps: list[Step], expected: list[str]) -> None:
    assert told(altered(now, *steps)) == expected


MORE = replace(LABELS, values=("b", "a", "it's"))


def labelled(*steps: Step, name: str = "e") -> AlteredTable:
    """The table, whose column `e` has got a label."""
    found = altered((ID, replace(E, name=name, type=MORE)), *steps)
    types = (INT, LABELS)
    former = replace(found.former_table, columns=("id", "e"), source_columns=("id", "e"), types=types)
    return replace(found, former=replace(found.former, columns=(ID, E)), former_table=former)


def test_a_check_of_labels_gets_those_that_are_appended() -> None:
    check = "CHECK ((e = ANY (ARRAY['b'::text, 'a'::text, ''::text])))"
    found, read = labelled(ColumnRetyped("e")), read_check("e", "item_e_check", check)
    assert read is not None and read.labels == {"b", "a", ""}
    anew = "DROP CONSTRAINT item_e_check, ADD CONSTRAINT item_e_check CHECK (e IN ('b', 'a', 'it''s', ''))"
    assert told(found, read) == [f"{AT}{anew}"]
    assert told(found, replace(read, tail=" NOT VALID")) == [f"{AT}{anew} NOT VALID"]
    renamed = labelled(ColumnRenamed("e", "f"), ColumnRetyped("f"), name="f")
    rename = f"{AT}RENAME COLUMN e TO f"
    assert told(renamed, read) == [rename, f"{AT}{anew.replace('(e IN', '(f IN')}"]
    assert told(found) == told(found, replace(read, column="other")) == []
    assert told(found, replace(read, labels=frozenset(("b", "a", "it's", "", "more")))) == []
    with pytest.raises(Conflict, match="item_e_check of the target's table admits other labels"):
        told(found, replace(read, labels=frozenset(("b", ""))))


@pytest.mark.parametrize(
    ("text", "labels"),
    [
        ("CHECK ((\"E\" = ''::text))", {""}),
        ("CHECK ((e = ANY (ARRAY['it''s, (x)'::text, E'a\\\\b'::text])))", {"it's, (x)", "a\\b"}),
        ("CHECK ((length(e) = 1))", None),
        ("CHECK ((lower(e) = ANY (ARRAY['a'::text, 'b'::text])))", None),
        ("CHECK ((e <> ALL (ARRAY['a'::text, 'b'::text])))", None),
        ("CHECK (((e = 'a'::text) OR (e = 'b'::text)))", None),
        ("CHECK (((e = ANY (ARRAY['a'::text, 'b'::text])) AND (e <> 'a'::text)))", None),
    ],
)
def test_a_check_is_read_where_it_is_a_list(text: str, labels: set[str] | None) -> None:
    found = read_check("e", "c", text)
    assert (found and set(found.labels)) == labels


def test_what_the_target_cannot_have_is_refused() -> None:
    lost = Column("j", LogicalType(Kind.JSON), "json", has_default=True, default="{}")
    with pytest.raises(Conflict, match="rows cannot have the default of j"):
        told(altered((ID, A, lost), ColumnAdded("j")))
    json = replace(A, type=LogicalType(Kind.JSON), native="json", default="{}")
    with pytest.raises(Conflict, match="cannot have its default"):
        told(altered((ID, json), DefaultChanged("a")))
    with pytest.raises(Conflict, match="longer than 63 bytes"):
        told(altered((ID, replace(A, name="x" * 64)), ColumnRenamed("a", "x" * 64)))
