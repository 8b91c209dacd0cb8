"""Foreign keys that stand at the target, and what they would do by themselves (K7).

What does not live here: whether a session asks them (`apply.py`, `constraints.py`), building them (`constraints.py`).
Vendor facts: https://www.postgresql.org/docs/current/catalog-pg-constraint.html
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import LiteralString

from psycopg import sql

from anabranch.connectors.postgresql.connection import Connection, table_name
from anabranch.contracts import Conflict
from anabranch.model.ids import TableId
from anabranch.model.schema import Action
from anabranch.rows.keys import CHANGES_ROWS, EnforcedKey
from anabranch.rows.net import UPDATE, RowChange, TargetTable

ACTIONS = {"a": Action.RESTRICT, "r": Action.RESTRICT, "c": Action.CASCADE}
ACTIONS |= {"n": Action.SET_NULL, "d": Action.SET_DEFAULT}
# RESTRICT is asked at once, also by a deferrable key. `conenforced` is there from 18 on.
# https://www.postgresql.org/docs/current/sql-createtable.html#SQL-CREATETABLE-PARMS-REFERENCES
KEYS: LiteralString = """
WITH wanted AS (
  SELECT c.oid FROM unnest(%s::text[], %s::text[]) AS w (schema, name)
    JOIN pg_catalog.pg_namespace n ON n.nspname = w.schema
    JOIN pg_catalog.pg_class c ON c.relnamespace = n.oid AND c.relname = w.name)
SELECT k.conname::text, cn.nspname::text, c.relname::text, pn.nspname::text, p.relname::text,
       ARRAY(SELECT a.attname::text FROM unnest(k.conkey) WITH ORDINALITY AS u (attnum, place)
               JOIN pg_catalog.pg_attribute a ON a.attrelid = k.conrelid AND a.attnum = u.attnum ORDER BY place),
       ARRAY(SELECT a.attname::text FROM unnest(k.confkey) WITH ORDINALITY AS u (attnum, place)
               JOIN pg_catalog.pg_attribute a ON a.attrelid = k.confrelid AND a.attnum = u.attnum ORDER BY place),
       k.confdeltype::text, k.confupdtype::text,
       k.condeferrable AND 'r' NOT IN (k.confdeltype, k.confupdtype)
  FROM pg_catalog.pg_constraint k
  JOIN pg_catalog.pg_class c ON c.oid = k.conrelid JOIN pg_catalog.pg_namespace cn ON cn.oid = c.relnamespace
  JOIN pg_catalog.pg_class p ON p.oid = k.confrelid JOIN pg_catalog.pg_namespace pn ON pn.oid = p.relnamespace
 WHERE k.contype = 'f' AND k.conparentid = 0
   AND (k.conrelid IN (SELECT oid FROM wanted) OR k.confrelid IN (SELECT oid FROM wanted))
   AND coalesce((to_jsonb(k) ->> 'conenforced')::bool, true)
 ORDER BY 2, 3, 1
"""


def read_keys(connection: Connection, tables: Iterable[TableId]) -> list[EnforcedKey]:
    """Read the keys that lead to or from one of these tables."""
    ids = list(tables)
    rows = connection.execute(KEYS, ([t.schema for t in ids], [t.name for t in ids])).fetchall()
    return [
        EnforcedKey(
            name,
            TableId(child_schema, child),
            tuple(columns),
            TableId(parent_schema, parent),
            tuple(parent_columns),
            ACTIONS[on_delete],
            ACTIONS[on_update],
            waits,
        )
        for name, child_schema, child, parent_schema, parent, columns, parent_columns, on_delete, on_update, waits in rows
    ]


class Followers:
    """Effects of the target's keys where the source's did nothing: each is a Conflict, raised before it happens.

    Keys are read once per transaction.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._keys: dict[TableId, list[EnforcedKey]] = {}

    def refuse(self, row: RowChange) -> None:
        """Raise Conflict for a change of a parent that the source made with its keys off, if children would follow.
        Psycopg errors pass.
        """
        event = row.operation
        for key in self._acting(row.table.target, event):
            if event == UPDATE and not row.values.keys() & set(key.parent_columns):
                continue
            if not row.table.key or self._exists(_children_of(key, row), _values(key, row)):
                raise Conflict(row.table.source, _refusal(key, event), dict(row.old_key))

    def refuse_truncate(self, table: TargetTable, emptied: Collection[TableId]) -> None:
        """Raise Conflict if rows of other tables than `emptied` refer to a table that is emptied with these."""
        for key in self._acting(table.target, "delete"):
            if key.child not in emptied and self._exists(_any_child(key), []):
                raise Conflict(table.source, _refusal(key, "delete"))

    def _acting(self, table: TableId, event: str) -> Sequence[EnforcedKey]:
        if table not in self._keys:
            self._keys[table] = read_keys(self._connection, [table])
        return [key for key in self._keys[table] if key.parent == table and key.on(event) in CHANGES_ROWS]

    def _exists(self, query: sql.Composed, values: Sequence[str | None]) -> bool:
        row = self._connection.execute(sql.SQL("SELECT EXISTS ({})").format(query), values).fetchone()
        return bool(row and row[0])


def _refusal(key: EnforcedKey, event: str) -> str:
    return (
        f"the source has kept rows of {key.child} that refer to it, because its foreign keys were off, and {key.name} of the"
        f" target is ON {event.upper()} {str(key.on(event)).upper()}: drop that key, or make it NO ACTION"
    )


def _any_child(key: EnforcedKey) -> sql.Composed:
    refers = sql.SQL(" AND ").join(sql.SQL("{} IS NOT NULL").format(sql.Identifier(name)) for name in key.columns)
    return sql.SQL("SELECT FROM {} WHERE {}").format(table_name(key.child), refers)


def _children_of(key: EnforcedKey, row: RowChange) -> sql.Composed:
    """Return rows that refer to the row that goes, or whose referenced values change."""
    pairs = zip(key.columns, key.parent_columns, strict=True)
    joined = sql.SQL(" AND ").join(
        sql.SQL("{} = {}").format(sql.Identifier("c", child), sql.Identifier("p", parent)) for child, parent in pairs
    )
    found = [sql.SQL("{} = %s").format(sql.Identifier("p", name)) for name in row.table.key]
    if row.operation == UPDATE:
        changed = [sql.SQL("{} IS DISTINCT FROM %s").format(sql.Identifier("p", name)) for name in _changing(key, row)]
        found.append(sql.SQL("({})").format(sql.SQL(" OR ").join(changed)))
    query = sql.SQL("SELECT FROM {} AS c JOIN {} AS p ON {} WHERE {}")
    where = sql.SQL(" AND ").join(found)
    return query.format(table_name(key.child), table_name(key.parent), joined, where)


def _values(key: EnforcedKey, row: RowChange) -> list[str | None]:
    """Return values of the statement's parameters."""
    values = [row.old_key[name] for name in row.table.key]
    return values + ([row.values[name] for name in _changing(key, row)] if row.operation == UPDATE else [])


def _changing(key: EnforcedKey, row: RowChange) -> list[str]:
    return [name for name in key.parent_columns if name in row.values]
