"""Statements that alter a table at a MySQL or MariaDB, and what keeps it from being altered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from anabranch.connectors.mysql.target import altered_checks, altered_columns, altered_comments, altering_plan, restated
from anabranch.connectors.mysql.target.release import Release
from anabranch.connectors.mysql.target.structures import ExistingColumn, ExistingIndex, ExistingTable, ExistingTrigger
from anabranch.contracts import Conflict, ValueRules
from anabranch.model.check_changes import CheckChanges
from anabranch.model.comment_changes import CommentChanges
from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.ids import TableId
from anabranch.model.schema import Check, Column, TableSchema
from anabranch.model.term import Term
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

INT, LONG, TEXT = LogicalType(Kind.INT32), LogicalType(Kind.INT64), LogicalType(Kind.TEXT, length=9)
NEWEST, OLD, RULES = Release.newest("mysql"), replace(Release.newest("mysql"), version=(5, 7, 40)), ValueRules()
ITEM = TableId("there", "item")
ID, A = Column("id", INT, "int", nullable=False), Column("a", INT, "int", has_default=True)


def altered(now: Sequence[Column], *steps: Step) -> AlteredTable:
    tables = []
    for columns in ((ID, A), tuple(now)):
        names = tuple(column.name for column in columns)
        types = tuple(column.type for column in columns if column.type)
        schema = TableSchema(TableId("shop", "item"), columns, ("id",))
        tables += [schema, TargetTable(schema.id, ITEM, names, types, ("id",), source_columns=names)]
    former, former_table, schema, table = tables
    return AlteredTable(former, former_table, schema, table, steps)  # type: ignore[arg-type] # in pairs


def existing(*columns: ExistingColumn) -> ExistingTable:
    found = ExistingTable(ITEM, "BASE TABLE", "InnoDB", "utf8mb4_bin", "Dynamic", 0)
    return replace(found, columns=list(columns or (column("id", nullable=False), column("a"))))


def column(
    name: str, type: str = "int(11)", nullable: bool = True, default: str | None = None, **more: str
) -> ExistingColumn:
    facts = {"extra": "", "charset": "", "collation": "", "expression": ""} | more
    return ExistingColumn(name, type, type.partition("(")[0], nullable, default, length=None, **facts)


def statement(found: AlteredTable, here: ExistingTable | None = None, release: Release = NEWEST) -> str:
    return altered_columns.alter_statement(found, here or existing(), RULES, release).removeprefix(
        "ALTER TABLE `there`.`item` "
    )


WIDE = replace(A, type=LONG, native="bigint")
B = replace(A, name="b")


@pytest.mark.parametrize(
    ("now", "steps", "expected"),
    [
        ((ID, A, B), [ColumnAdded("b")], "ADD COLUMN `b` int NULL"),
        ((ID, A, replace(B, nullable=False, has_default=False)), [ColumnAdded("b", "0")],
         "ADD COLUMN `b` int NOT NULL DEFAULT 0"),
        ((ID,), [ColumnDropped("a")], "DROP COLUMN `a`"),
        ((ID,), [ColumnDropped("a", keeps=True)], ""),
        ((ID, B), [ColumnRenamed("a", "b")], "RENAME COLUMN `a` TO `b`"),
        ((ID, replace(WIDE, name="b")), [ColumnRenamed("a", "b"), ColumnRetyped("b")], "CHANGE COLUMN `a` `b` bigint NULL"),
        ((ID, WIDE), [ColumnRetyped("a")], "CHANGE COLUMN `a` `a` bigint NULL"),
        ((ID, replace(A, nullable=False, has_default=False)), [NullabilityChanged("a")],
         "CHANGE COLUMN `a` `a` int(11) NOT NULL"),
        ((ID, replace(A, default="5")), [DefaultChanged("a")], "ALTER COLUMN `a` SET DEFAULT 5"),
        ((ID, A), [DefaultChanged("a")], "ALTER COLUMN `a` SET DEFAULT NULL"),
        ((ID, replace(A, default="5", nullable=False)), [NullabilityChanged("a"), DefaultChanged("a")],
         "CHANGE COLUMN `a` `a` int(11) NOT NULL DEFAULT 5"),
        ((ID, B), [ColumnDropped("a"), ColumnAdded("b")], "DROP COLUMN `a`, ADD COLUMN `b` int NULL"),
    ],
)  # fmt: skip
def test_the_steps_are_clauses_of_one_statement(now: Sequence[Column], steps: list[Step], expected: str) -> None:
    assert statement(altered(now, *steps)) == expected


def test_a_column_that_is_kept_takes_null_as_it_stands() -> None:
    kept = altered((ID,), ColumnDropped("a", keeps=True))
    here = existing(column("id"), column("a", "varchar(9)", nullable=False, charset="latin1", collation="latin1_bin"))
    assert statement(kept, here) == "MODIFY COLUMN `a` varchar(9) CHARACTER SET latin1 COLLATE latin1_bin NULL"
    with pytest.raises(Conflict, match="computes it"):
        statement(kept, existing(column("id"), column("a", extra="stored generated")))


def test_texts_and_bytes_that_take_no_constant_are_filled_by_the_server() -> None:
    note = Column("note", replace(TEXT, length=65_535), "text", nullable=False)
    found = altered((ID, A, note), ColumnAdded("note", ""))
    for release in (NEWEST, OLD):
        assert statement(found, release=release) == "ADD COLUMN `note` text NOT NULL"


def test_a_release_that_renames_no_columns_does_so_where_it_states_them_anew() -> None:
    with pytest.raises(Conflict, match="renames no columns"):
        statement(altered((ID, B), ColumnRenamed("a", "b")), release=OLD)
    both = altered((ID, replace(WIDE, name="b")), ColumnRenamed("a", "b"), ColumnRetyped("b"))
    assert statement(both, release=OLD) == "CHANGE COLUMN `a` `b` bigint NULL"


def test_what_depends_on_a_column_keeps_it() -> None:
    drop, rename = altered((ID,), ColumnDropped("a")), altered((ID, B), ColumnRenamed("a", "b"))
    index = ExistingIndex("by_a", ("a",), (None,), (False,), unique=False, kind="BTREE")
    twice = column("twice", extra="virtual generated", expression="`a` * 2")
    shapes = {
        "index by_a": (replace(existing(), indexes=[index]), {"drop"}),
        "column twice": (existing(column("id"), column("a"), twice), {"drop", "rename"}),
        "check two": (replace(existing(), checks={"two": "`a` < `id`", "one": "`a` > 1"}), {"drop", "rename"}),
        "perhaps trigger t": (
            replace(existing(), triggers=[ExistingTrigger("t", "BEFORE", "INSERT")]),
            {"drop", "rename"},
        ),
    }
    for what, (here, kept_from) in shapes.items():
        for name, found in {"drop": drop, "rename": rename}.items():
            told = list(altered_columns._unlike_before(here, found))
            assert told == ([f"{what} depends on a at the target"] if name in kept_from else [])


def test_columns_stand_as_they_were_made_before_or_behind() -> None:
    found = altered((ID, WIDE), ColumnRetyped("a"))
    for type, is_alike in (
        ("int", True),
        ("int(11)", True),
        ("bigint(20)", True),
        ("smallint", False),
        ("int unsigned", False),
    ):
        told = list(restated.unlike(found, existing(column("id"), column("a", type)), RULES, NEWEST))
        assert told == ([] if is_alike else [f"column a of the target's table is {type}, and was made as int"])
    assert restated.never_null(altered((ID, replace(A, nullable=False)), NullabilityChanged("a")), RULES, NEWEST) == [
        "a"
    ]


@pytest.mark.parametrize(
    ("steps", "before", "behind"),
    [
        ([ColumnAdded("b")], ("id", "a"), ("id", "a", "b")),
        ([ColumnDropped("a")], ("id", "a"), ("id",)),
        ([ColumnRenamed("a", "b")], ("id", "a"), ("id", "b")),
        ([ColumnDropped("a"), ColumnAdded("b")], ("id", "a"), ("id", "b")),
    ],
)
def test_rule_17_what_is_there_tells_how_far_it_came(
    steps: list[Step], before: Sequence[str], behind: Sequence[str]
) -> None:
    now = {"id": ID, "a": A, "b": B}
    found = altered([now[name] for name in behind], *steps)
    for names, is_behind in ((before, False), (behind, True)):
        assert altered_columns._is_behind(existing(*map(column, names)), found, RULES, NEWEST) is is_behind
    assert not altered_columns._is_behind(existing(), altered((ID, WIDE), ColumnRetyped("a")), RULES, NEWEST)


def test_rule_17_a_column_that_somebody_else_has_added_meanwhile_is_not_taken_for_ours() -> None:
    found = altered((ID, A, B), ColumnAdded("b"))
    ours = column("b")
    for made, is_ours in (
        (ours, True),
        (replace(ours, nullable=not ours.nullable), False),
        (column("b", "text"), False),
    ):
        there = existing(column("id"), column("a"), made)
        assert altered_columns._is_behind(there, found, RULES, NEWEST) is is_ours


def test_what_a_mariadb_would_lose_with_a_column_that_is_defined_anew() -> None:
    """A check that was written with it, perhaps; one of JSON comes with the type."""
    found, mariadb = altered((ID, WIDE), ColumnRetyped("a")), Release.newest("mariadb")
    own = {"c": "`a` > 0"}
    for checks, release, told in ((own, mariadb, ["c"]), (own, NEWEST, []), ({"a": "json_valid(`a`)"}, mariadb, [])):
        here = replace(existing(), checks=checks)
        said = list(restated.unlike(found, here, RULES, release))
        assert [f"check {name} of" in text for name, text in zip(told, said, strict=True)] == [True] * len(told)
    assert restated.is_spelled_alike("year(4)", "year") and not restated.is_spelled_alike("char(4)", "char(5)")
    assert restated.is_spelled_alike("enum('a','it''s')", "ENUM('a','it''s')")
    for other in ("enum('a')", "enum('b','a')", "enum('a','b','c')", "set('a','b')"):
        assert not restated.is_spelled_alike("enum('a','b')", other)
    assert restated.is_spelled_alike("set('\U0001f600','b')", "set('?','b')")  # an older release shows it so


def printing(monkeypatch: pytest.MonkeyPatch, *lines: str) -> Any:
    """Return a connection to a server that prints the table with these lines."""
    text = "CREATE TABLE `item` (\n  " + ",\n  ".join(("`id` int NOT NULL", *lines)) + "\n) ENGINE=InnoDB"
    monkeypatch.setattr(altered_comments, "printed", lambda *_: text)
    return object()


def commented(found: AlteredTable, *names: str) -> AlteredTable:
    columns = tuple(replace(c, comment="new") if c.name in names else c for c in found.schema.columns)
    return replace(found, schema=replace(found.schema, columns=columns), comments=CommentChanges(columns=names))


@pytest.mark.parametrize(
    ("line", "name", "expected"),
    [
        ("`a` int DEFAULT NULL COMMENT 'a\tb\u00a0c\u3000d'", "a", "`a` int DEFAULT NULL COMMENT 'new'"),
        ("`a\u3000b` int DEFAULT NULL", "a\u3000b", "`a\u3000b` int DEFAULT NULL COMMENT 'new'"),
        ("`a` binary(1) DEFAULT '\udcff'", "a", "does not print"),
        ("`a` timestamp NOT NULL COMMENT 'no DEFAULT here'", "a", "would give the column a default"),
        ("`a` timestamp(6) NOT NULL", "a", "would give the column a default"),
        ("`a` timestamp NOT NULL DEFAULT current_timestamp()", "a",
         "`a` timestamp NOT NULL DEFAULT current_timestamp() COMMENT 'new'"),
        ("`timestamp_ms` bigint NOT NULL", "timestamp_ms", "`timestamp_ms` bigint NOT NULL COMMENT 'new'"),
        ("`timestamp` bigint NOT NULL COMMENT 'a timestamp'", "timestamp",
         "`timestamp` bigint NOT NULL COMMENT 'new'"),
    ],
)  # fmt: skip
def test_a_comment_and_a_name_do_not_keep_a_column_from_another_comment(
    monkeypatch: pytest.MonkeyPatch, line: str, name: str, expected: str
) -> None:
    found = commented(altered((ID, replace(A, name=name)), ColumnRenamed("a", name)), name)
    release = replace(NEWEST, explicit=False)
    ((_, said),) = altered_comments.statements(printing(monkeypatch, line), found, release)
    assert expected in said and said.startswith("ALTER ") is expected.startswith("`")


@pytest.mark.parametrize(
    ("now", "steps", "expected"),
    [
        (WIDE, [ColumnRetyped("a")], ["CHANGE COLUMN `a` `a` bigint NULL COMMENT 'new'"]),
        (B, [ColumnRenamed("a", "b")],
         ["RENAME COLUMN `a` TO `b`", "MODIFY COLUMN `b` int DEFAULT NULL COMMENT 'new'"]),
        (replace(A, default="5"), [DefaultChanged("a")],
         ["ALTER COLUMN `a` SET DEFAULT 5", "MODIFY COLUMN `a` int(11) NULL DEFAULT 5 COMMENT 'new'"]),
        (A, [], ["MODIFY COLUMN `a` int DEFAULT NULL COMMENT 'new'"]),
    ],
)  # fmt: skip
def test_a_plan_says_no_definition_that_its_steps_change(
    monkeypatch: pytest.MonkeyPatch, now: Column, steps: list[Step], expected: list[str]
) -> None:
    found = commented(altered((ID, now), *steps), now.name)
    connection = printing(monkeypatch, "`a` int DEFAULT NULL COMMENT 'old'")
    monkeypatch.setattr(Release, "of", lambda _: NEWEST)
    monkeypatch.setattr(altering_plan, "read_table", lambda *_: existing())
    monkeypatch.setattr(altering_plan.altered_columns, "refuse_standing", lambda *_: None)
    monkeypatch.setattr(altering_plan, "ask", lambda *_: [])
    said = altering_plan.plan(connection, found, RULES).statements
    assert [one.removeprefix("ALTER TABLE `there`.`item` ") for one in said] == expected


def test_a_check_does_not_come_where_another_one_has_its_name() -> None:
    less = Term("<", (Term("column", text="id"), Term("number", text="5")))
    found = altered((ID, A))
    schema = replace(found.schema, checks=(Check("c", "(`id` < 5)", less),))
    found = replace(found, schema=schema, checks=CheckChanges(("c",)))
    for text in ("`id` < 5", "(`id` < 5)"):
        altered_checks.refuse_taken(replace(existing(), checks={"c": text}), found, RULES, NEWEST)
    with pytest.raises(Conflict) as refused:
        altered_checks.refuse_taken(replace(existing(), checks={"c": "(`id` < 6)"}), found, RULES, NEWEST)
    assert "another condition" in refused.value.what


def test_a_check_that_comes_waits_for_nothing_that_is_being_built() -> None:
    found = altered((ID, A))
    comes, goes = replace(found, checks=CheckChanges(("c",))), replace(found, checks=CheckChanges((), ("c",)))
    assert comes.stands_aside and not comes.is_all_behind and not goes.stands_aside
    assert not replace(found, comments=CommentChanges(table=True)).stands_aside
