"""Compare definitions with what a PostgreSQL notes of them, and define a table behind a note (no server)."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from anabranch.connectors.postgresql.source.added_columns import Attribute, SeenFile
from anabranch.connectors.postgresql.source.noted_columns import Compared, compared
from anabranch.connectors.postgresql.source.noted_defaults import constant, has_default, with_default
from anabranch.connectors.postgresql.source.redefined_columns import behind_note
from anabranch.connectors.postgresql.source.statement_notes import SET_UP, UNDO, Note, read_note
from anabranch.model.column_changes import Altered, ColumnChange
from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.ids import TableId
from anabranch.model.schema import Column, Index, TableSchema

NULLS, DEFAULTS = frozenset({ColumnChange.NULLABILITY}), frozenset({ColumnChange.DEFAULT})
INT, TEXT = LogicalType(Kind.INT32), LogicalType(Kind.TEXT)
ID = Column("id", INT, "integer", nullable=False, number=1)
A, B = (Column(name, TEXT, "text", number=number) for number, name in enumerate("ab", 2))
N = Column("n", INT, "integer", number=4)
THEN = TableSchema(TableId("s", "t"), (ID, A, B), ("id",), oid=70, numbers=3, file=70, version=4)
NOW = replace(THEN, columns=(ID, B, N), numbers=4)
PAGE = Path(__file__).parents[4] / "docs/howto/prepare-a-postgresql-source.md"


def noted(*columns: Column, numbers: int = 4, file: int = 70, constants: tuple[str, ...] = (), **said: Any) -> Note:
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


NONE_OF_OURS = [b"end", b"\xff", b"{}", b"[]", b'{"columns": 1}', b'{"columns": [[1]]}', b"null", b"[" * 100_000]
NONE_OF_OURS += [b'{"columns": [[Infinity, "a", "text", false, false]]}', "{}".encode("utf-16")]


@pytest.mark.parametrize("content", NONE_OF_OURS, ids=range(len(NONE_OF_OURS)))
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
        assert compared(THEN, noted(*columns), NULLS) is expected, columns
    assert compared(replace(THEN, columns=(ID, strict, B)), noted(ID, A, B), NULLS) is Compared.OTHER
    assert compared(replace(THEN, columns=(ID, strict, B)), noted(ID, A, B), frozenset()) is Compared.SAME
    keyed = replace(THEN, indexes=(Index("u", ("a",), unique=True),))
    assert compared(keyed, noted(ID, strict, B), NULLS) is Compared.SAME


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
    for then_noted, kept, nullable in ((strict, "7", False), (strict, None, True), (N, "7", True)):
        found = behind(noted(ID, B, then_noted, constants=("n",) if kept else ()), constant=kept)
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


MOMENT = "'2024-02-29 00:00:00+00'::timestamp with time zone"
CONSTANTS = (
    ("integer", "7", "7"),
    ("integer", "'-7'::integer", "-7"),
    ("smallint", "70000", None),
    ("integer", "7.5", None),
    ("bigint", "(7)::bigint", "7"),
    ("bigint", "'7'::integer", "7"),
    ("numeric(6,2)", "(7.5)::integer", None),  # which is 8
    ("numeric(5,2)", "(0)::numeric(5,2)", "0.00"),
    ("numeric(5,2)", "1.005::numeric(5,2)", "1.01"),
    ("numeric(5,2)", "'-1.5'::numeric(5,2)", "-1.50"),
    ("numeric(6,3)", "1.005::numeric(5,2)", None),
    ("numeric(5,2)", "'NaN'::numeric", "NaN"),
    ("numeric", "'Infinity'::numeric", None),
    ("real", "'NaN'::real", "NaN"),
    ("real", "(0.5)::real", "0.5"),
    ("double precision", "'-Infinity'::double precision", "-Infinity"),
    ("double precision", "'0.1'::real", None),  # which is 0.10000000149011612
    ("double precision", "NaN", None),
    ("integer", "'NaN'::numeric", None),
    ("numeric(6,2)", "7", "7.00"),
    ("numeric(6,2)", "'-1.005'::numeric", "-1.01"),
    ("numeric(3,2)", "10", None),
    ("numeric", "0.5", "0.5"),
    ("numeric(38,28)", "2", "2." + 28 * "0"),
    ("numeric(38,0)", 38 * "9", 38 * "9"),
    ("numeric(38,0)", 38 * "9" + ".5", None),
    ("numeric(1000,1000)", "0." + 1000 * "3", "0." + 1000 * "3"),
    ("numeric(1000,2)", 998 * "9", 998 * "9" + ".00"),
    ("numeric(1000,2)", 5_000 * "9", None),
    ("bigint", 5_000 * "9", None),
    ("double precision", 5_000 * "9", None),
    ("double precision", "'1e+20'::double precision", "1e+20"),
    ("boolean", "true", "t"),
    ("boolean", "(1 = 1)", None),
    ("character varying(3)", "'a''b'::character varying", "a'b"),
    ("character varying(3)", "'long'::character varying", None),
    ("character(2)", "'x'::bpchar", "x"),
    ("character varying(3)", "'abc'::text", "abc"),
    ("character varying(3)", "'long'::text", None),
    ("character varying(5)", "'it''s'::character varying(4)", "it's"),
    ("character varying(5)", "'long'::character varying(3)", None),
    ("text", "'a'::character varying", "a"),
    ("text", "'a '::bpchar", None),  # which is cut
    ("timestamp with time zone", "(now() - '1 day'::interval)", None),
    ("timestamp with time zone", "('now'::text)::timestamp with time zone", None),
    ("text", r"E'a\\b'::text", r"a\b"),
    ("text", "'a'::text || 'b'::text", None),
    ("text", "lower('A'::text)", None),
    ("date", "'2024-02-29'::date", "2024-02-29"),
    ("timestamp(0) without time zone", "'2024-02-29 00:00:00.7'::timestamp without time zone", None),
    ("public.mood", "'sad'::public.mood", "sad"),
    ("integer[]", "'{1,2}'::integer[]", "{1,2}"),
    ("public.mood", "'sad'::other.mood", None),
)


@pytest.mark.parametrize(("native", "told", "text"), CONSTANTS, ids=range(len(CONSTANTS)))
def test_constants_are_taken_apart(native: str, told: str, text: str | None) -> None:
    assert constant(told, native) == text


def test_of_what_is_computed_only_words_of_ours_are_kept() -> None:
    """Anybody may write a note: what stands in it must never be run."""
    moment = replace(A, native="timestamp with time zone", type=LogicalType(Kind.INSTANT, fraction=6))
    for told, kept, op in (
        ("now()", "now()", "now"),
        ("CURRENT_TIMESTAMP(3)", "CURRENT_TIMESTAMP(3)", "now"),
        ("CURRENT_DATE", "CURRENT_DATE", "today"),
        ("gen_random_uuid()", "gen_random_uuid()", "uuid"),
        ("now(); DROP TABLE t", None, None),
        ("nextval('s'::regclass)", None, None),
    ):
        found = with_default(moment, told)
        assert (found.default, found.default_is_expression, found.has_default) == (kept, True, True)
        assert (found.default_term and found.default_term.op) == op
        assert has_default(found, told) and not has_default(found, None) and not has_default(found, MOMENT)
    assert with_default(found, "NULL::text") == with_default(found, None) == replace(moment, has_default=False)
    assert has_default(moment, None) and has_default(moment, "NULL::timestamp with time zone")


def test_defaults_are_compared_by_what_they_mean() -> None:
    loaded = replace(A, has_default=True, default="'x'::text", default_is_expression=True)
    for column, told, is_same in (
        (loaded, "'x'::text", True),
        (loaded, "'y'::text", False),
        (loaded, None, False),
        (replace(A, has_default=True, default="x"), "'x'::text", True),
        (replace(loaded, default="lower('X'::text)"), "lower('X'::text)", True),
        (replace(loaded, default="lower('X'::text)"), "lower('Y'::text)", False),
        (replace(N, native="numeric(6,2)", has_default=True, default="7.00"), "7", True),
    ):
        assert has_default(column, told) is is_same, (column, told)


def test_a_note_changes_defaults_of_columns_that_were_there() -> None:
    defaults = {"2": "'x'::text", "4": "now()"}
    note = noted(ID, A, B, replace(N, name="n"), constants=("n",), defaults=defaults)
    found = behind(note, replace(NOW, columns=(ID, A, B, N)), constant="7")
    assert isinstance(found, Altered) and found.kinds == {ColumnChange.ADD, ColumnChange.DEFAULT}
    assert [c.default for c in found.schema.columns] == [None, "x", None, "7"]  # rows that were there have 7
    assert compared(found.schema, note, NULLS) is Compared.SAME
    assert compared(found.schema, note, DEFAULTS) is Compared.OTHER  # n gets its own by a second look
    attributes = [Attribute(c.number, c.name) for c in found.schema.columns]
    second = behind_note(found.schema, note, replace(NOW, columns=(ID, A, B, N)), attributes)
    assert isinstance(second, Altered) and second.kinds == {ColumnChange.DEFAULT}
    assert compared(second.schema, note, DEFAULTS) is Compared.SAME
    assert compared(replace(found.schema, partition_key="LIST (a)"), note, DEFAULTS) is Compared.SAME
    assert compared(found.schema, noted(ID, A, B, N), DEFAULTS) is Compared.SAME  # notes of an earlier release
