"""Define a table behind columns that its rows tell of, by what the catalogue keeps of them (no server)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from anabranch.connectors.postgresql.source.added_columns import Attribute, SeenFile, note_files
from anabranch.connectors.postgresql.source.redefined_columns import behind as altered
from anabranch.model.column_changes import Altered, ColumnChange
from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.ids import TableId
from anabranch.model.key_changes import goes_on_as
from anabranch.model.schema import Column, ForeignKey, Index, TableSchema

INT, TEXT = LogicalType(Kind.INT32), LogicalType(Kind.TEXT)
ID, V = Column("id", INT, "integer", nullable=False, number=1), Column("v", TEXT, "text", number=2)
THEN = TableSchema(TableId("s", "t"), (ID, V), ("id",), oid=70, numbers=2, file=70, version=4)
N = Column("n", INT, "integer", nullable=False, has_default=True, default="7", default_is_expression=True, number=3)
NUMBERED = [Attribute(1, "id"), Attribute(2, "v")]
LOGGED = [("id", "integer"), ("v", "text"), ("n", "integer")]


def behind(*of: Any) -> TableSchema | str | None:
    found = altered(*of)
    assert not isinstance(found, Altered) or (found.kinds, found.untold.renamed) == ({ColumnChange.ADD}, ())
    return found.schema if isinstance(found, Altered) else found


def now(*added: Column, **facts: Any) -> TableSchema:
    return replace(THEN, columns=(ID, V, *added), numbers=2 + len(added), version=1, **facts)


def test_what_rows_had_is_the_default_whatever_the_catalogue_has_for_others() -> None:
    found = behind(THEN, LOGGED, now(N), [*NUMBERED, Attribute(3, "n", True, "5")])
    assert isinstance(found, TableSchema) and (found.version, found.numbers, found.file) == (4, 3, 70)
    n = found.column("n")
    assert (n.default, n.has_default, n.default_is_expression, n.nullable) == ("5", True, False, True), (
        "NOT NULL came later"
    )
    found = behind(THEN, LOGGED, now(N), [*NUMBERED, Attribute(3, "n")])
    assert isinstance(found, TableSchema)
    n = found.column("n")
    assert (n.default, n.has_default, n.nullable) == (None, False, True), "NOT NULL and the default came later"


def test_a_backlog_goes_on_one_by_one() -> None:
    more = Column("m", TEXT, "text", number=4)
    numbered = [*NUMBERED, Attribute(3, "n", True, "5"), Attribute(4, "m")]
    first = behind(THEN, LOGGED, now(N, more), numbered)
    assert isinstance(first, TableSchema) and [c.name for c in first.columns] == ["id", "v", "n"]
    assert (first.numbers, first.file) == (3, 70)
    second = behind(first, [*LOGGED, ("m", "text")], now(N, more), numbered)
    assert isinstance(second, TableSchema) and [c.name for c in second.columns] == ["id", "v", "n", "m"]


def test_a_file_is_noted_only_of_a_table_that_is_as_the_log_says() -> None:
    """Else a later statement may have written it: one whose column comes next."""
    more, kept = Column("m", TEXT, "text", number=4), Attribute(3, "n", True, "5")
    first = behind(THEN, LOGGED, now(N, more, file=99), [*NUMBERED, kept, Attribute(4, "m")])
    assert isinstance(first, TableSchema) and first.file == 0
    assert "written anew" in str(
        behind(first, [*LOGGED, ("m", "text")], now(N, more, file=99), [*NUMBERED, kept, Attribute(4, "m")])
    )
    alone = behind(THEN, LOGGED, now(N, file=99), [*NUMBERED, kept])
    assert isinstance(alone, TableSchema) and alone.file == 99


def test_a_file_that_was_seen_without_the_column_is_not_written_by_it() -> None:
    """It was emptied since; only a column that came behind the first look at the new file is certain."""
    seen: dict[int, SeenFile] = {}
    note_files(seen, [THEN, now(file=99), now(N, file=99)])
    assert seen == {70: SeenFile(99, 2)}
    numbered = [*NUMBERED, Attribute(3, "n")]
    assert isinstance(behind(THEN, LOGGED, now(N, file=99), numbered, seen[70]), TableSchema)
    for other in (SeenFile(99, 3), SeenFile(98, 2), None):
        assert "written anew" in str(behind(THEN, LOGGED, now(N, file=99), numbered, other))


def test_a_catalogue_that_does_not_show_it_yet_is_asked_again() -> None:
    assert behind(THEN, LOGGED, now(), NUMBERED) is None


@pytest.mark.parametrize(
    ("logged", "there", "numbered", "why"),
    [
        ([("id", "bigint"), *LOGGED[1:]], now(N), [*NUMBERED, Attribute(3, "n")], "id was integer and is bigint"),
        ([*LOGGED[:1], LOGGED[2], LOGGED[1]], now(N), [*NUMBERED, Attribute(3, "n")], "v was text and is integer"),
        (LOGGED, now(N, oid=71), [*NUMBERED, Attribute(3, "n")], "another table"),
        (LOGGED, now(N, partition_key="RANGE (id)"), [*NUMBERED, Attribute(3, "n")], "in partitions"),
        (LOGGED, now(N), [Attribute(1, "id"), Attribute(2, ""), Attribute(3, "v"), Attribute(4, "n")], "v was dropped"),
        (LOGGED, now(N), [*NUMBERED, Attribute(3, ""), Attribute(4, "n")], "another one may have its name"),
        (LOGGED, now(), [*NUMBERED, Attribute(3, "")], "n was dropped since"),
        (LOGGED, now(replace(N, native="bigint")), [*NUMBERED, Attribute(3, "n")], "n is integer in the log and bigint"),
        (LOGGED, now(replace(N, type=None)), [*NUMBERED, Attribute(3, "n")], "not replicated"),
        (LOGGED, now(replace(N, auto_increment=True)), [*NUMBERED, Attribute(3, "n")], "counts"),
        (LOGGED, now(N, file=99), [*NUMBERED, Attribute(3, "n")], "written anew"),
        (LOGGED, now(N), [*NUMBERED, Attribute(3, "n", True)], "cannot be read"),
        (LOGGED, now(N, primary_key=("id", "n")), [*NUMBERED, Attribute(3, "n", True, "5")], "primary key"),
        (LOGGED, now(N, indexes=(Index("u", ("v", "n"), True),)), [*NUMBERED, Attribute(3, "n")], "n is unique"),
        (LOGGED, now(N, foreign_keys=(ForeignKey("f", ("n",), THEN.id, ("id",)),)), [*NUMBERED, Attribute(3, "n")], "refers"),
    ],
)  # fmt: skip
def test_rule_19_what_is_not_certain_says_why(
    logged: list[tuple[str, str]], there: TableSchema, numbered: list[Attribute], why: str
) -> None:
    assert why in str(behind(THEN, logged, there, numbered))


def test_what_the_target_has_for_a_default_is_no_other_definition() -> None:
    """Preflight and another target's load compare with the catalogue, whose default and NOT NULL are those of now."""
    for numbered in (Attribute(3, "n", True, "5"), Attribute(3, "n")):
        found = behind(THEN, LOGGED, now(N), [*NUMBERED, numbered])
        assert isinstance(found, TableSchema) and goes_on_as(found, now(N))
    assert not goes_on_as(THEN, now(N)) and not goes_on_as(now(N), now(replace(N, native="bigint")))


def test_a_trail_of_before_knows_neither_numbers_nor_file() -> None:
    """Then a table counts whose rows were never written anew, and that never lost a column behind those that it has."""
    then = replace(THEN, numbers=0, file=0)
    assert isinstance(behind(then, LOGGED, now(N), [*NUMBERED, Attribute(3, "n")]), TableSchema)
    assert "written anew" in str(behind(then, LOGGED, now(N, file=99), [*NUMBERED, Attribute(3, "n")]))
    gone = [*NUMBERED, Attribute(3, ""), Attribute(4, "n")]
    assert "another one may have its name" in str(behind(then, LOGGED, now(N), gone))
    assert isinstance(behind(replace(THEN, numbers=3), LOGGED, now(replace(N, number=4)), gone), TableSchema)
    nameless = replace(THEN, columns=tuple(replace(column, number=0) for column in THEN.columns))
    assert "early release" in str(behind(nameless, LOGGED, now(N), [*NUMBERED, Attribute(3, "n")]))
