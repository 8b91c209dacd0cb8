"""Bring the schema `anabranch` to this release by files of plain SQL (`migrations/`), each carried out once.

`meta.migrations` notes what was carried out. Where what a `before` makes is there already, from a release without these notes
or by hand, it is only noted.

What does not live here: the files' names and notes (`sql/migrations.py`); the lock and the transaction (`store.py`), which
both are the caller's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from psycopg import errors
from psycopg.types.json import Jsonb

from anabranch.connectors.postgresql.connection import Connection
from anabranch.connectors.postgresql.quoting import quote
from anabranch.connectors.sql.migrations import COMMENT, FIRST, Done, Migration, carried_out, shipped_in
from anabranch.errors import StateError

# Not `to_regclass`: that one may answer what the session had found before it waited for the lock.
IS_THERE = """
SELECT EXISTS (SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
                WHERE n.nspname = 'anabranch' AND c.relname = %s
                  AND (%s::text IS NULL OR EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attname = %s
                                                                               AND NOT a.attisdropped)))
"""
# Also where an earlier release has made the table without the notes.
READ = "SELECT version, coalesce(to_jsonb(m) -> 'migrations', '[]') FROM anabranch.meta m"
NOTE = """
UPDATE anabranch.meta SET migrations = migrations || jsonb_build_array(
    %s::jsonb || jsonb_build_object('at', to_char(now() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')))
"""
RAISE = "UPDATE anabranch.meta SET version = %s"
OLDER = "SELECT job FROM anabranch.job WHERE coalesce((facts ->> 'knows')::integer, 0) < %s ORDER BY job"
MAY_ALTER = "SELECT pg_has_role(relowner, 'USAGE') FROM pg_class WHERE oid = to_regclass('anabranch.meta')"


def shipped() -> tuple[Migration, ...]:
    """Return the migrations of this release in order."""
    return shipped_in(__package__)


def migrate(connection: Connection, known: Sequence[Migration]) -> None:
    """Carry out what is missing, in the caller's transaction, under its lock. Raises StateError for a schema that a newer
    release has made this one unfit for, and where the user may not change it: with the statements for whoever may."""
    done = _noted(connection, known)
    missing = [one for one in known if (one.number, one.stage) not in done]
    added = [one for one in missing if one.stage == "before"]
    lacking = [one for one in added if not _is_made(connection, one)]
    try:
        for one in lacking:
            connection.execute(one.sql.encode())
    except errors.InsufficientPrivilege as error:
        if lacking[0].number == known[0].number:  # nothing is there yet: it is a right to create that is missing
            raise
        raise _needs_owner(connection, error, lacking) from None
    _note(connection, added)
    _retire(connection, [one for one in missing if one.stage == "after"])


def pending(connection: Connection, known: Sequence[Migration]) -> list[Migration]:
    """Return what the next start would add to a schema that is there; reads only. Raises StateError as `migrate`."""
    done = _noted(connection, known)
    added = [one for one in known if one.stage == "before" and (one.number, one.stage) not in done]
    return [one for one in added if not _is_made(connection, one)]


def statements(of: Sequence[Migration], user: str) -> str:
    """Return the statements that the owner of the schema runs in place of `user`: one line, without comments."""
    texts = [" ".join(COMMENT.sub("", one.sql).split()) for one in of]
    return " ".join(
        [*texts, f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA anabranch TO {quote(user)};"]
    )


def may_alter(connection: Connection) -> bool:
    """Return whether the user owns the schema's tables, or is a member of that role."""
    return bool(_one(connection, MAY_ALTER))


def _noted(connection: Connection, known: Sequence[Migration]) -> Done:
    if not _one(connection, IS_THERE, "meta", None, None):
        return set()
    version, notes = connection.execute(READ).fetchone() or (FIRST, [])
    return carried_out(known, version, notes)


def _is_made(connection: Connection, one: Migration) -> bool:
    table, column = one.tells
    return bool(_one(connection, IS_THERE, table, column, column))


def _note(connection: Connection, done: Sequence[Migration]) -> None:
    for one in done:
        connection.execute(NOTE, [Jsonb(one.note)])


def _retire(connection: Connection, missing: Sequence[Migration]) -> None:
    """Carry out each `after` that no job needs an older release for any more, in order up to the first that waits: for a job,
    or for a start by somebody who owns the tables."""
    for one in missing:
        if _older(connection, one.number):
            return
        try:
            with connection.transaction():
                connection.execute(one.sql.encode())
        except errors.InsufficientPrivilege:
            return
        connection.execute(RAISE, [one.number])
        _note(connection, [one])


def _older(connection: Connection, number: int) -> bool:
    """Return whether a job was started last by a release which does not know this number."""
    return connection.execute(OLDER, [number]).fetchone() is not None


def _needs_owner(
    connection: Connection, error: errors.InsufficientPrivilege, lacking: Sequence[Migration]
) -> StateError:
    user = connection.info.user
    return StateError(
        f"{user} may not bring the schema anabranch to this release: {error.diag.message_primary}",
        hint=f"as the owner of the schema: {statements(lacking, user)}",
    )


def _one(connection: Connection, query: str, *values: Any) -> Any:
    row = connection.execute(query.encode(), values).fetchone()
    return row[0] if row else None
