"""Row changes that are set aside: `anabranch.set_aside`.

What does not live here: which are and what becomes of them (apply engine), transactions (`apply.py`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, LiteralString

from psycopg.types.json import Json

from anabranch.connectors.postgresql.connection import Connection
from anabranch.model.ids import TableId

if TYPE_CHECKING:
    from anabranch.rows.aside import AsideChange

COLUMNS: LiteralString = """sequence, position, commit_time, source_table, target_table, key, operation, before, after,
    reason, keys_off"""
ADD: LiteralString = (
    f"INSERT INTO anabranch.set_aside (job, {COLUMNS}, unconverted) VALUES (%s{', %s' * 12}) RETURNING number"
)
# A table of an earlier release, which only a start changes, does not have the last column: the name means the outer one then.
READ: LiteralString = f"""
SELECT s.* FROM (SELECT '{{}}'::json AS unconverted) AS without, LATERAL (
SELECT {COLUMNS}, wish, discarded_at IS NOT NULL, unconverted, number,
       (extract(epoch FROM set_aside_at) * 1000000)::bigint
  FROM anabranch.set_aside
 WHERE job = %s AND (discarded_at IS NOT NULL) = %s AND (%s::text IS NULL OR source_table = %s)) AS s ORDER BY number
"""
COUNT: LiteralString = """
SELECT source_table, count(*) FROM anabranch.set_aside WHERE job = %s AND discarded_at IS NULL GROUP BY source_table
"""
ASKED = "SELECT EXISTS (SELECT FROM anabranch.set_aside WHERE job = %s AND wish <> '' AND discarded_at IS NULL)"
WISH: LiteralString = """
UPDATE anabranch.set_aside SET wish = %s, reason = CASE WHEN %s = '' THEN reason ELSE %s END
 WHERE job = %s AND number = ANY(%s) AND discarded_at IS NULL
"""
REMOVE = "DELETE FROM anabranch.set_aside WHERE job = %s AND number = ANY(%s) AND discarded_at IS NULL"
DISCARD: LiteralString = """
UPDATE anabranch.set_aside SET wish = '', discarded_at = clock_timestamp()
 WHERE job = %s AND number = ANY(%s) AND discarded_at IS NULL
"""
IS_THERE = "SELECT to_regclass('anabranch.set_aside') IS NOT NULL"
FORGET: LiteralString = "DELETE FROM anabranch.set_aside WHERE job = %s AND source_table = %s"
FORGET_FACT = "UPDATE anabranch.table_state SET facts = facts - 'set_aside' WHERE job = %s AND source_table = %s"


def add(connection: Connection, job: str, one: AsideChange) -> int:
    where = [one.sequence, one.position, one.commit_time, str(one.source), str(one.target)]
    images = [_json(one.key), one.operation, _json(one.before), _json(one.after)]
    change = [*images, readable(one.reason), one.keys_off]
    row = connection.execute(ADD, [job, *where, *change, _json(one.unconverted)]).fetchone()
    assert row is not None
    return int(row[0])


def read(connection: Connection, job: str, table: TableId | None, discarded: bool) -> list[AsideChange]:
    name = str(table) if table else None
    return [_change(row) for row in connection.execute(READ, [job, discarded, name, name])]


def readable(reason: str) -> str:
    """Return a reason without zero characters, which it has from the key of a row, and which no text here holds."""
    return reason.replace("\0", "\\0")


def count(connection: Connection, job: str) -> dict[TableId, int]:
    return {TableId.parse(table): number for table, number in connection.execute(COUNT, [job])}


def asked(connection: Connection, job: str) -> bool:
    row = connection.execute(ASKED, [job]).fetchone()
    return bool(row and row[0])


def wish(connection: Connection, job: str, numbers: Sequence[int], what: str, reason: str) -> int:
    return connection.execute(WISH, [what, reason, readable(reason), job, list(numbers)]).rowcount


def settle(connection: Connection, job: str, numbers: Sequence[int], discarded: bool) -> int:
    """Remove or discard changes that are set aside. Returns how many of them waited."""
    return connection.execute(DISCARD if discarded else REMOVE, [job, list(numbers)]).rowcount


def forget(connection: Connection, job: str, source: TableId) -> None:
    """Forget everything that is set aside for a table: its rows are replaced, or left to themselves."""
    found = connection.execute(IS_THERE).fetchone()
    if found and found[0]:
        connection.execute(FORGET, [job, str(source)])
        connection.execute(FORGET_FACT, [job, str(source)])


def _json(values: Mapping[str, str | None] | None) -> Json | None:
    return None if values is None else Json(dict(values), dumps=lambda value: json.dumps(value, ensure_ascii=False))


def _change(row: tuple[Any, ...]) -> AsideChange:
    from anabranch.rows.aside import AsideChange  # most who open a store have nothing to do with such rows
    from anabranch.rows.net import Operation

    sequence, position, time, source, target, key, operation, *rest = row
    tables = TableId.parse(source), TableId.parse(target)
    return AsideChange(sequence, position, time, *tables, key, Operation(operation), *rest)
