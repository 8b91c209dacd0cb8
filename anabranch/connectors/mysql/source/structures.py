"""CHECK constraints of tables, as each server's information_schema tells them.

https://dev.mysql.com/doc/refman/8.0/en/information-schema-check-constraints-table.html
https://mariadb.com/kb/en/information-schema-check_constraints-table/ What does not live here: what a clause means
(`conditions.py`), what a schema has beside tables (`preflight_structures.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from anabranch.connectors.mysql.source.expressions import name
from anabranch.model.check_changes import NOT_ENFORCED
from anabranch.model.datatype import Kind
from anabranch.model.schema import Check, TableSchema

# The first version that has checks; older ones parse and forget them.
CHECKS_SINCE = {"mysql": (8, 0, 16), "mariadb": (10, 2, 22)}
_CHECKS = {
    "mysql": (
        "SELECT t.TABLE_NAME, c.CONSTRAINT_NAME, c.CHECK_CLAUSE, t.ENFORCED FROM information_schema.TABLE_CONSTRAINTS t"
        " JOIN information_schema.CHECK_CONSTRAINTS c ON c.CONSTRAINT_SCHEMA = t.CONSTRAINT_SCHEMA"
        " AND c.CONSTRAINT_NAME = t.CONSTRAINT_NAME"
        " WHERE t.CONSTRAINT_TYPE = 'CHECK' AND t.CONSTRAINT_SCHEMA = %s{one} ORDER BY t.TABLE_NAME, c.CONSTRAINT_NAME"
    ),
    "mariadb": (
        "SELECT TABLE_NAME, CONSTRAINT_NAME, CHECK_CLAUSE FROM information_schema.CHECK_CONSTRAINTS"
        " WHERE CONSTRAINT_SCHEMA = %s{one} ORDER BY TABLE_NAME, CONSTRAINT_NAME"
    ),
}
HIDDEN = ("row_start", "row_end")  # of a versioned table that declares none itself; no catalogue shows them
TABLE_COLUMN = {"mysql": "t.TABLE_NAME", "mariadb": "TABLE_NAME"}


def checks_query(family: str, version: tuple[int, int, int]) -> str | None:
    """Return the query for checks, with a place for the condition on one table; None where the server has no checks."""
    return _CHECKS[family] if version >= CHECKS_SINCE[family] else None


def checks_of(family: str, table: TableSchema, rows: Iterable[Mapping[str, Any]]) -> tuple[Check, ...]:
    """Return the checks, without those that the type says already: JSON columns hold valid JSON."""
    columns = {column.name: column for column in table.columns}
    json = {f"json_valid({name(c.name)})" for c in table.columns if c.type and c.type.kind is Kind.JSON}
    return tuple(_check(family, row, columns) for row in rows if row["CHECK_CLAUSE"] not in json)


def _check(family: str, row: Mapping[str, Any], columns: Mapping[str, Any]) -> Check:
    if row.get("ENFORCED", "YES") == "NO":
        return Check(row["CONSTRAINT_NAME"], row["CHECK_CLAUSE"], refusal=NOT_ENFORCED)
    from anabranch.connectors.mysql.source.conditions import READERS  # with a parser that takes its time to come

    return READERS[family](row["CONSTRAINT_NAME"], row["CHECK_CLAUSE"], columns)
