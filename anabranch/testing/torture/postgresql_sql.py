"""What a history says to a PostgreSQL source: its tables and its statements.

What does not live here: who says it, and what becomes of errors (postgresql_sessions.py).
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping

from anabranch.testing.torture.history import Assigned, Choice, Condition, Plus, Statement
from anabranch.testing.torture.tables import LEDGER, RESTRICT, Column, ForeignKey, Schema, Table
from anabranch.testing.torture.values import Literal

LATE = 3  # one of so many foreign keys is checked at the end of a transaction

# --- tables -----------------------------------------------------------------------------------------------------------


def create_statements(schema: Schema) -> Iterator[str]:
    """Every table, in the schema that the search path begins with. What the log is to tell of a row before is drawn: of half
    of those without a key nothing, so that the source refuses what changes their rows until the job has asked for more."""
    yield f"CREATE TABLE {LEDGER} (n integer PRIMARY KEY)"
    for table in schema.tables:
        lines = list(map(_column, table.columns))
        if table.key:
            lines.append(f"PRIMARY KEY ({', '.join(table.key)})")
        lines += [f"CONSTRAINT {table.name}_u{i} UNIQUE ({', '.join(u)})" for i, u in enumerate(table.uniques)]
        yield f"CREATE TABLE {table.name} ({', '.join(lines)})"
        for column in (c for c in table.columns if c.of.is_wide):
            yield f"ALTER TABLE {table.name} ALTER {column.name} SET STORAGE EXTERNAL"
        if _draws(table, 6 if table.key else 2):
            yield f"ALTER TABLE {table.name} REPLICA IDENTITY FULL"
    for table in schema.tables:
        yield from (_foreign_key(table, key) for key in table.foreign_keys)


def _column(column: Column) -> str:
    null = "" if column.nullable else " NOT NULL"
    default = f" DEFAULT {column.default}" if column.default is not None else ""
    return f"{column.name} {column.of.native}{null}{default}"


def _draws(what: object, of: int) -> bool:
    """One of so many; the same for the same."""
    return zlib.crc32(repr(what).encode()) % of == 0


def is_late_key(table: Table, key: ForeignKey) -> bool:
    """Is it checked at the end of a transaction?"""
    return _draws((table.name, key), LATE)


def _foreign_key(table: Table, key: ForeignKey) -> str:
    late = " DEFERRABLE INITIALLY DEFERRED" if is_late_key(table, key) else ""
    on_delete, on_update = (
        "NO ACTION" if late and action == RESTRICT else action for action in (key.on_delete, key.on_update)
    )
    return (
        f"ALTER TABLE {table.name} ADD CONSTRAINT {key.name} FOREIGN KEY ({', '.join(key.columns)})"
        f" REFERENCES {key.parent} ({', '.join(key.parent_columns)}) ON DELETE {on_delete} ON UPDATE {on_update}{late}"
    )


# --- statements -------------------------------------------------------------------------------------------------------


def sql(statement: Statement, schema: Schema) -> str:
    return _SQL[statement.do](statement, schema)


def _insert(statement: Statement, _: Schema) -> str:
    rows = ", ".join(f"({', '.join(map(_literal, row))})" for row in statement.rows)
    return f"INSERT INTO {statement.table} ({', '.join(statement.columns)}) VALUES {rows}"


def _upsert(statement: Statement, schema: Schema) -> str:
    """A value that is there under the first unique key alone is met; under another one it is in the way."""
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
    """No row comes before another one, so that any of them are `limit` many."""
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
    "savepoint": lambda statement, _: f"SAVEPOINT {statement.name}",
    "back": lambda statement, _: f"ROLLBACK TO SAVEPOINT {statement.name}",
}
