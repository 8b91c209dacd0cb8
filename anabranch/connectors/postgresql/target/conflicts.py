"""Disagreements at a PostgreSQL target: the row that a change is about, under its lock, and what is noted in
`anabranch.conflict`.

What does not live here: what is decided (apply engine), transactions (`apply.py`). Values go as text and come as text, as
in `single_rows.py`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, LiteralString

from psycopg import sql
from psycopg.types.json import Json

from anabranch.connectors.postgresql.connection import Connection, table_name
from anabranch.model.ids import TableId

if TYPE_CHECKING:
    from anabranch.rows.conflict import Age, FoundRow, NotedConflict
    from anabranch.rows.net import TargetTable

Texts = Mapping[str, str | None]

COLUMNS: LiteralString = """sequence, position, commit_time, source_table, target_table, key, operation, kind, policy,
    decision, before, after, found"""
NOTE: LiteralString = f"INSERT INTO anabranch.conflict (job, {COLUMNS}) VALUES (%s{', %s' * 13})"
READ: LiteralString = f"""
SELECT {COLUMNS}, number, (extract(epoch FROM noted_at) * 1000000)::bigint FROM anabranch.conflict
 WHERE job = %s AND number > %s AND (%s::text IS NULL OR source_table = %s) ORDER BY number LIMIT %s
"""
FORGET = "DELETE FROM anabranch.conflict WHERE job = %s AND number <= %s"


def row(connection: Connection, table: TargetTable, key: Texts, age: Age | None, nul: str) -> FoundRow | None:
    """Return the row with this key, locked. Psycopg errors pass."""
    from anabranch.rows.conflict import FoundRow  # most who open a store have nothing to do with conflicts

    has_value = age is not None and age.value is not None
    statement = _find(table, age.column if age else "", has_value, age is not None and age.or_equal)
    values = [age.value] if age is not None and has_value else []
    values += [key[name] for name in table.key]
    if nul == "strip":
        values = [value and value.replace("\0", "") for value in values]
    found = connection.execute(statement, values).fetchone()
    if found is None:
        return None
    return FoundRow(dict(zip(table.columns, found[1:], strict=True)), bool(found[0]))


def note(connection: Connection, job: str, conflict: NotedConflict) -> None:
    c = conflict
    names = [c.sequence, c.position, c.commit_time, str(c.source), str(c.target), _json(c.key)]
    connection.execute(
        NOTE,
        [job, *names, c.operation, c.kind, c.policy, c.decision, _json(c.before), _json(c.after), _json(c.found)],
    )


def read(connection: Connection, job: str, table: TableId | None, after: int, limit: int) -> list[NotedConflict]:
    name = str(table) if table else None
    return [_conflict(found) for found in connection.execute(READ, [job, after, name, name, limit or None])]


def _json(values: Texts | None) -> Json | None:
    return None if values is None else Json(dict(values), dumps=lambda value: json.dumps(value, ensure_ascii=False))


def _conflict(found: tuple[Any, ...]) -> NotedConflict:
    from anabranch.rows.conflict import NotedConflict, OnConflict  # as above
    from anabranch.rows.net import Operation

    sequence, position, time, source, target, key, operation, kind, policy, *rest = found
    tables = TableId.parse(source), TableId.parse(target)
    done, chosen = Operation(operation), OnConflict(policy)
    return NotedConflict(sequence, position, time, *tables, key, done, kind, chosen, *rest)


@lru_cache(maxsize=1024)
def _find(table: TargetTable, age: str, has_value: bool, or_equal: bool = False) -> bytes:
    """Return the query that tells whether the row is newer, and its columns that we write, as text."""
    column, value = sql.Identifier(age), sql.SQL("\0")
    newer: sql.Composable = sql.SQL("false")
    if age:
        later = f"coalesce({{}} {'>=' if or_equal else '>'} {{}}, false)"
        newer = sql.SQL(later if has_value else "{} IS NOT NULL").format(column, value)
    query = sql.SQL("SELECT {}, {} FROM {} WHERE {} FOR UPDATE").format(
        newer,
        sql.SQL(", ").join(sql.SQL("{}::text").format(sql.Identifier(name)) for name in table.columns),
        table_name(table.target),
        sql.SQL(" AND ").join(sql.SQL("{} = {}").format(sql.Identifier(name), value) for name in table.key),
    )
    return query.as_bytes().replace(b"%", b"%%").replace(b"\0", b"%s")
