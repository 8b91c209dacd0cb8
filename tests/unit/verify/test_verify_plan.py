"""How tables are cut for a comparison."""

from __future__ import annotations

import pytest

from anabranch.connectors.postgresql.source.typemap import logical_type
from anabranch.model.ids import TableId
from anabranch.model.schema import Column, TableSchema
from anabranch.model.value_rules import ValueRules
from anabranch.verify import plan

PAIR = (("x", "integer"), ("y", "integer"))


@pytest.mark.parametrize(
    ("rules", "by_key"),
    [(ValueRules(), []), (ValueRules(arrays="json"), ["tags"]), (ValueRules(composites="json"), ["pair"])],
)
def test_a_key_that_would_be_json_outside_of_a_key_is_not_cut_by_place(rules: ValueRules, by_key: list[str]) -> None:
    """Cut by place a table has no key, so that its source's rows would have JSON where the target has the text."""
    columns = (
        Column("tags", logical_type("text[]", delimiter=","), "text[]"),
        Column("pair", logical_type("public.pair", fields=PAIR), "public.pair"),
        Column("n", logical_type("integer"), "integer"),
    )
    schemas = {one.name: TableSchema(TableId("s", "t"), columns, (one.name,)) for one in columns}
    assert [name for name, schema in schemas.items() if plan.has_json_key(schema, rules)] == by_key
