"""Statements of a PostgreSQL's log: it has none, rows and truncates only. What a table's definition is now, its relation
message says (relations.py).
"""

from __future__ import annotations

from anabranch.rows.log_items import StatementFacts, StatementKind


class PostgresDialect:
    """Dialect."""

    def facts(self, sql: str, default_schema: str) -> StatementFacts:
        return StatementFacts(StatementKind.UNKNOWN)

    def shown(self, sql: str) -> str:
        return ""
