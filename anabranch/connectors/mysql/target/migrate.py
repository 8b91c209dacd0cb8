"""Bring the database `anabranch` to this release by files of plain SQL (`migrations/`), each carried out once.

MySQL commits with every CREATE and ALTER. A start may end between two of them, so each statement can be repeated, or its file
has no other. `meta.migrations` notes a file last.

What does not live here: the files' names and notes (`sql/migrations.py`), the lock (`state_session.py`), which is the caller's.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pymysql

from anabranch.connectors.mysql.target.session import Connection, ask, logged, one, run
from anabranch.connectors.sql.migrations import FIRST, KNOWS, Done, Migration, carried_out, shipped_in
from anabranch.errors import StateError

# What the job's user needs in the database. https://dev.mysql.com/doc/refman/8.0/en/privileges-provided.html
RIGHTS = "SELECT, INSERT, UPDATE, DELETE, CREATE, DROP, ALTER, INDEX, CREATE TEMPORARY TABLES"
DENIED = (1044, 1142, 1227)
GONE = (1146, 1049)  # no such table, no such database

HAS_TABLE = "SELECT 1 FROM information_schema.TABLES WHERE TABLE_SCHEMA = 'anabranch' AND TABLE_NAME = %s"
HAS_COLUMN = """
SELECT 1 FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = 'anabranch' AND TABLE_NAME = %s AND COLUMN_NAME = %s
"""
READ = "SELECT `version`, `migrations` FROM `anabranch`.`meta`"
NOTE = "UPDATE `anabranch`.`meta` SET `migrations` = %s"
RAISE = "UPDATE `anabranch`.`meta` SET `version` = %s"
CLOCK = "SELECT DATE_FORMAT(UTC_TIMESTAMP(), '%Y-%m-%dT%H:%i:%sZ')"
KNOWN_BY = "SELECT `facts` FROM `anabranch`.`job`"


def shipped() -> tuple[Migration, ...]:
    """Return the migrations of this release in order."""
    return shipped_in(__package__)


def migrate(connection: Connection, known: Sequence[Migration]) -> None:
    """Carry out what is missing, under the caller's lock. Raises StateError for a state that a newer release has made this one
    unfit for, and where the user may not change it: with the statement that lets it."""
    done = _noted(connection, known)
    missing = [step for step in known if (step.number, step.stage) not in done]
    with _permitted(connection), logged(connection):
        for step in missing:
            if step.stage == "before":
                _carry_out(connection, step, is_first=step is known[0])
        for step in missing:
            if step.stage == "after":
                if _needs_older(connection, step.number):
                    return
                _carry_out(connection, step)
                run(connection, RAISE, step.number)


def pending(connection: Connection, known: Sequence[Migration]) -> list[Migration]:
    """Return what the next start would add to a state that is there; reads only. Raises StateError as `migrate`."""
    done = _noted(connection, known)
    added = [step for step in known if step.stage == "before" and (step.number, step.stage) not in done]
    return [step for step in added if not _is_done(connection, step)]


def grant(connection: Connection) -> str:
    """Return the statement that gives the user what it needs for the state."""
    user, _, host = str(one(connection, "SELECT CURRENT_USER()")).rpartition("@")
    return f"GRANT {RIGHTS} ON `anabranch`.* TO '{user}'@'{host}'"


def is_there(connection: Connection) -> bool:
    """Return whether there is a state of any job: the last statement of the first migration has made its row."""
    return _meta(connection) is not None


def _meta(connection: Connection) -> tuple[int, list[dict[str, Any]]] | None:
    """Return version and notes. Asked without a right to it first: the server says of what is not there that it is denied."""
    if one(connection, HAS_TABLE, "meta") is None:
        return None
    try:
        rows = ask(connection, READ)
    except pymysql.err.Error as error:
        if error.args[0] in GONE:
            return None
        raise
    return (int(rows[0][0]), json.loads(rows[0][1])) if rows else None


def _noted(connection: Connection, known: Sequence[Migration]) -> Done:
    version, notes = _meta(connection) or (FIRST, [])
    return carried_out(known, version, notes)


def _carry_out(connection: Connection, step: Migration, is_first: bool = False) -> None:
    """Carry out a file and note it. The first one is repeated whole until it is noted: its row of `meta` comes last."""
    if is_first or not _is_done(connection, step):
        for statement in step.statements:
            run(connection, statement)
    _, notes = _meta(connection) or (FIRST, [])
    notes.append({**step.note, "at": one(connection, CLOCK)})
    run(connection, NOTE, json.dumps(notes))


def _is_done(connection: Connection, step: Migration) -> bool:
    table, column = step.tells
    names = [table] if column is None else [table, column]
    found = one(connection, HAS_TABLE if column is None else HAS_COLUMN, *names) is not None
    return found == (step.stage == "before")


def _needs_older(connection: Connection, number: int) -> bool:
    """Return whether a job was started last by a release which does not know this number."""
    stored = (json.loads(facts or "{}") for (facts,) in ask(connection, KNOWN_BY))
    return any(int(facts.get(KNOWS, 0)) < number for facts in stored)


@contextmanager
def _permitted(connection: Connection) -> Iterator[None]:
    try:
        yield
    except pymysql.err.Error as error:
        if error.args[0] not in DENIED:
            raise
        raise StateError(
            f"the job's user may not make the state of jobs at the target: {error.args[1]}", hint=grant(connection)
        ) from None
