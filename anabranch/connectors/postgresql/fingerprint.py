"""Fingerprints of rows (rows/fingerprint.py) by the server itself: one statement, one row of an answer.

https://www.postgresql.org/docs/current/xindex.html#XINDEX-HASH-SUPPORT-TABLE has the support functions of hashing that take a
seed; hash partitions depend on them, so that no release may change them.
"""

from __future__ import annotations

from collections.abc import Sequence

import psycopg
from psycopg import sql

from anabranch.connectors.postgresql.connection import Connection, table_name
from anabranch.model.datatype import Kind
from anabranch.model.ids import TableId
from anabranch.rows.fingerprint import FLAGS, MODULUS, Fingerprint, Form, Hashed

# What a machine of another byte order, or a hash of other functions, would give otherwise.
PROBE = "hashtextextended('a probe of thirty-two characters' COLLATE \"C\", hashint8extended(-1, 1))"
PROBED = -8016756017264622930
# The inner query is not merged into the outer: each hash is made once.
_SUM = """
SELECT count(*), count(hash), coalesce(sum(hash), 0),
       {probe} = {probed} AND pg_catalog.getdatabaseencoding() = 'UTF8' AND NOT EXISTS (
         SELECT FROM pg_catalog.pg_attribute WHERE attrelid = {name}::regclass AND attname = ANY({characters}::text[])
            AND atttypid NOT IN ('text'::regtype, 'varchar'::regtype))
  FROM (SELECT {hash} AS hash FROM {table} WHERE {condition} OFFSET 0) AS hashed
"""
# A column of another type than it was to be: no function above takes it by itself, or what stands for its NULL is none of it.
_OTHER_TYPES = (psycopg.errors.UndefinedFunction, psycopg.errors.DatatypeMismatch, psycopg.DataError)
# Of a value, with {0} for the column and {1} for the seed. concat() gives what COPY prints, and no character for NULL.
_HASHES: dict[Form, str] = {
    Form.TEXT: 'hashtextextended(concat({0}) COLLATE "C", {1})',
    Form.INT32: "hashint4extended({0}, {1})",
    Form.INT64: "hashint8extended({0}, hashint4extended(({0} >> 32)::int4, {1}))",
    Form.CLOCK: "timestamp_hash_extended({0}, {1})",
}
_CHARACTERS = 'hashtextextended({0} COLLATE "C", {1})'
_OF_CHARACTERS = frozenset((Kind.TEXT, Kind.ENUM, Kind.SET))
_IN_UTC = "({0} AT TIME ZONE 'UTC')"
_EMPTY: dict[Form, str] = {
    Form.TEXT: "coalesce({0}, '')",
    Form.INT32: "coalesce({0}, 0)",
    Form.INT64: "coalesce({0}, 0)",
    Form.CLOCK: "coalesce({0}, timestamp '2000-01-01')",
}


def fingerprint(
    connection: Connection, table: TableId, columns: Sequence[Hashed], condition: sql.Composable
) -> Fingerprint | None:
    """Of the rows for which the condition holds. None where the server has other hashes, no UTF-8, or other types than these
    columns were to have, and where one has a NULL that is to have none."""
    name = table_name(table)
    query = sql.SQL(_SUM).format(
        probe=sql.SQL(PROBE),
        probed=sql.Literal(PROBED),
        name=sql.Literal(name.as_string(None)),
        characters=sql.Literal([column.name for column in columns if _is_of_characters(column)]),
        hash=_hash(columns),
        table=name,
        condition=condition,
    )
    try:
        found = connection.execute(query).fetchone()
    except _OTHER_TYPES:
        return None
    assert found is not None, "an aggregate without groups has a row"
    rows, hashes, total, is_as_defined = found
    return Fingerprint(rows, int(total) % MODULUS) if is_as_defined and rows == hashes else None


def _is_of_characters(column: Hashed) -> bool:
    """Text or varchar; any other type goes through the text that COPY prints."""
    return column.type.kind in _OF_CHARACTERS


def _hash(columns: Sequence[Hashed]) -> sql.Composable:
    found: sql.Composable = sql.SQL("0")
    nullable = [column for column in columns if column.nullable]
    for first in range(0, len(nullable), FLAGS):
        found = sql.SQL("hashint4extended({}, {})").format(_flags(nullable[first : first + FLAGS]), found)
    for column in columns:
        found = _column(column, found)
    return found


def _flags(columns: Sequence[Hashed]) -> sql.Composable:
    """One bit for each."""
    return sql.SQL(" | ").join(
        sql.SQL("(CASE WHEN {} IS NULL THEN {} ELSE 0 END)").format(sql.Identifier(column.name), sql.SQL(str(1 << bit)))
        for bit, column in enumerate(columns)
    )


def _column(column: Hashed, seed: sql.Composable) -> sql.Composable:
    value: sql.Composable = sql.Identifier(column.name)
    is_text = _is_of_characters(column)
    if column.type.kind is Kind.INSTANT:
        value = sql.SQL(_IN_UTC).format(value)
    if column.nullable and (is_text or column.form is not Form.TEXT):
        value = sql.SQL(_EMPTY[column.form]).format(value)
    return sql.SQL(_CHARACTERS if is_text else _HASHES[column.form]).format(value, seed)
