"""Conditions over keys in the order that a key's index has, also where the types' operators are not in pg_catalog.

Our sessions find operators in pg_catalog alone. There `>` of a citext is that of text, which is no error and another order than
the index and ORDER BY have: https://www.postgresql.org/docs/current/citext.html. So such operators are named with their schema.
What does not live here: where a table is cut (snapshot.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import LiteralString

from psycopg import sql

from anabranch.connectors.postgresql.connection import Connection, column_list, table_name
from anabranch.model.schema import TableSchema

Operators = Mapping[tuple[str, str], sql.Composable]  # (column, sign) -> the operator with its schema
# https://www.postgresql.org/docs/current/xindex.html#XINDEX-STRATEGIES
SIGNS = {1: "<", 2: "<=", 3: "=", 4: ">=", 5: ">"}
# Of a domain the type that it is made of counts.
OPERATORS: LiteralString = """
WITH RECURSIVE t (name, oid) AS (
  SELECT a.attname::text, a.atttypid FROM pg_attribute a WHERE a.attrelid = %s::regclass AND a.attname = ANY(%s)
  UNION ALL SELECT t.name, y.typbasetype FROM t JOIN pg_type y ON y.oid = t.oid WHERE y.typtype = 'd')
SELECT t.name, m.amopstrategy::int, n.nspname::text, o.oprname::text
  FROM t JOIN pg_opclass c ON c.opcintype = t.oid AND c.opcdefault
  JOIN pg_am k ON k.oid = c.opcmethod AND k.amname = 'btree'
  JOIN pg_amop m ON m.amopfamily = c.opcfamily AND m.amoplefttype = t.oid AND m.amoprighttype = t.oid
  JOIN pg_operator o ON o.oid = m.amopopr JOIN pg_namespace n ON n.oid = o.oprnamespace
 WHERE n.nspname <> 'pg_catalog'
"""


def may_have_own(table: TableSchema, names: Sequence[str]) -> bool:
    """Return whether one of the columns has a type outside pg_catalog: format_type() then gives its schema."""
    return any("." in table.column(name).native for name in names)


def operators(connection: Connection, table: TableSchema, names: Sequence[str]) -> Operators:
    """Return the operators of these columns' types that are outside pg_catalog."""
    rows = connection.execute(OPERATORS, [table_name(table.id).as_string(None), list(names)]).fetchall()
    return {
        (name, SIGNS[strategy]): sql.SQL("OPERATOR({}.{})").format(sql.Identifier(schema), sql.SQL(sign))
        for name, strategy, schema, sign in rows
    }


def compared(names: Sequence[str], sign: str, values: Sequence[sql.Composable], own: Operators) -> sql.Composable:
    """Return `(names) sign (values)`. Row comparison uses one operator for all columns: with `own` operators it is
    spelled out.
    """
    if not own:
        return sql.SQL("ROW({}) {} ROW({})").format(column_list(list(names)), sql.SQL(sign), sql.SQL(", ").join(values))
    one = sql.SQL("{} {} {}").format
    column = sql.Identifier(names[0])

    def by(wanted: str) -> sql.Composable:
        return own.get((names[0], wanted), sql.SQL(wanted))

    if len(names) == 1:
        return one(column, by(sign), values[0])
    rest = compared(names[1:], sign, values[1:], own)
    if sign == "=":
        return sql.SQL("{} AND {}").format(one(column, by("="), values[0]), rest)
    strict, value = sign[0], values[0]
    reached = one(column, by(f"{strict}="), value)  # which an index serves
    return sql.SQL("({} AND ({} OR {} AND {}))").format(
        reached, one(column, by(strict), value), one(column, by("="), value), rest
    )
