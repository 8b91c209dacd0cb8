"""All statements of a load into an empty server, in its order, and what they leave out: text, no server is asked. The release
is the family's newest.

What does not live here: how a statement looks (`ddl.py`, `indexes.py`), carrying it out (`tables.py`, `building.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from anabranch.connectors.mysql.target import ddl, defaults
from anabranch.connectors.mysql.target.columns import made_columns
from anabranch.connectors.mysql.target.indexes import plan_indexes
from anabranch.connectors.mysql.target.names import NotMade
from anabranch.connectors.mysql.target.planned import plan_checks, plan_foreign_key, why_looser
from anabranch.connectors.mysql.target.release import Release
from anabranch.connectors.mysql.target.session import SQL_MODE, quoted, table_name
from anabranch.contracts import ValueRules
from anabranch.model.ids import TableId
from anabranch.model.schema import TableSchema
from anabranch.model.steps import DdlStep, When
from anabranch.rows.net import TargetTable

Tables = Sequence[tuple[TableSchema, TargetTable]]
FIRST, LATER = When.BEFORE_LOAD, When.AFTER_LOAD
# As a load's session has them: the script is in UTF-8, a zero date may be a default, backslashes are escapes.
AS_OURS = ("SET NAMES utf8mb4 COLLATE utf8mb4_bin", f"SET SESSION sql_mode = '{SQL_MODE}', time_zone = '+00:00'")


def script(tables: Tables, rules: ValueRules, family: str) -> Iterator[DdlStep]:
    release = Release.newest(family)
    by_source = {table.source: table for _, table in tables}
    yield from (DdlStep(FIRST, None, statement) for statement in AS_OURS)
    for database in dict.fromkeys(table.target.schema for _, table in tables):
        yield DdlStep(FIRST, None, ddl.create_database(database, release))
    for schema, table in tables:
        create = ddl.create_table(schema, table, rules, release)
        for statement in [create, *ddl.complete_table(schema, table, rules, release)]:
            yield DdlStep(FIRST, table.source, statement)
        notes = [*ddl.left_out(schema, table, rules, release), *ddl.narrowed(schema, table, rules, release)]
        yield from (DdlStep(FIRST, table.source, note=note) for note in notes)
    for schema, table in tables:
        yield from _indexes(schema, table, rules, release)
    for schema, table in tables:
        yield from _checks(schema, table, rules, release)
    yield from _foreign_keys(tables, by_source)
    for schema, table in tables:
        yield from _defaults(schema, table, release)


def _indexes(schema: TableSchema, table: TargetTable, rules: ValueRules, release: Release) -> Iterator[DdlStep]:
    columns = made_columns(schema, table, rules, release)
    early = {index.name for index in ddl.early_indexes(schema, table, columns, release)}
    for index, planned in plan_indexes(schema, table, columns, release):
        if isinstance(planned, NotMade):
            yield DdlStep(LATER, table.source, note=f"index {index.name}: {planned}")
        elif planned.name not in early:
            yield DdlStep(LATER, table.source, planned.add(table.target))


def _checks(schema: TableSchema, table: TargetTable, rules: ValueRules, release: Release) -> Iterator[DdlStep]:
    for name, planned in plan_checks(schema, table, rules, release).items():
        if isinstance(planned, NotMade):
            yield DdlStep(LATER, table.source, note=f"check {name}: {planned}")
        else:
            yield DdlStep(LATER, table.source, planned.add(planned.name))


def _foreign_keys(tables: Tables, by_source: Mapping[TableId, TargetTable]) -> Iterator[DdlStep]:
    """Yield the foreign keys. One whose name another one of the database has gets its other name."""
    used: set[tuple[str, str]] = set()
    for schema, table in tables:
        for key in schema.foreign_keys:
            try:
                planned = plan_foreign_key(key, table, by_source.get)
            except NotMade as why:
                yield DdlStep(LATER, table.source, note=f"foreign key {key.name}: {why}")
                continue
            if (planned.child.schema, planned.name) in used:
                planned = planned.renamed()
            used.add((planned.child.schema, planned.name))
            yield DdlStep(LATER, table.source, planned.add)
            if looser := why_looser(key, schema):
                yield DdlStep(LATER, table.source, note=f"foreign key {key.name}: {looser}")


def _defaults(schema: TableSchema, table: TargetTable, release: Release) -> Iterator[DdlStep]:
    for _, target, text in defaults.own_defaults(schema, table, release):
        if isinstance(text, str):
            place = f"ALTER TABLE {table_name(table.target)} ALTER {quoted(target)}"
            yield DdlStep(LATER, table.source, f"{place} SET DEFAULT ({text})")
