"""Definitions rendered for MySQL and MariaDB: databases, tables with their columns, computed ones among them. Text, nothing
is executed.

Every table is InnoDB in row format DYNAMIC, in utf8mb4, and in a collation that takes only texts of the same bytes for equal
unless a column says otherwise. What does not live here: columns (`columns.py`), indexes (`indexes.py`), checks and foreign keys
(`planned.py`), when something is built (`building.py`), what the target has already (`structures.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from anabranch.connectors.mysql.target import clauses, defaults, own_computed
from anabranch.connectors.mysql.target.collations import by_bytes
from anabranch.connectors.mysql.target.columns import (
    MadeColumn,
    computed_here,
    counting_index,
    made_columns,
    why_not_counting,
    why_visible,
)
from anabranch.connectors.mysql.target.indexes import PlannedIndex, plan_index
from anabranch.connectors.mysql.target.names import (
    NAME_CHARACTERS,
    NotMade,
    refused_names,
    target_columns,
)
from anabranch.connectors.mysql.target.other_defaults import DIALECT
from anabranch.connectors.mysql.target.release import Release
from anabranch.connectors.mysql.target.session import column_list, quoted, table_name
from anabranch.connectors.mysql.target.words import bare, literal
from anabranch.contracts import ValueRules
from anabranch.errors import TargetError
from anabranch.model.schema import Column, TableSchema
from anabranch.rows.net import TargetTable

# Characters of a comment: https://dev.mysql.com/doc/refman/8.0/en/create-table.html
TABLE_COMMENT, COLUMN_COMMENT = 2048, 1024


# --- databases and tables ---------------------------------------------------------------------------------------------


def create_database(name: str, release: Release) -> str:
    collation = by_bytes(release.collations)
    return f"CREATE DATABASE IF NOT EXISTS {quoted(name)} CHARACTER SET utf8mb4 COLLATE {collation}"


def refuse_names(table: TargetTable) -> None:
    """Raise TargetError for names that the servers do not take."""
    if bad := refused_names(table):
        raise TargetError(
            f"names longer than {NAME_CHARACTERS} characters, or with characters beyond U+FFFF: {', '.join(bad)}",
            table=str(table.source),
            hint="rename them in the job file ([[rules]] target, [[tables]] columns.rename)",
        )


def create_table(
    schema: TableSchema, table: TargetTable, rules: ValueRules, release: Release, computes: bool = True
) -> str:
    """Return the statement that creates the table with its primary key, and the index that a column which counts needs.

    `computes`: with the columns that the target computes. Raises TargetError for names that the servers do not take.
    """
    refuse_names(table)
    columns = made_columns(schema, table, rules, release)
    lines = {column.source: column_line(column, release) for column in columns}
    lines |= dict(computed_columns(schema, table, release)) if computes else {}
    parts = [lines[column.name] for column in schema.columns if column.name in lines]
    if table.key:
        parts.append(f"PRIMARY KEY ({column_list(table.key)})")
    parts += [index.line() for index in early_indexes(schema, table, columns, release)]
    return f"CREATE TABLE {table_name(table.target)} (\n  " + ",\n  ".join(parts) + f"\n){_options(schema, release)}"


def _options(schema: TableSchema, release: Release) -> str:
    how = " ROW_FORMAT=DYNAMIC" if release.has("long index rows") else ""
    options = f" ENGINE=InnoDB{how} DEFAULT CHARSET=utf8mb4 COLLATE={by_bytes(release.collations)}"
    return options + (f" COMMENT={literal(schema.comment)}" if _is_told(schema.comment, TABLE_COMMENT) else "")


def _is_told(comment: str, most: int) -> bool:
    return bool(comment) and len(comment) <= most and "\0" not in comment


def column_line(column: MadeColumn, release: Release) -> str:
    parts = [quoted(column.name), column.native]
    if column.collation:
        parts.append(f"CHARACTER SET {column.charset} COLLATE {column.collation}")
    parts.append("NULL" if column.nullable else "NOT NULL")
    if column.counts:
        parts.append("AUTO_INCREMENT")
    elif column.default is not None:
        parts.append(f"DEFAULT {column.default}")
    elif is_unsaid(column, release):
        parts.append(f"DEFAULT {defaults.FIRST_MOMENT}")
    elif column.nullable and bare(column.native) == "timestamp":
        parts.append("DEFAULT NULL")
    if column.invisible:
        parts.append("INVISIBLE")
    if _is_told(column.comment, COLUMN_COMMENT):
        parts.append(f"COMMENT {literal(column.comment)}")
    return " ".join(parts)


def is_unsaid(column: MadeColumn, release: Release) -> bool:
    """Return whether the server would give the column a default and ON UPDATE of its own, if the definition had none."""
    is_plain = column.default is None and not column.nullable and not column.counts
    return is_plain and bare(column.native) == "timestamp" and not release.explicit


def complete_table(schema: TableSchema, table: TargetTable, rules: ValueRules, release: Release) -> list[str]:
    """Return what follows CREATE TABLE: defaults that only kept the server from taking its own are taken off. A MySQL keeps
    them: before 5.7, and later where it is told so, its ALTER TABLE takes its own then (seen in 5.6)."""
    if release.family == "mysql":
        return []
    return [
        f"ALTER TABLE {table_name(table.target)} ALTER {quoted(column.name)} DROP DEFAULT"
        for column in made_columns(schema, table, rules, release)
        if is_unsaid(column, release)
    ]


def early_indexes(
    schema: TableSchema, table: TargetTable, columns: Sequence[MadeColumn], release: Release
) -> Iterator[PlannedIndex]:
    """Yield the index that a column which counts has to begin, where the primary key does not."""
    for column in columns:
        if column.counts and table.key[:1] != (column.name,):
            name = counting_index(schema, column.source)
            planned = plan_index(next(i for i in schema.indexes if i.name == name), table, columns, release)
            # A unique one could refuse rows of different moments: it is built behind the load, beside this one.
            yield replace(planned, name=planned.fallback, unique=False) if planned.unique else planned


def computed_columns(schema: TableSchema, table: TargetTable, release: Release) -> Iterator[tuple[str, str]]:
    """Yield source column, and its line in the definition, for columns that the target computes. Others are left out."""
    own = {made.source: made for made, _ in computed_here(schema, table, release)}
    for column, name, planned in plan_computed(schema, table, release):
        if isinstance(planned, NotMade):
            continue
        native, expression = planned
        if column.name in own:
            yield column.name, _own_computed(own[column.name], column, expression, release)
        else:
            yield column.name, f"{quoted(name)} {native} GENERATED ALWAYS AS ({expression}) STORED"


def _own_computed(made: MadeColumn, column: Column, expression: str, release: Release) -> str:
    """Return the line of a column of this family. MariaDB knows no NOT NULL of one that is computed."""
    parts = [quoted(made.name), made.native]
    if made.collation:
        parts.append(f"CHARACTER SET {made.charset} COLLATE {made.collation}")
    parts.append(f"GENERATED ALWAYS AS ({expression}) {'STORED' if column.stored else 'VIRTUAL'}")
    if not made.nullable and release.family == "mysql":
        parts.append("NOT NULL")
    if made.invisible:
        parts.append("INVISIBLE")
    if _is_told(made.comment, COLUMN_COMMENT):
        parts.append(f"COMMENT {literal(made.comment)}")
    return " ".join(parts)


def plan_computed(
    schema: TableSchema, table: TargetTable, release: Release
) -> Iterator[tuple[Column, str, tuple[str, str] | NotMade]]:
    """Yield source column, name here, and type and expression, or why there is none."""
    names = {source: quoted(name) for source, name in target_columns(table).items()}
    own = {made.source: made for made, _ in computed_here(schema, table, release)}
    for source, name in table.computed:
        column = schema.column(source)
        try:
            if source in own:
                yield column, name, (own[source].native, _in_own_words(column, schema, table, release))
            else:
                yield column, name, _computed(column, schema, names, release)
        except KeyError as missing:
            yield column, name, NotMade(f"it names {missing.args[0]}, which the job leaves out")
        except NotMade as why:
            yield column, name, why


def _in_own_words(column: Column, schema: TableSchema, table: TargetTable, release: Release) -> str:
    if not release.has("generated columns"):
        raise NotMade('this release computes no columns; [target.options] computed = "values" makes it a plain one')
    return clauses.own_words(column.expression, schema, table, release.family)


def made_computed(schema: TableSchema, table: TargetTable, release: Release) -> Iterator[tuple[MadeColumn, bool]]:
    """Yield the columns that the target computes, and whether it stores them: then they take room as those that are written."""
    own = {made.source: (made, column.stored) for made, column in computed_here(schema, table, release)}
    for column, name, planned in plan_computed(schema, table, release):
        if not isinstance(planned, NotMade):
            yield own.get(column.name, (MadeColumn(column.name, name, planned[0], True), True))


COMPUTED_TYPES = {"smallint": "smallint", "integer": "int", "bigint": "bigint"}  # in PostgreSQL's words -> here


def _computed(column: Column, schema: TableSchema, names: dict[str, str], release: Release) -> tuple[str, str]:
    if not release.has("generated columns"):
        raise NotMade("this release computes no columns")
    if schema.dialect != DIALECT or column.native not in COMPUTED_TYPES:
        raise NotMade(f"{column.native} computed by {column.expression} is not known to mean the same here")
    from anabranch.connectors.mysql.target import other_words  # with a parser that takes its time to come

    return COMPUTED_TYPES[column.native], clauses.condition(other_words.computed(column, schema), names)


# --- what is left out -------------------------------------------------------------------------------------------------


def left_out(schema: TableSchema, table: TargetTable, rules: ValueRules, release: Release) -> Iterator[str]:
    """Yield what the table lacks that the source's has, and why: what it is divided by, computed columns, numbers, defaults,
    comments."""
    if schema.partition_key or schema.partitions:
        yield "partitions: the table is made in one piece"
    for own, _, planned in plan_computed(schema, table, release):
        if isinstance(planned, NotMade):
            yield f"computed column {own.name}: {planned}"
    for source in target_columns(table) if clauses.is_of_family(schema) else ():
        if schema.column(source).generated:
            why = own_computed.why_not(schema.column(source), schema, rules, release.family)
            yield f"expression of {source}, which gets the source's values: {why or 'the job changes what it reads or gives'}"
    columns = made_columns(schema, table, rules, release)
    counting = any(column.counts for column in columns)
    for column in columns:
        own = schema.column(column.source)
        if own.auto_increment and not column.counts:
            why = why_not_counting(schema, table, column) or "a table has one AUTO_INCREMENT" * counting
            yield f"numbers of {column.source}: {why}"
        elif own.auto_increment and (uses := [one.uses for one in schema.lacking if one.name == own.name]):
            yield f"numbers of {column.source}: the source takes them from {', '.join(uses)}, here the column counts by itself"
        if _is_lost(schema, table, column, release):
            yield f"default of {column.source}: {own.default}"
        if own.invisible and not column.invisible:
            can = column.nullable or column.default is not None or column.counts
            yield f"{column.source} is visible: {why_visible(can, release) or 'a table has to show a column'}"
        if own.comment and not _is_told(own.comment, COLUMN_COMMENT):
            yield f"comment of {column.source}: longer than {COLUMN_COMMENT} characters"
    yield from _sequences(schema, table, release)
    if not release.has("invisible indexes"):
        yield from (
            f"index {index.name} is in use: this release hides none" for index in schema.indexes if index.invisible
        )
    if schema.comment and not _is_told(schema.comment, TABLE_COMMENT):
        yield f"comment: longer than {TABLE_COMMENT} characters"


def _is_lost(schema: TableSchema, table: TargetTable, column: MadeColumn, release: Release) -> bool:
    built = {source for source, _, text in defaults.own_defaults(schema, table, release) if isinstance(text, str)}
    own = schema.column(column.source)
    logical = table.type_of(column.name)
    return column.source not in built and defaults.is_lost(schema, own, logical, column.native, release)


def _sequences(schema: TableSchema, table: TargetTable, release: Release) -> Iterator[str]:
    """Yield the columns whose default takes the next number of a sequence, which somebody has to make here."""
    for source, _, text in defaults.own_defaults(schema, table, release):
        if isinstance(text, str) and clauses.takes_numbers(text):
            yield f"sequence of {source}: the default {text} is made only where it is there"


def narrowed(schema: TableSchema, table: TargetTable, rules: ValueRules, release: Release) -> Iterator[str]:
    """Yield the columns that a key gives a length: a longer value stops the job."""
    for column in made_columns(schema, table, rules, release):
        if column.needed_by:
            yield f"{column.source} becomes {column.native}, which {column.needed_by} needs: a longer value stops the job"
