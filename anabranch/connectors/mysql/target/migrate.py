"""Bring the database `anabranch` to this release: numbered files of plain SQL (`migrations/`), each carried out once.

`NNNN_name.before.sql` only adds: releases that do not know it go on working in the same database, on their own jobs. What takes
something away from them stands in `NNNN_name.after.sql`; it waits until each job of the database was started by a release
that knows its number, and raises `meta.version`, by which older releases refuse the state from then on.

MySQL commits with every CREATE and ALTER. A start may end between two of them, so each statement can be repeated, or its file
has no other: the first line of a file, `-- makes: anabranch.table` or `anabranch.table.column` (of an `after`: `-- drops: …`),
says by what it is known that it was carried out. `meta.migrations` notes it last.

What does not live here: the lock (`state_session.py`), which is the caller's.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

import pymysql

from anabranch.connectors.mysql.target.session import Connection, ask, one, run
from anabranch.errors import StateError
from anabranch.version import __version__

FILE = re.compile(r"(?P<number>\d{4})_(?P<name>\w+)\.(?P<stage>before|after)\.sql")
TELLS = re.compile(r"-- (?P<does>makes|drops): anabranch\.(?P<table>\w+)(?:\.(?P<column>\w+))?\n")
COMMENT = re.compile(r"\s*--[^\n]*")
STATEMENT_END = re.compile(r";\s*(?:\n|$)")
FIRST = 1  # meta.version before the first `after`
KNOWS = "knows"  # fact of a job: the newest migration that the release knows which started it last
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


@dataclass(frozen=True, slots=True)
class Migration:
    """A file. `tells`: table and column (None: the table itself) whose presence, of an `after` whose absence, says that it was
    carried out."""

    number: int
    name: str
    stage: str
    sql: str
    tells: tuple[str, str | None]

    def __str__(self) -> str:
        return f"{self.number:04}_{self.name}.{self.stage}"

    @property
    def statements(self) -> list[str]:
        """Return its statements without comments."""
        return [text.strip() for text in STATEMENT_END.split(COMMENT.sub("", self.sql)) if text.strip()]


def parsed(file: str, text: str) -> Migration:
    """Return the migration that a file of this name and text is. Raises ValueError for one that is none."""
    found, tells = FILE.fullmatch(file), TELLS.match(text)
    if not found or not tells or (tells["does"] == "makes") != (found["stage"] == "before"):
        raise ValueError(f"{file}: NNNN_name.before.sql or .after.sql, with what it makes or drops in its first line")
    return Migration(int(found["number"]), found["name"], found["stage"], text, (tells["table"], tells["column"]))


@cache
def shipped() -> tuple[Migration, ...]:
    """Return the migrations of this release in order: of one number `before` first."""
    folder = files(__package__).joinpath("migrations")
    found = [parsed(file.name, file.read_text()) for file in folder.iterdir() if file.name.endswith(".sql")]
    return tuple(sorted(found, key=lambda step: (step.number, step.stage == "after")))


def newest(known: Sequence[Migration]) -> int:
    return max(step.number for step in known)


def migrate(connection: Connection, known: Sequence[Migration]) -> None:
    """Carry out what is missing, under the caller's lock. Raises StateError for a state that a newer release has made this one
    unfit for, and where the user may not change it: with the statement that lets it."""
    carried_out = _noted(connection, known)
    missing = [step for step in known if (step.number, step.stage) not in carried_out]
    with _permitted(connection):
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
    carried_out = _noted(connection, known)
    added = [step for step in known if step.stage == "before" and (step.number, step.stage) not in carried_out]
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


def _noted(connection: Connection, known: Sequence[Migration]) -> set[tuple[int, str]]:
    """Return number and stage of what has been carried out. Refuses a version that this release does not know."""
    version, notes = _meta(connection) or (FIRST, [])
    known_version = max([FIRST, *(step.number for step in known if step.stage == "after")])
    if version > known_version:
        maker = next((note["release"] for note in reversed(notes) if note["number"] == version), "")
        raise StateError(
            f"the state at the target has version {version}, this release knows {known_version}",
            hint=f"use anabranch {maker} or a newer one" if maker else "use the release that made it, or a newer one",
        )
    return {(note["number"], note["stage"]) for note in notes}


def _carry_out(connection: Connection, step: Migration, is_first: bool = False) -> None:
    """Carry out a file and note it. The first one is repeated whole until it is noted: its row of `meta` comes last."""
    if is_first or not _is_done(connection, step):
        for statement in step.statements:
            run(connection, statement)
    _, notes = _meta(connection) or (FIRST, [])
    note = {"number": step.number, "stage": step.stage, "name": step.name, "release": __version__}
    notes.append({**note, "at": one(connection, CLOCK)})
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
