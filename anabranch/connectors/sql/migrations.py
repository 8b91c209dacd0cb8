"""Numbered files of plain SQL that bring the state of jobs at a target to this release (`target/migrations/`), each carried out
once, and the notes of what was.

`NNNN_name.before.sql` only adds: releases that do not know it go on working in the same database, on their own jobs; where its
table may not be passed over, until it is first used (`version_in_use`). What takes something away from them stands in
`NNNN_name.after.sql`; it waits until each job of the database was started by a release that knows its number, and raises the
state's version, by which older releases refuse the state from then on.

A file's first line says by what it is known that it was carried out: `-- makes: anabranch.table` or `anabranch.table.column`;
of an `after`: `-- drops: …`. What does not live here: carrying a file out, and where the notes stand (`target/migrate.py`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from anabranch.errors import StateError
from anabranch.version import __version__

FILE = re.compile(r"(?P<number>\d{4})_(?P<name>\w+)\.(?P<stage>before|after)\.sql")
TELLS = re.compile(r"-- (?P<does>makes|drops): anabranch\.(?P<table>\w+)(?:\.(?P<column>\w+))?\n")
COMMENT = re.compile(r"\s*--[^\n]*")
STATEMENT_END = re.compile(r";\s*(?:\n|$)")
DOES = {"before": "makes", "after": "drops"}
FIRST = 1  # the version before the first `after`
APPLIED = "applied"  # the migration whose table releases that do not know it must not pass over, once it is in use
KNOWS = "knows"  # fact of a job: the newest migration that the release knows which started it last

Done = set[tuple[int, str]]  # number and stage of what has been carried out


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

    @property
    def note(self) -> dict[str, Any]:
        """Return what is noted of it; the target adds the time by its own clock (`at`)."""
        return {"number": self.number, "stage": self.stage, "name": self.name, "release": __version__}


def parsed(file: str, text: str) -> Migration:
    """Return the migration that a file of this name and text is. Raises ValueError for one that is none."""
    found, tells = FILE.fullmatch(file), TELLS.match(text)
    if not found or not tells or tells["does"] != DOES[found["stage"]]:
        raise ValueError(f"{file}: NNNN_name.before.sql or .after.sql, with what it makes or drops in its first line")
    return Migration(int(found["number"]), found["name"], found["stage"], text, (tells["table"], tells["column"]))


@cache
def shipped_in(package: str) -> tuple[Migration, ...]:
    """Return the migrations in the folder of a package, in order: of one number `before` first."""
    found = [
        parsed(one.name, one.read_text()) for one in files(package).joinpath("migrations").iterdir() if _is_sql(one)
    ]
    return tuple(sorted(found, key=lambda one: (one.number, one.stage == "after")))


def _is_sql(file: Any) -> bool:
    return bool(file.name.endswith(".sql"))


def newest(known: Iterable[Migration]) -> int:
    return max(one.number for one in known)


def version_in_use(known: Iterable[Migration]) -> int:
    """Return the version that keeps out releases which do not know the notes of what is applied beyond a checkpoint."""
    return next(one.number for one in known if one.name == APPLIED)


def carried_out(known: Sequence[Migration], version: int, notes: Sequence[Mapping[str, Any]]) -> Done:
    """Return number and stage of what has been carried out. Raises StateError for a version that this release does not know."""
    known_version = max([FIRST, *(one.number for one in known if one.stage == "after" or one.name == APPLIED)])
    if version > known_version:
        maker = next((note["release"] for note in reversed(notes) if note["number"] == version), "")
        raise StateError(
            f"the state at the target has version {version}, this release knows {known_version}",
            hint=f"use anabranch {maker} or a newer one" if maker else "use the release that made it, or a newer one",
        )
    return {(note["number"], note["stage"]) for note in notes}
