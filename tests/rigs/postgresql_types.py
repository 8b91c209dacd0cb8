"""Rows of every type of PostgreSQL with values that are easily lost."""

from __future__ import annotations

from anabranch.connectors.postgresql.source.edge_values import values_of as values_of


def rows_of(type: str, values: tuple[str, ...], first: int) -> str:
    return ", ".join(f"({first + number}, ({value})::{type})" for number, value in enumerate((*values, "NULL")))
