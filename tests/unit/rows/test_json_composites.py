"""Values of a PostgreSQL's composite types as JSON."""

from __future__ import annotations

import json
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.connectors.postgresql.source.typemap import logical_type
from anabranch.model.datatype import LogicalType
from anabranch.model.ids import TableId
from anabranch.model.schema import Column, TableSchema
from anabranch.rows.json_composites import as_object, is_composite

FIELDS = (("n", "integer"), ("p", "numeric(5,2)"), ("b", "boolean"), ("t", "text"), ('a "b"', "public.pair[]"))
TYPE = logical_type("public.mixed", fields=FIELDS)
ONE = logical_type("public.one", fields=(("a", "text"),))
TEXTS = {
    "(,,,,)": '{"n": null, "p": null, "b": null, "t": null, "a \\"b\\"": null}',
    '(-1,1.50,t,"","{""(1,2)"",NULL}")': (
        '{"n": -1, "p": 1.50, "b": true, "t": "", "a \\"b\\"": "{\\"(1,2)\\",NULL}"}'
    ),
    '(1,NaN,f,"a, (b) ""c"" \\\\ d\ne",NULL)': (
        '{"n": 1, "p": "NaN", "b": false, "t": "a, (b) \\"c\\" \\\\ d\\ne", "a \\"b\\"": "NULL"}'
    ),
}


@pytest.mark.parametrize("text", TEXTS)
def test_the_json_of_a_composite(text: str) -> None:
    assert is_composite(TYPE) and as_object(TYPE, text) == TEXTS[text]
    json.loads(as_object(TYPE, text))


def test_one_field_that_is_null_and_one_that_is_empty() -> None:
    assert (as_object(ONE, "()"), as_object(ONE, '("")')) == ('{"a": null}', '{"a": ""}')


@pytest.mark.parametrize(
    "text", ["", "(", "()", "(,,,)", "(,,,,,)", "(,,,,", ",,,,)", "(,,,,)x", '(,,,"a,)', '(,,,a"b,)', "(,,,(,)"]
)
def test_what_has_other_fields_is_the_text(text: str) -> None:
    assert json.loads(as_object(TYPE, text)) == text


def _printed(value: str | None) -> str:
    """As record_out prints a field."""
    if value is None:
        return ""
    needs = not value or any(one in '"\\(),' or one.isspace() for one in value)
    escaped = value.replace("\\", "\\\\").replace('"', '""')
    return f'"{escaped}"' if needs else value


@given(st.lists(st.none() | st.text(st.characters(exclude_characters="\0", exclude_categories=("Cs",))), min_size=1))
def test_texts_come_back(values: list[str | None]) -> None:
    type = logical_type("public.x", fields=tuple((f"f{number}", "text") for number in range(len(values))))
    found = json.loads(as_object(type, f"({','.join(map(_printed, values))})"))
    assert list(found) == [name for name, _ in type.fields] and list(found.values()) == values


def test_a_definition_keeps_the_fields_and_one_of_before_is_the_same_and_a_text() -> None:
    def of(type: LogicalType) -> TableSchema:
        return TableSchema(TableId("s", "t"), (Column("c", type, type.native),))

    now, then = of(TYPE), of(logical_type("public.mixed"))
    (column,) = TableSchema.from_json(json.loads(json.dumps(now.to_json()))).columns
    assert column.type is not None and column.type.fields == FIELDS
    assert "fields" not in then.to_json()["columns"][0]["type"] and not is_composite(then.columns[0].type)
    assert then.same_definition(now) and now.reads_like(then)
    assert not is_composite(logical_type("public.d", "public.mixed"))


@pytest.mark.parametrize("content", ["a b," * 250_000, '""' * 250_000, "\\\\" * 250_000])
def test_a_long_value_takes_no_memory_for_each_of_its_characters(content: str) -> None:
    type = logical_type("public.pair", fields=(("a", "text"), ("b", "integer")))
    tracemalloc.start()
    try:
        found = json.loads(as_object(type, f'("{content}",1)'))
        assert tracemalloc.get_traced_memory()[1] < 30 * len(content)
    finally:
        tracemalloc.stop()
    assert found["b"] == 1 and len(found["a"]) in (len(content), len(content) // 2)
