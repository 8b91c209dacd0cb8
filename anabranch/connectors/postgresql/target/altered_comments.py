"""Comments that the source has altered are altered at the target's table and columns, inside the epoch.

What does not live here: comments of what is created (`ddl.py`), or of columns that come (`altered_columns.py`).
"""

from __future__ import annotations

from collections.abc import Iterator

from anabranch.connectors.postgresql.connection import Connection
from anabranch.connectors.postgresql.quoting import literal, qualified, quote
from anabranch.connectors.postgresql.target.altered_indexes import attempt
from anabranch.model.comment_changes import OF_TABLE
from anabranch.rows.altered import AlteredTable


def alter(connection: Connection, altered: AlteredTable) -> list[str]:
    """Carry out the statements, in the open transaction. Returns what was not done, and why. Errors of the driver pass that
    mean something else than a refusal."""
    refused = ((what, attempt(connection, statement)) for what, statement in statements(altered))
    return [f"{what} is not changed: {why}" for what, why in refused if why]


def statements(altered: AlteredTable) -> Iterator[tuple[str, str]]:
    """Yield what gets another comment, for people, with the statement. https://www.postgresql.org/docs/current/sql-comment.html"""
    place = qualified(altered.table.target)
    if altered.comments.table:
        yield OF_TABLE, f"COMMENT ON TABLE {place} IS {_text(altered.schema.comment)}"
    for name in altered.comments.columns:
        column = f"{place}.{quote(altered.target(name))}"
        yield f"comment of {name}", f"COMMENT ON COLUMN {column} IS {_text(altered.schema.column(name).comment)}"


def _text(comment: str) -> str:
    text = comment.replace("\x00", "")  # no text here has a NUL character
    return literal(text) if text else "NULL"
