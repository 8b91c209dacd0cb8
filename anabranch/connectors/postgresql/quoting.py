"""Names and strings as PostgreSQL's SQL writes them. Text, no server is asked."""

from __future__ import annotations

from anabranch.model.ids import TableId


def quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def qualified(table: TableId) -> str:
    return f"{quote(table.schema)}.{quote(table.name)}"


def literal(text: str) -> str:
    """Return a string constant under `standard_conforming_strings`, the default since 9.1."""
    return "'" + text.replace("'", "''") + "'"
