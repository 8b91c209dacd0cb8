"""Definitions in PostgreSQL's own words, of a source that is one: taken as they are, or not at all.

Rows come with their columns' names and types as the job wants them; an expression that names one of which the job makes
something else is told, never rewritten. Expressions have every name of the database's qualified: our sessions look none up.
What does not live here: reading them (definitions.py, structures.py), what needs them (ddl.py, indexes.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from anabranch.model.schema import Check, Column, TableSchema
from anabranch.rows.net import TargetTable

DIALECT = "postgresql"
NO_INHERIT, NOT_VALID, NOT_ENFORCED = " NO INHERIT", " NOT VALID", " NOT ENFORCED"


class NotCarried(Exception):
    """Something of the source that the target does not get; the text says why."""


def is_ours(schema: TableSchema) -> bool:
    return schema.dialect == DIALECT


def taken(text: str, schema: TableSchema, table: TargetTable) -> str:
    """Return the text, if all columns that it names are the same at the target. Raises NotCarried."""
    for name, why in _changed(schema, table):
        if names(text, name):
            raise NotCarried(f"it names {name}, which the job {why}")
    if any(f"{form}.*" in text for form in (schema.id.name, _quoted(schema.id.name))):
        raise NotCarried("it names whole rows of the table")
    return text


def names(text: str, name: str) -> bool:
    """Return whether the text may name the column: a function or a constant of that name counts, too."""
    plain = rf'(?<![\w$"]){re.escape(name)}(?![\w$"])'
    return _quoted(name) in text or re.search(plain, text) is not None


def _changed(schema: TableSchema, table: TargetTable) -> Iterator[tuple[str, str]]:
    """Yield columns of which the job makes something else, and what."""
    kept = dict(zip(table.source_columns or table.columns, table.columns, strict=True))
    kept |= dict(table.computed)
    for column in schema.columns:
        target = kept.get(column.name)
        if target is None:
            yield column.name, "leaves out"
        elif target != column.name:
            yield column.name, "renames"
        elif target in table.columns and table.type_of(target).target:
            yield column.name, "gives another type"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def computed(schema: TableSchema, table: TargetTable) -> Iterator[tuple[Column, str, str | NotCarried]]:
    """Yield columns that the target computes: column, name there, what follows GENERATED ALWAYS AS."""
    for source, target in table.computed:
        column = schema.column(source)
        try:
            yield column, target, taken(column.expression, schema, table)
        except NotCarried as why:
            yield column, target, why


def defaults(schema: TableSchema, table: TargetTable) -> Iterator[tuple[str, str, str | NotCarried]]:
    """Yield source column, name at the target, and what follows SET DEFAULT."""
    kept = dict(zip(table.source_columns or table.columns, table.columns, strict=True))
    for column in schema.columns if is_ours(schema) else ():
        target = kept.get(column.name)
        if target is None or column.auto_increment or column.default is None or not column.default_is_expression:
            continue
        is_chosen = table.type_of(target).target
        yield column.name, target, NotCarried("the job chose the column's type") if is_chosen else column.default


def partition_key(schema: TableSchema, table: TargetTable) -> str:
    """Return what follows PARTITION BY, "" for a table that is not divided.

    Raises NotCarried where its rows, or those of a partition that is divided again, are told apart by what the job
    changes.
    """
    if not is_ours(schema) or not schema.partition_key:
        return ""
    for part in schema.partitions:
        taken(part.key.partition(" ")[2], schema, table)
    taken(schema.partition_key.partition(" ")[2], schema, table)
    return schema.partition_key


def without_lacking(schema: TableSchema, table: TargetTable) -> tuple[TableSchema, TargetTable]:
    """Remove what uses something that the source cannot give, from both definitions."""
    gone = {(one.what, one.name) for one in schema.lacking}
    if not gone:
        return schema, table
    is_whole = not any(what == "partitions" for what, _ in gone)
    plain: dict[str, Any] = {"has_default": False, "default": None, "default_is_expression": False}
    return replace(
        schema,
        columns=tuple(replace(c, **plain) if ("defaults", c.name) in gone else c for c in schema.columns),
        indexes=tuple(index for index in schema.indexes if ("indexes", index.name) not in gone),
        checks=tuple(check for check in schema.checks if ("checks", check.name) not in gone),
        partition_key=schema.partition_key if is_whole else "",
        partitions=schema.partitions if is_whole else (),
    ), replace(table, computed=tuple(pair for pair in table.computed if ("computed", pair[0]) not in gone))


def is_partitioned(schema: TableSchema, table: TargetTable) -> bool:
    """Return whether the job makes the table partitioned."""
    try:
        return bool(partition_key(schema, table))
    except NotCarried:
        return False


def check_parts(check: Check) -> tuple[str, str, bool]:
    """Split `CHECK (…) NO INHERIT NOT VALID`: the condition, what stays behind it, is it to be validated?"""
    text, tail, is_valid = check.text, "", True
    for word in (NOT_ENFORCED, NOT_VALID, NO_INHERIT):
        if text.endswith(word):
            text = text.removesuffix(word)
            tail = tail if word == NOT_VALID else word + tail
            is_valid &= word == NO_INHERIT
    return text.removeprefix("CHECK (").removesuffix(")"), tail, is_valid
