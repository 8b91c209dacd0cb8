"""Bring the schema `anabranch` to this release: numbered files of plain SQL (`migrations/`), each carried out once.

`NNNN_name.before.sql` only adds: releases that do not know it go on working in the same database, on their own jobs. What takes
something away from them stands in `NNNN_name.after.sql`; it waits until each job of the database was started by a release
that knows its number, and raises `meta.version`, by which older releases refuse the schema from then on.

`meta.migrations` notes what was carried out. Its first line, `-- makes: anabranch.table` or `anabranch.table.column`, says of a
`before` what it makes: where that is there already, from a release without these notes or by hand, it is only noted.

What does not live here: the lock and the transaction (`store.py`), which both are the caller's.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from psycopg import errors
from psycopg.types.json import Jsonb

from anabranch.connectors.postgresql.connection import Connection
from anabranch.connectors.postgresql.quoting import quote
from anabranch.errors import StateError
from anabranch.version import __version__

FILE = re.compile(r"(?P<number>\d{4})_(?P<name>\w+)\.(?P<stage>before|after)\.sql")
MAKES = re.compile(r"-- makes: anabranch\.(\w+)(?:\.(\w+))?\n")
COMMENT = re.compile(r"\s*--[^\n]*")
FIRST = 1  # meta.version before the first `after`
KNOWS = "knows"  # fact of a job: the newest migration that the release knows which started it last

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


@dataclass(frozen=True, slots=True)
class Migration:
    """A file. `makes`: table and column (None: the table itself) whose presence says that a `before` was carried out."""

    number: int
    name: str
    stage: str
    sql: str
    makes: tuple[str, str | None] | None = None

    def __str__(self) -> str:
        return f"{self.number:04}_{self.name}.{self.stage}"


def parsed(file: str, text: str) -> Migration:
    """Return the migration that a file of this name and text is. Raises ValueError for one that is none."""
    found, makes = FILE.fullmatch(file), MAKES.match(text)
    if not found or (found["stage"] == "before" and not makes):
        raise ValueError(f"{file}: NNNN_name.before.sql, with what it makes in its first line, or NNNN_name.after.sql")
    target = (makes[1], makes[2]) if makes else None
    return Migration(int(found["number"]), found["name"], found["stage"], text, target)


@cache
def shipped() -> tuple[Migration, ...]:
    """Return the migrations of this release in order: of one number `before` first."""
    folder = files(__package__).joinpath("migrations")
    found = [parsed(one.name, one.read_text()) for one in folder.iterdir() if one.name.endswith(".sql")]
    return tuple(sorted(found, key=lambda one: (one.number, one.stage == "after")))


def newest(known: Sequence[Migration]) -> int:
    return max(one.number for one in known)


def migrate(connection: Connection, known: Sequence[Migration]) -> None:
    """Carry out what is missing, in the caller's transaction, under its lock. Raises StateError for a schema that a newer
    release has made this one unfit for, and where the user may not change it: with the statements for whoever may."""
    carried_out = _noted(connection, known)
    missing = [one for one in known if (one.number, one.stage) not in carried_out]
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
    carried_out = _noted(connection, known)
    added = [one for one in known if one.stage == "before" and (one.number, one.stage) not in carried_out]
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


def _noted(connection: Connection, known: Sequence[Migration]) -> set[tuple[int, str]]:
    """Return number and stage of what has been carried out. Refuses a version that this release does not know."""
    if not _one(connection, IS_THERE, "meta", None, None):
        return set()
    version, notes = connection.execute(READ).fetchone() or (FIRST, [])
    known_version = max([FIRST, *(one.number for one in known if one.stage == "after")])
    if version > known_version:
        maker = next((note["release"] for note in reversed(notes) if note["number"] == version), "")
        raise StateError(
            f"the state at the target has version {version}, this release knows {known_version}",
            hint=f"use anabranch {maker} or a newer one" if maker else "use the release that made it, or a newer one",
        )
    return {(note["number"], note["stage"]) for note in notes}


def _is_made(connection: Connection, one: Migration) -> bool:
    if one.makes is None:
        return False
    table, column = one.makes
    return bool(_one(connection, IS_THERE, table, column, column))


def _note(connection: Connection, done: Sequence[Migration]) -> None:
    for one in done:
        note = {"number": one.number, "stage": one.stage, "name": one.name, "release": __version__}
        connection.execute(NOTE, [Jsonb(note)])


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
