"""Arrays of a PostgreSQL as JSON."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.connectors.postgresql.source.typemap import logical_type
from anabranch.errors import ValueRefused
from anabranch.rows.json_arrays import as_json, is_array

TEXTS = {
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
    ("public.mood[]", '{sad,"so so"}'): '["sad", "so so"]',
    ("character varying(3)[]", "{1,t}"): '["1", "t"]',
}


@pytest.mark.parametrize(("native", "text"), TEXTS)
def test_the_json_of_an_array(native: str, text: str) -> None:
    assert as_json(native, text) == TEXTS[native, text]
    json.loads(as_json(native, text))


@pytest.mark.parametrize("text", ["", "1", "{1", "1}", '{"a}', "(1,2)", "[0:1]"])
def test_what_is_no_array_is_refused(text: str) -> None:
    with pytest.raises(ValueRefused, match="no array of text"):
        as_json("text[]", text)


def _printed(value: str | None) -> str:
    """As array_out prints an element: in quotes where it could be taken for something else."""
    if value is None:
        return "NULL"
    needs = not value or value.upper() == "NULL" or any(one in '{},"\\' or one.isspace() for one in value)
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"' if needs else value


@given(st.lists(st.none() | st.text(st.characters(exclude_characters="\0", exclude_categories=("Cs",))), min_size=1))
def test_texts_come_back(values: list[str | None]) -> None:
    assert json.loads(as_json("text[]", f"{{{','.join(map(_printed, values))}}}")) == values


def test_arrays_whose_elements_stand_apart_by_another_sign_stay_texts() -> None:
    assert not is_array(logical_type("public.geometry[]")) and not is_array(logical_type("x.geography(Point,4326)[]"))
    assert is_array(logical_type("box[]")) and is_array(logical_type("public.mood[]"))
