"""Comments that the source has altered are altered at the target's table and columns, between two epochs: ALTER TABLE commits
by itself, and may be carried out again.

A column's comment is part of its definition, which has to be said again with it: as SHOW CREATE TABLE prints it, so that
nothing else of the column changes, and no row is written.
What does not live here: comments of columns that come or are defined anew (`ddl.py`), when it is done (apply engine).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

from anabranch.connectors.mysql.connection import printed
from anabranch.connectors.mysql.target.altered_indexes import attempt
from anabranch.connectors.mysql.target.ddl import COLUMN_COMMENT, TABLE_COMMENT
from anabranch.connectors.mysql.target.release import Release
from anabranch.connectors.mysql.target.session import Connection, ask, quoted, table_name
from anabranch.connectors.mysql.target.words import literal
from anabranch.model.comment_changes import OF_TABLE
from anabranch.rows.altered import AlteredTable

# Texts and names of a line, and what stands between them; a comment with its text.
_PART = re.compile(r" COMMENT '(?:[^'\\]|\\.|'')*'|'(?:[^'\\]|\\.|'')*'|`(?:[^`]|``)*`|[^'`]", re.DOTALL)
_NAME = re.compile(r"`((?:[^`]|``)*)` ")
_IS_MOMENT = re.compile(r"timestamp\b", re.IGNORECASE)
_HAS_DEFAULT = re.compile(r" (?:DEFAULT|NULL DEFAULT|AUTO_INCREMENT|GENERATED|AS \()")


def alter(connection: Connection, altered: AlteredTable, release: Release) -> list[str]:
    """Carry out the statements, each by itself. Returns what was not done, and why. Errors of the driver pass that mean
    something else than a refusal."""
    left = []
    for what, statement in statements(connection, altered, release):
        why = attempt(connection, statement)[1] if statement.startswith("ALTER ") else statement
        left += [f"{what} is not changed: {why}"] if why else []
    return left


def statements(
    connection: Connection, altered: AlteredTable, release: Release, restated: Collection[str] = ()
) -> Iterator[tuple[str, str]]:
    """Yield what gets another comment, for people, with the statement, or with why there is none. `restated`: columns
    (source's names of now) that stand otherwise until steps are carried out, left out."""
    place = f"ALTER TABLE {table_name(altered.table.target)}"
    if altered.comments.table:
        comment = altered.schema.comment
        yield OF_TABLE, _not_taken(comment, TABLE_COMMENT) or f"{place} COMMENT={literal(comment)}"
    lines = _lines(connection, altered) if altered.comments.columns else {}
    for name in (one for one in altered.comments.columns if one not in restated):
        comment, target = altered.schema.column(name).comment, altered.target(name)
        line = lines.get(target.lower()) or _called(lines.get(altered.former_of(name).lower(), ""), target)
        why = _not_taken(comment, COLUMN_COMMENT) or _unlike(line, target, release)
        yield f"comment of {name}", why or f"{place} MODIFY COLUMN {with_comment(line, comment)}"


def _not_taken(comment: str, most: int) -> str:
    if "\0" in comment:
        return "it has a NUL character"
    return f"it is longer than {most} characters" if len(comment) > most else ""


def _unlike(line: str, name: str, release: Release) -> str:
    """Return why the server would make something else of this definition of a column, "" where it would not."""
    if not line:
        return f"the target's table has no column {name}"
    definition = _NAME.sub("", with_comment(line, ""), count=1)
    if not definition.isprintable():
        return "the server does not print the column's definition as text"
    said = definition.partition(" CHECK (")[0]
    is_moment = _IS_MOMENT.match(said) and " NOT NULL" in said and not _HAS_DEFAULT.search(said)
    return "the server would give the column a default" if is_moment and not release.explicit else ""


def _called(line: str, name: str) -> str:
    """Return the definition under the column's next name; "" for none."""
    return _NAME.sub(lambda _: f"{quoted(name)} ", line, count=1)


def _lines(connection: Connection, altered: AlteredTable) -> dict[str, str]:
    """Return the definitions of the target's columns as the server prints them, by their names in small letters."""
    lines = (
        line.strip().removesuffix(",")
        for line in printed(connection, table_name(altered.table.target), ask).split("\n")
    )
    columns = ((line, _NAME.match(line)) for line in lines)
    return {found[1].replace("``", "`").lower(): line for line, found in columns if found}


def with_comment(line: str, comment: str) -> str:
    """Return the definition of a column with another comment, or without one: in front of a check, which ends a definition."""
    parts = [part for part in _PART.findall(line) if not part.startswith(" COMMENT '")]
    said, text = f" COMMENT {literal(comment)}" if comment else "", ""
    for place, part in enumerate(parts):
        if part == " " and "".join(parts[place : place + 8]).startswith(" CHECK ("):
            return text + said + "".join(parts[place:])
        text += part
    return text + said
