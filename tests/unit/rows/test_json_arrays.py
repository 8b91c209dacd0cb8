"""Arrays of a PostgreSQL as JSON."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.connectors.postgresql.source.typemap import logical_type
from anabranch.errors import ValueRefused
from anabranch.model.datatype import LogicalType
from anabranch.model.ids import TableId
from anabranch.model.schema import Column, TableSchema
from anabranch.rows.json_arrays import as_array, is_array

TEXT = logical_type("text[]")
TEXTS: dict[tuple[str, ...], str] = {  # of types that are not the server's own with their delimiter
    ("integer[]", "{}"): "[]",
    ("integer[]", "{1,NULL,-3}"): "[1, null, -3]",
    ("integer[]", "{{1,NULL},{3,4}}"): "[[1, null], [3, 4]]",
    ("integer[]", "[-2:0]={1,2,3}"): '{"[-2:0]": [1, 2, 3]}',
    ("text[]", "[0:0][2:2]={{a}}"): '{"[0:0][2:2]": [["a"]]}',
    (
        "text[]",
        '{"a,b","c\\"d",NULL,"NULL","","back\\\\slash","{}"}',
    ): '["a,b", "c\\"d", null, "NULL", "", "back\\\\slash", "{}"]',
    ("boolean[]", "{t,f,NULL}"): "[true, false, null]",
    ("double precision[]", "{{-0},{1e+23}}"): "[[-0], [1e+23]]",
    ("real[]", "{NaN,-Infinity,0.1}"): '["NaN", "-Infinity", 0.1]',
    ("numeric(5,2)[]", "{1.00,1.0,NaN}"): '[1.00, 1.0, "NaN"]',
    ("box[]", "{(3,4),(1,2);(1,1),(0,0)}"): '["(3,4),(1,2)", "(1,1),(0,0)"]',
    ("public.mood[]", '{sad,"so so"}', ","): '["sad", "so so"]',
    ("public.corners[]", "{{(3,4),(1,2);NULL};{(1,1),(0,0);(2,2),(0,0)}}", ";"): (
        '[["(3,4),(1,2)", null], ["(1,1),(0,0)", "(2,2),(0,0)"]]'
    ),
    ("x.geometry(Point,4326)[]", "{0101000020E6100000:NULL}", ":"): '["0101000020E6100000", null]',
    ("public.bars[]", '{a,b|"c|d"|"\\"x\\""|"NULL"}', "|"): '["a,b", "c|d", "\\"x\\"", "NULL"]',
    ("public.hats[]", "{a]b^[c}", "^"): '["a]b", "[c"]',
    ("public.pair[]", '{"(1,\\"a b\\")","(,)"}', ","): '["(1,\\"a b\\")", "(,)"]',
    ("bytea[]", r'{"\\x00ff",NULL}'): r'["\\x00ff", null]',
    ("jsonb[]", r'{"{\"a\": [1, \"x\"]}","null"}'): r'["{\"a\": [1, \"x\"]}", "null"]',
    ("numeric[]", "{12345678901234567890.12345678901234567890,Infinity}"): (
        '[12345678901234567890.12345678901234567890, "Infinity"]'
    ),
    ("character varying(3)[]", "{1,t}"): '["1", "t"]',
}


@pytest.mark.parametrize("case", TEXTS)
def test_the_json_of_an_array(case: tuple[str, ...]) -> None:
    native, text, *delimiter = case
    type = logical_type(native, delimiter="".join(delimiter))
    assert is_array(type) and as_array(type, text) == TEXTS[case]
    json.loads(as_array(type, text))


TORN = ("{1,,2}", "{,1}", "{1,}", "{1}{2}", "{1},{2}", '{"a"b}', '{a"b"}', "{1}2", "{{1}2}", "{}x", "}{")


@pytest.mark.parametrize("text", ["", "1", "{1", "1}", '{"a}', "(1,2)", "[0:1]", "[0:1]=", "[1:1]={1}x", *TORN])
def test_what_is_no_array_is_refused(text: str) -> None:
    with pytest.raises(ValueRefused, match="no array of text"):
        as_array(TEXT, text)


def _printed(value: str | None) -> str:
    """As array_out prints an element: in quotes where it could be taken for something else."""
    if value is None:
        return "NULL"
    needs = not value or value.upper() == "NULL" or any(one in '{},"\\' or one.isspace() for one in value)
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"' if needs else value


@given(st.lists(st.none() | st.text(st.characters(exclude_characters="\0", exclude_categories=("Cs",))), min_size=1))
def test_texts_come_back(values: list[str | None]) -> None:
    assert json.loads(as_array(TEXT, f"{{{','.join(map(_printed, values))}}}")) == values


@pytest.mark.parametrize("delimiter", ["", "a", "N", "1", " ", '"', "{", "}", "\\"])
def test_an_array_whose_delimiter_nobody_knows_or_that_means_something_else_stays_a_text(delimiter: str) -> None:
    assert not is_array(logical_type("public.mood[]", delimiter=delimiter))


def test_types_of_the_server_have_a_known_delimiter_and_what_is_no_array_has_none() -> None:
    assert is_array(logical_type("box[]")) and is_array(logical_type("integer[]")) and is_array(logical_type("name[]"))
    for native in ("point", "int2vector", "public.ints", 'public."odd[]"'):
        assert not is_array(logical_type(native, delimiter=","))
    assert not is_array(logical_type("public.ints", "integer[]", delimiter=","))


def test_a_definition_keeps_the_delimiter_and_one_of_before_is_the_same() -> None:
    def of(type: LogicalType) -> TableSchema:
        return TableSchema(TableId("s", "t"), (Column("c", type, type.native),))

    now, then = of(logical_type("public.corners[]", delimiter=";")), of(logical_type("public.corners[]"))
    (column,) = TableSchema.from_json(now.to_json()).columns
    assert column.type is not None and column.type.delimiter == ";"
    assert "delimiter" not in then.to_json()["columns"][0]["type"]
    assert then.same_definition(now) and now.reads_like(then)
