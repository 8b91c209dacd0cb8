"""All statements of a load into an empty database, in its order, and what they leave out: text, no server is asked.

What does not live here: how a statement looks (ddl.py), carrying it out (load.py, constraints.py, structures.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from anabranch.connectors.postgresql import verbatim
from anabranch.connectors.postgresql.target import ddl
from anabranch.connectors.postgresql.target.indexes import plan_indexes
from anabranch.connectors.postgresql.target.partitions import PlannedPartition, at_once, plan_partitions
from anabranch.connectors.postgresql.target.planned import plan_checks, plan_foreign_key, validate
from anabranch.connectors.postgresql.verbatim import NotCarried
from anabranch.contracts import ValueRules
from anabranch.model.ids import TableId
from anabranch.model.schema import Need, TableSchema
from anabranch.model.steps import DdlStep, When
from anabranch.rows.net import TargetTable

Tables = Sequence[tuple[TableSchema, TargetTable]]
FIRST, LATER = When.BEFORE_LOAD, When.AFTER_LOAD


def script(tables: Tables, rules: ValueRules) -> Iterator[DdlStep]:
    gone = {table.source: list(_lacking(definition)) for definition, table in tables}
    tables = [verbatim.without_lacking(definition, table) for definition, table in tables]
    by_source = {table.source: table for _, table in tables}
    beside = {table.target for _, table in tables}
    parts: dict[TableId, list[PlannedPartition]] = {}
    for definition, table in tables:
        parts[table.source] = plan_partitions(definition, table, beside)
        beside |= {part.name for part in parts[table.source]}
    schemas = [table.target.schema for _, table in tables] + [n.schema for schema, _ in tables for n in schema.needs]
    schemas += [part.name.schema for planned in parts.values() for part in planned]
    for schema in dict.fromkeys(schemas):
        yield DdlStep(FIRST, None, ddl.create_schema(schema))
    yield from _needs(tables)
    for definition, table in tables:
        create = [ddl.create_table(definition, table, rules, beside=beside)]
        create += [part.sql for part in parts[table.source]]
        for statement in create + ddl.complete_table(definition, table, rules, beside):
            yield DdlStep(FIRST, table.source, statement)
        notes = [*left_out(definition, table), *gone[table.source]]
        yield from (DdlStep(FIRST, table.source, note=note) for note in notes)
    yield from _indexes(tables, rules, beside)
    for definition, table in tables:
        yield from _checks(definition, table, rules)
    for definition, table in tables:
        yield from _foreign_keys(definition, table, by_source)
    for definition, table in tables:
        defaults = ddl.default_statements(definition, table).values()
        yield from (DdlStep(LATER, table.source, statement) for statement in defaults)


def _needs(tables: Tables) -> Iterator[DdlStep]:
    """Yield each needed object once, with the first table that needs it."""
    first: dict[Need, TargetTable] = {}
    for definition, table in tables:
        for need in definition.needs:
            first.setdefault(need, table)
    for need, table in first.items():
        if need.definition:
            yield DdlStep(FIRST, None, need.definition)
        else:
            yield DdlStep(FIRST, table.source, note=f"type {need.name}: it is none that can be made from here")


def _lacking(schema: TableSchema) -> Iterator[str]:
    """Yield what is left out because of something it uses, which an empty database does not have."""
    for one in schema.lacking:
        yield f"{one.what}: {one.name}: it uses the {one.kind} {one.uses}: {one.why}"


def left_out(schema: TableSchema, table: TargetTable) -> Iterator[str]:
    """Yield what is left out of computed columns, defaults and partitioning."""
    try:
        verbatim.partition_key(schema, table)
    except NotCarried as why:
        yield f"partitions: {why}"
    for column, _, expression in verbatim.computed(schema, table):
        if isinstance(expression, NotCarried):
            yield f"computed column {column.name}: {expression}"
    yield from (f"default of {source}: {what}" for source, what in ddl.lost_defaults(schema, table))


def _indexes(tables: Tables, rules: ValueRules, taken: set[TableId]) -> Iterator[DdlStep]:
    """Yield the indexes. One whose name another relation of the schema has gets its other name, as when it is built."""
    for definition, table in tables:
        own = ddl.own_relations(definition, table, rules, {t.target for _, t in tables})
        taken |= {TableId(table.target.schema, name) for name in own}
    for definition, table in tables:
        for index, planned in plan_indexes(definition, table):
            if isinstance(planned, NotCarried) or planned.served_by:
                why = planned if isinstance(planned, NotCarried) else f"{planned.served_by} serves the same"
                yield DdlStep(LATER, table.source, note=f"index {index.name}: {why}")
                continue
            place = TableId(table.target.schema, planned.name)
            name = planned.fallback if place in taken else planned.name
            taken.add(TableId(table.target.schema, name))
            is_divided = verbatim.is_partitioned(definition, table)
            if not planned.is_made_by_constraint and not (planned.constraint and is_divided):
                yield DdlStep(LATER, table.source, planned.sql_index(table.target, name, concurrently=not is_divided))
            if planned.constraint:
                yield DdlStep(LATER, table.source, planned.sql_constraint(table, name, is_divided))


def _checks(definition: TableSchema, table: TargetTable, rules: ValueRules) -> Iterator[DdlStep]:
    for name, planned in plan_checks(definition, table, rules).items():
        if isinstance(planned, NotCarried):
            yield DdlStep(LATER, table.source, note=f"check {name}: {planned}")
        else:
            steps = (planned.add, planned.validate) if planned.is_valid else (planned.add,)
            yield from (DdlStep(LATER, table.source, statement) for statement in steps)


def _foreign_keys(
    definition: TableSchema, table: TargetTable, by_source: Mapping[TableId, TargetTable]
) -> Iterator[DdlStep]:
    for key in definition.foreign_keys:
        try:
            planned = plan_foreign_key(key, table, by_source.get)
        except NotCarried as why:
            yield DdlStep(LATER, table.source, note=f"foreign key {key.name}: {why}")
        else:
            statement = planned.sql_foreign_key(table)
            if planned.is_valid and verbatim.is_partitioned(definition, table):
                yield DdlStep(LATER, table.source, at_once(statement))
                continue
            yield DdlStep(LATER, table.source, statement)
            if planned.is_valid:
                yield DdlStep(LATER, table.source, validate(table, planned.name))
