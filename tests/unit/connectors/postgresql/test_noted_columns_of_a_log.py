"""Compare definitions with what a PostgreSQL notes of them, and define a table behind a note (no server)."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from anabranch.connectors.postgresql.source.added_columns import Attribute, SeenFile
from anabranch.connectors.postgresql.source.noted_columns import Compared, compared
from anabranch.connectors.postgresql.source.redefined_columns import behind_note
from anabranch.connectors.postgresql.source.statement_notes import SET_UP, UNDO, Note, read_note
from anabranch.model.column_changes import Altered, ColumnChange
from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.ids import TableId
from anabranch.model.schema import Column, Index, TableSchema

INT, TEXT = LogicalType(Kind.INT32), LogicalType(Kind.TEXT)
ID = Column("id", INT, "integer", nullable=False, number=1)
A, B = (Column(name, TEXT, "text", number=number) for number, name in enumerate("ab", 2))
N = Column("n", INT, "integer", number=4)
THEN = TableSchema(TableId("s", "t"), (ID, A, B), ("id",), oid=70, numbers=3, file=70, version=4)
NOW = replace(THEN, columns=(ID, B, N), numbers=4)
PAGE = Path(__file__).parents[4] / "docs/howto/prepare-a-postgresql-source.md"


def noted(
    *columns: Column, numbers: int = 4, file: int = 70, constants: tuple[str, ...] = (), **said: int | bool
) -> Note:
    listed = [[c.number, c.name, c.native, not c.nullable, c.name in constants] for c in columns]
    facts = {"oid": 70, "schema": "s", "name": "t", "numbers": numbers, "file": file, "columns": listed, **said}
    found = read_note(json.dumps(facts))
    assert found is not None
    return found


def behind(
    note: Note, now: TableSchema = NOW, numbered: int = 4, constant: str | None = None, **how: Any
) -> Altered | str:
    names = {column.number: column.name for column in now.columns}
    has = {4: (constant is not None, constant)}
    attributes = [Attribute(n, names.get(n, ""), *has.get(n, (False, None))) for n in range(1, numbered + 1)]
    return behind_note(THEN, note, now, attributes, **how)


def test_the_page_has_the_statements() -> None:
    text = PAGE.read_text()
    assert ";\n".join(SET_UP) in text and "; ".join(UNDO) in text


@pytest.mark.parametrize("content", [b"end", b"\xff", b"{}", b"[]", b'{"columns": 1}', b'{"columns": [[1]]}', b"null"])
def test_what_is_no_note_is_none(content: bytes) -> None:
    """Anybody may write messages."""
    assert read_note(content) is None


def test_definitions_are_compared_by_number_name_type_and_null() -> None:
    strict = replace(A, nullable=False)
    for columns, expected in (
        ((ID, A, B), Compared.SAME),
        ((ID, strict, B), Compared.STRICTER),
        ((ID, replace(A, number=4), B), Compared.OTHER),
        ((ID, replace(A, name="x"), B), Compared.OTHER),
        ((ID, replace(A, native="bigint"), B), Compared.OTHER),
        ((ID, A), Compared.OTHER),
    ):
        assert compared(THEN, noted(*columns), with_nulls=True) is expected, columns
    assert compared(replace(THEN, columns=(ID, strict, B)), noted(ID, A, B), with_nulls=True) is Compared.OTHER
    assert compared(replace(THEN, columns=(ID, strict, B)), noted(ID, A, B), with_nulls=False) is Compared.SAME
    keyed = replace(THEN, indexes=(Index("u", ("a",), unique=True),))
    assert compared(keyed, noted(ID, strict, B), with_nulls=True) is Compared.SAME


def test_a_column_that_goes_and_one_that_comes_need_no_row_between() -> None:
    found = behind(noted(ID, B, N))
    assert isinstance(found, Altered) and found.kinds == {ColumnChange.DROP, ColumnChange.ADD}
    assert (found.schema.columns[2].name, found.schema.numbers, found.schema.file) == ("n", 4, 70)
    assert "the name of two columns" in str(behind(noted(ID, B, replace(N, name="a"))))


def test_what_rows_had_is_the_constant_or_null_in_the_file_that_they_were_in() -> None:
    found = behind(noted(ID, B, N, constants=("n",)), constant="7")
    assert isinstance(found, Altered) and (found.schema.column("n").default, found.schema.column("n").nullable) == (
        "7",
        True,
    )
    strict = replace(N, nullable=False)
    for then_noted, constant, nullable in ((strict, "7", False), (strict, None, True), (N, "7", True)):
        found = behind(noted(ID, B, then_noted, constants=("n",) if constant else ()), constant=constant)
        assert isinstance(found, Altered) and found.schema.column("n").nullable is nullable
    assert "cannot be read" in str(behind(noted(ID, B, N, constants=("n",))))
    assert "written anew" in str(behind(noted(ID, B, N, file=99)))
    found = behind(noted(ID, B, N, file=99), seen=SeenFile(99, 3))
    assert isinstance(found, Altered) and found.schema.file == 99
    assert "dropped since" in str(behind(noted(ID, B, N), replace(NOW, columns=(ID, B))))
    assert "does not know" in str(behind(noted(ID, B, N), numbered=3))


def test_rule_19_a_type_takes_more_where_the_server_casts_rows_that_were_as_they_were() -> None:
    then = replace(THEN, columns=(ID, N, B), primary_key=("id",), numbers=4)
    wide = replace(N, type=LogicalType(Kind.INT64), native="bigint")
    columns, now = (ID, B, wide), replace(THEN, columns=(ID, B, wide), numbers=4, file=71)
    then = replace(then, columns=(ID, B, N))
    numbered = [Attribute(1, "id"), Attribute(2, ""), Attribute(3, "b"), Attribute(4, "n")]
    for said, why in (
        ({"retyped": 70, "cast": True}, ""),
        ({"retyped": 69, "cast": True}, "n was integer and is bigint"),  # somebody has written them in between
        ({"retyped": 70, "cast": False}, "USING"),
        ({"retyped": 70}, "USING"),
        ({"retyped": None, "cast": True}, "n was integer and is bigint"),
        ({}, "n was integer and is bigint"),  # notes of an earlier release
    ):
        found = behind_note(then, noted(*columns, file=71, **said), now, numbered)
        if why:
            assert why in str(found), said
        else:
            assert isinstance(found, Altered) and found.kinds == {ColumnChange.TYPE}
            assert [c.native for c in found.schema.columns] == ["integer", "text", "bigint"]
            assert found.schema.file == 71


def test_a_column_that_comes_beside_a_cast_may_have_other_values() -> None:
    """Its constant is in the rows, which were written anew, and no longer in the catalogue."""
    then = replace(THEN, columns=(ID, replace(A, native="integer", type=INT), B))
    wide = replace(A, native="bigint", type=LogicalType(Kind.INT64))
    note = noted(ID, wide, B, N, file=71, retyped=70, cast=True)
    now = replace(THEN, columns=(ID, wide, B, N), numbers=4, file=71)
    numbered = [Attribute(number, name) for number, name in enumerate(("id", "a", "b", "n"), 1)]
    assert "written anew" in str(behind_note(then, note, now, numbered))


def test_rule_19_a_note_from_before_the_definition_drops_nothing() -> None:
    """A table was read behind two statements, and the log is at the first of them: what came by the second is not there."""
    assert "was read behind" in str(behind(noted(ID, A, numbers=2), THEN, numbered=3))
    assert isinstance(behind(noted(ID, A, numbers=3), replace(THEN, columns=(ID, A)), numbered=3), Altered)


def test_null_ends_where_no_row_is_before() -> None:
    strict = replace(A, nullable=False)
    for ends, kinds in ((True, {ColumnChange.NULLABILITY}), (False, set())):
        found = behind(noted(ID, strict, B, numbers=3), THEN, numbered=3, ends_nulls=ends)
        assert isinstance(found, Altered) and found.kinds == kinds
        assert found.schema.column("a").nullable is not ends
