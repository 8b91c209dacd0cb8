"""All statements of a load into an empty database, in its order, and what they leave out: text, no server is asked.

What does not live here: how a statement looks (ddl.py), carrying it out (load.py, constraints.py, structures.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from anabranch.abc import DdlStep, ValueRules
from anabranch.connectors.postgresql import ddl
from anabranch.connectors.postgresql.indexes import plan_indexes
from anabranch.model.ids import TableId
from anabranch.model.schema import TableSchema
from anabranch.rows.net import TargetTable

Tables = Sequence[tuple[TableSchema, TargetTable]]
FIRST, LATER = "before the load", "after the load"


def script(tables: Tables, rules: ValueRules) -> Iterator[DdlStep]:
    by_source = {table.source: table for _, table in tables}
    for schema in dict.fromkeys(table.target.schema for _, table in tables):
        yield DdlStep(FIRST, None, ddl.create_schema(schema))
    beside = {table.target for _, table in tables}
    for definition, table in tables:
        create = ddl.create_table(definition, table, rules, beside=beside)
        for statement in (create, *ddl.complete_table(definition, table, rules)):
            yield DdlStep(FIRST, table.source, statement)
        yield from (DdlStep(FIRST, table.source, note=note) for note in defaults_left_out(definition, table))
    yield from _indexes(tables, rules)
    for definition, table in tables:
        yield from _checks(definition, table, rules)
    for definition, table in tables:
        yield from _foreign_keys(definition, table, by_source)


def defaults_left_out(schema: TableSchema, table: TargetTable) -> Iterator[str]:
    for source, target in ddl.target_columns(table).items():
        column = schema.column(source)
        if ddl.loses_default(column, table.type_of(target)):
            yield f"default of {source}: {ddl.told_default(column)}"


def _indexes(tables: Tables, rules: ValueRules) -> Iterator[DdlStep]:
    """An index whose name another relation of the schema has gets its other name, as when it is built."""
    taken = {table.target for _, table in tables}
    for definition, table in tables:
        own = ddl.own_relations(definition, table, rules, {t.target for _, t in tables})
        taken |= {TableId(table.target.schema, name) for name in own}
    for definition, table in tables:
        for index, planned in plan_indexes(definition, table):
            if isinstance(planned, ddl.NotCarried) or planned.served_by:
                why = planned if isinstance(planned, ddl.NotCarried) else f"{planned.served_by} serves the same"
                yield DdlStep(LATER, table.source, note=f"index {index.name}: {why}")
                continue
            place = TableId(table.target.schema, planned.name)
            name = planned.fallback if place in taken else planned.name
            taken.add(TableId(table.target.schema, name))
            yield DdlStep(LATER, table.source, planned.sql_index(table, name))


def _checks(definition: TableSchema, table: TargetTable, rules: ValueRules) -> Iterator[DdlStep]:
    for name, planned in ddl.plan_checks(definition, table, rules).items():
        if isinstance(planned, ddl.NotCarried):
            yield DdlStep(LATER, table.source, note=f"check {name}: {planned}")
        else:
            yield from (DdlStep(LATER, table.source, statement) for statement in (planned.add, planned.validate))


def _foreign_keys(
    definition: TableSchema, table: TargetTable, by_source: Mapping[TableId, TargetTable]
) -> Iterator[DdlStep]:
    for key in definition.foreign_keys:
        try:
            planned = ddl.plan_foreign_key(key, table, by_source.get)
        except ddl.NotCarried as why:
            yield DdlStep(LATER, table.source, note=f"foreign key {key.name}: {why}")
        else:
            yield DdlStep(LATER, table.source, planned.sql_foreign_key(table))
            yield DdlStep(LATER, table.source, ddl.validate(table, planned.name))
