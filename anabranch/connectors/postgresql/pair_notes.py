"""The notes of deletes in `anabranch.pair_note`: a job of a pair keeps them at its target, its twin reads them there, at its
source (K23).

What does not live here: transactions (`target/apply.py`), who does what when (the apply engine). Psycopg errors pass.
"""

from __future__ import annotations

import json
from collections.abc import Collection

from psycopg.types.json import Json

from anabranch.connectors.postgresql.connection import Connection
from anabranch.errors import SourceError
from anabranch.model.ids import TableId
from anabranch.model.pair_notes import DeletedRow, PairNotes, StandingRow

DELETED, CLEARED, STANDING = "deleted", "cleared", "again"
ADD = """
INSERT INTO anabranch.pair_note (job, kind, id, target_table, key, age) VALUES (%s, %s, %s, %s, %s, %s)
ON CONFLICT DO NOTHING
"""
READ = """
SELECT id, target_table, key, age FROM anabranch.pair_note WHERE job = %s AND kind = %s AND id > %s ORDER BY id LIMIT %s
"""
FORGET = "DELETE FROM anabranch.pair_note WHERE job = %s AND kind = %s AND id = ANY(%s)"
# Not `to_regclass`: it raises an error for a schema that is closed to the user.
MAY_READ = """
SELECT has_schema_privilege(n.oid, 'USAGE') AND has_table_privilege(c.oid, 'SELECT'), current_user::text
  FROM pg_catalog.pg_namespace n JOIN pg_catalog.pg_class c ON c.relnamespace = n.oid
 WHERE n.nspname = 'anabranch' AND c.relname = 'pair_note'
"""


def keep(connection: Connection, job: str, deleted: DeletedRow) -> None:
    connection.execute(ADD, [job, DELETED, deleted.id, str(deleted.table), _json(dict(deleted.key)), deleted.age])


def keep_standing(connection: Connection, job: str, row: StandingRow) -> None:
    both = _json({"key": dict(row.key), "values": dict(row.values)})
    connection.execute(ADD, [job, STANDING, row.id, str(row.table), both, row.age])


def standing(connection: Connection, job: str, limit: int, after: str) -> tuple[StandingRow, ...]:
    rows = connection.execute(READ, [job, STANDING, after, limit]).fetchall()
    return tuple(
        StandingRow(id, TableId.parse(table), both["key"], age, both["values"]) for id, table, both, age in rows
    )


def forget_standing(connection: Connection, job: str, ids: Collection[str]) -> None:
    connection.execute(FORGET, [job, STANDING, list(ids)])


def _json(value: object) -> Json:
    return Json(value, dumps=lambda value: json.dumps(value, ensure_ascii=False))


def keep_cleared(connection: Connection, job: str, ids: Collection[str]) -> None:
    with connection.cursor() as cursor:
        cursor.executemany(ADD, [(job, CLEARED, id, None, None, None) for id in ids])


def forget(connection: Connection, job: str, deleted: Collection[str], cleared: Collection[str]) -> None:
    for kind, ids in ((DELETED, deleted), (CLEARED, cleared)):
        if ids:
            connection.execute(FORGET, [job, kind, list(ids)])


def read(connection: Connection, job: str, limit: int = 0, after: str = "") -> PairNotes:
    asked = ((DELETED, after), (CLEARED, ""))
    deleted, cleared = (connection.execute(READ, [job, kind, above, limit or None]).fetchall() for kind, above in asked)
    rows = (DeletedRow(id, TableId.parse(table), key, age) for id, table, key, age in deleted)
    return PairNotes(tuple(rows), tuple(id for id, *_ in cleared))


def read_at_source(connection: Connection, job: str, limit: int, after: str) -> PairNotes:
    """Read what is committed; none where there is no such table. Raises SourceError where the user may not read it."""
    return read(connection, job, limit, after) if _is_there(connection) else PairNotes()


def standing_at_source(connection: Connection, job: str, limit: int, after: str) -> tuple[StandingRow, ...]:
    """Read rows to be written again, as `read_at_source` does notes of deletes."""
    return standing(connection, job, limit, after) if _is_there(connection) else ()


def _is_there(connection: Connection) -> bool:
    """Return whether there is a table of notes. Raises SourceError where the user may not read it."""
    found = connection.execute(MAY_READ).fetchone()
    if found is None:
        return False
    may_read, user = found
    if not may_read:
        what = f"{user} may not read anabranch.pair_note, by which a row that the other site has deleted is found here"
        grant = f'GRANT USAGE ON SCHEMA anabranch TO "{user}"; GRANT SELECT ON anabranch.pair_note TO "{user}"'
        raise SourceError(what, hint=f'{grant}; or [pair] deletes = "refuse" in both job files')
    return True
