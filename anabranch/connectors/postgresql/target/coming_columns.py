"""Columns that come to a table of a pair while both sites write it, at a PostgreSQL target: whether one that stands is the one
that comes, and what rows have in it that were written without it.

What does not live here: when they come (apply engine), adding them (`altered_columns.py`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from psycopg import sql

from anabranch.connectors.postgresql.connection import Connection, table_name
from anabranch.connectors.postgresql.errors import translated
from anabranch.connectors.postgresql.quoting import literal, qualified
from anabranch.connectors.postgresql.target import ddl
from anabranch.connectors.postgresql.target.fits import takes
from anabranch.contracts import ValueRules
from anabranch.rows.altered import AlteredTable, ColumnAdded
from anabranch.rows.net import TargetTable

# Nobody takes the name of a column that is computed, or counts, for one that comes; before release 12 none are computed.
_STANDING = """
SELECT a.attname::text, format_type(a.atttypid, a.atttypmod), pg_get_expr(d.adbin, d.adrelid),
       a.attidentity <> '' OR coalesce(to_jsonb(a) ->> 'attgenerated', '') <> ''
  FROM pg_attribute a LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
 WHERE a.attrelid = to_regclass({table}) AND a.attnum > 0 AND NOT a.attisdropped
"""
# A constant as pg_get_expr prints it: no function of anybody's is called to find out its value.
# It prints a backslash as it is, without an E, as long as standard_conforming_strings is on.
_TYPE = r'(?:"(?:[^"]|"")*"|[\w .:\[\]])+'
_CONSTANT = re.compile(
    r"\(?(?:'(?:[^']|'')*'|E'(?:[^'\\]|''|\\.)*'|-?\d+(?:\.\d+)?|true|false)\)?"
    rf"(?:::{_TYPE}(?:\([\d, ]+\)(?:{_TYPE})?)?)?",
    re.DOTALL,
)


@dataclass(frozen=True)
class Coming:
    """`outside`: returns the session while no epoch is open, `inside`: while one is."""

    outside: Callable[[], Connection]
    inside: Callable[[], Connection]
    rules: ValueRules

    def standing(self, altered: AlteredTable) -> dict[str, str]:
        connection, table = self.outside(), altered.table
        with translated(f"look at {table.target}", table.source):
            asked = _STANDING.format(table=literal(qualified(table.target)))
            there = {name: rest for name, *rest in connection.execute(asked.encode()).fetchall()}
            found = {}
            for step in altered.steps:
                if isinstance(step, ColumnAdded) and (name := altered.target(step.name)) in there:
                    found[step.name] = _unlike(connection, altered, step, there[name], self.rules)
            connection.commit()
        return found

    def kept_back(self, altered: AlteredTable) -> Mapping[str, str]:
        return {}  # what our constants are printed as is read as constants

    def beside(self, table: TargetTable) -> Sequence[str]:
        connection = self.inside()
        with translated(f"look at {table.target}", table.source):
            query = sql.SQL("SELECT * FROM {} LIMIT 0").format(table_name(table.target))
            with connection.cursor() as cursor:  # from here on nobody alters the table
                cursor.execute(query, prepare=False)
                names = [column.name for column in cursor.description or ()]
        ours = {*table.columns, *(name for _, name in table.computed)}
        return [name for name in names if name not in ours]

    def fill(self, table: TargetTable, key: Mapping[str, str | None], columns: Sequence[str]) -> None:
        connection = self.inside()
        with translated(f"update in {table.target}", table.source, dict(key)):
            values = {n: v.replace("\0", "") if v and self.rules.nul == "strip" else v for n, v in key.items()}
            sets = sql.SQL(", ").join(sql.SQL("{} = DEFAULT").format(sql.Identifier(name)) for name in columns)
            where = sql.SQL(" AND ").join(
                sql.SQL("{} = {}").format(sql.Identifier(name), sql.Literal(values[name])) for name in table.key
            )
            query = sql.SQL("UPDATE {} SET {} WHERE {}").format(table_name(table.target), sets, where)
            connection.execute(query, prepare=False)


def _unlike(
    connection: Connection, altered: AlteredTable, step: ColumnAdded, there: Sequence[object], rules: ValueRules
) -> str:
    native, default, is_computed = there
    name, column = altered.target(step.name), altered.schema.column(step.name)
    logical = altered.table.type_of(name)
    wanted = ddl.native_type(altered.schema, column, logical, rules)
    if is_computed:
        return f"{name} is computed there"
    if not takes(str(native), wanted):
        return f"{name} is {native} there, and would be {wanted}"
    expected = ddl.default_of(column, logical, ddl.is_as_there(altered.schema, logical))
    printed = None if default is None or str(default).upper().startswith("NULL::") else str(default)
    if not _is_equal(connection, str(native), printed, expected):
        return f"{name} has the default {printed or 'NULL'} there, and would have {expected or 'NULL'}"
    return ""


def _is_equal(connection: Connection, native: str, one: str | None, other: str | None) -> bool:
    """Return whether a default that stands is this constant. One that is computed is like none: rows that are there, and rows
    that come, would have other values in it."""
    if one is None or other is None:
        return one is other
    if not _CONSTANT.fullmatch(one):
        return False
    query = f"SELECT ({one})::{native}::text = {literal(other)}::{native}::text"
    row = connection.execute(query.encode().replace(b"%", b"%%"), ()).fetchone()
    return bool(row and row[0])
