"""What a history says to a PostgreSQL source.

What does not live here: its tables (postgresql_tables.py), who says it, and what becomes of errors (postgresql_sessions.py).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from anabranch.testing.torture.history import Assigned, Choice, Condition, Plus, Statement
from anabranch.testing.torture.postgresql_tables import column_sql
from anabranch.testing.torture.postgresql_values import TYPE
from anabranch.testing.torture.tables import Column, Schema
from anabranch.testing.torture.values import Literal


def sql(statement: Statement, schema: Schema) -> str:
    return _SQL[statement.do](statement, schema)


def _insert(statement: Statement, _: Schema) -> str:
    rows = ", ".join(f"({', '.join(map(_literal, row))})" for row in statement.rows)
    return f"INSERT INTO {statement.table} ({', '.join(statement.columns)}) VALUES {rows}"


def _upsert(statement: Statement, schema: Schema) -> str:
    """A value that is there under the first unique key alone is updated; under another one it is in the way."""
    keys = ", ".join(schema[statement.table].unique_keys[0])
    return f"{_insert(statement, schema)} ON CONFLICT ({keys}) DO UPDATE SET {_assigned(statement, schema)}"


def _update(statement: Statement, schema: Schema) -> str:
    return f"UPDATE {statement.table} SET {_assigned(statement, schema)}{_where(statement)}"


def _delete(statement: Statement, _: Schema) -> str:
    return f"DELETE FROM {statement.table}{_where(statement)}"


def _both(statement: Statement, schema: Schema) -> str:
    """Two statements in one, each by the state before both."""
    first, second = (sql(part, schema) for part in statement.parts)
    return f"WITH first AS ({first}) {second}"


def _empty(statement: Statement, _: Schema) -> str:
    if statement.name == "cascade":
        return f"TRUNCATE {statement.table} CASCADE"
    return f"TRUNCATE {', '.join([statement.table, *(part.table for part in statement.parts)])}"


def _added(statement: Statement, schema: Schema) -> str:
    table = schema[statement.table]
    return ", ".join(f"ADD COLUMN {column_sql(table.column(name))}" for name in statement.columns)


def _assigned(statement: Statement, schema: Schema) -> str:
    table = schema[statement.table]
    return ", ".join(f"{name} = {_value(table.column(name), value)}" for name, value in statement.assigned)


def _value(column: Column, value: Assigned) -> str:
    if isinstance(value, Plus):
        return f"{column.name} {'-' if value.number < 0 else '+'} {abs(value.number)}"
    if isinstance(value, Choice):
        whens = " ".join(f"WHEN {when} THEN {_literal(then)}::{column.of.native}" for when, then in value.pairs)
        return f"CASE {value.column} {whens} END"
    return _literal(value)


def _where(statement: Statement) -> str:
    """Return the WHERE; with a `limit` it takes any so many rows, since they have no order."""
    if not statement.where:
        return ""
    where = " AND ".join(map(_condition, statement.where))
    if statement.limit is None:
        return f" WHERE {where}"
    return f" WHERE ctid IN (SELECT ctid FROM {statement.table} WHERE {where} LIMIT {statement.limit})"


def _condition(condition: Condition) -> str:
    values = [_literal(value) for value in condition.values]
    if condition.operator == "in":
        return f"{condition.column} IN ({', '.join(values)})"
    if condition.operator == "between":
        return f"{condition.column} BETWEEN {values[0]} AND {values[1]}"
    if condition.values[0] is None:
        return f"{condition.column} IS NULL"
    return f"{condition.column} = {values[0]}"


def _literal(value: Literal) -> str:
    return "NULL" if value is None else value


_SQL: Mapping[str, Callable[[Statement, Schema], str]] = {
    "insert": _insert,
    "ignore": lambda statement, schema: f"{_insert(statement, schema)} ON CONFLICT DO NOTHING",
    "upsert": _upsert,
    "update": _update,
    "delete": _delete,
    "both": _both,
    "empty": _empty,
    "label": lambda statement, _: (
        f"ALTER TYPE {TYPE} ADD VALUE IF NOT EXISTS {statement.name} {statement.order}".rstrip()
    ),
    "add": lambda statement, schema: f"ALTER TABLE {statement.table} {_added(statement, schema)}",
    "savepoint": lambda statement, _: f"SAVEPOINT {statement.name}",
    "back": lambda statement, _: f"ROLLBACK TO SAVEPOINT {statement.name}",
}
