"""Fingerprints of rows (rows/fingerprint.py) by the server itself: one statement, one row of an answer.

https://www.postgresql.org/docs/current/xindex.html#XINDEX-HASH-SUPPORT-TABLE has the support functions of hashing that take a
seed; hash partitions depend on them, so that no release may change them. sha256() is that of every database.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import LiteralString

import psycopg
from psycopg import sql

from anabranch.connectors.postgresql.connection import Connection, table_name
from anabranch.model.datatype import Kind
from anabranch.model.ids import TableId
from anabranch.rows.fingerprint import FLAGS, MODULUS, Fingerprint, Form, Hashed, Hashing

HASHINGS = frozenset((Hashing.LOOKUP3, Hashing.SHA256))
# What a machine of another byte order, or a hash of other functions, would give otherwise.
PROBE = "hashtextextended('a probe of thirty-two characters' COLLATE \"C\", hashint8extended(-1, 1))"
PROBED = -8016756017264622930
# The inner query is not merged into the outer: each hash is made once.
_SUM = """
SELECT count(*), count(hash), coalesce(sum(hash), 0),
       {probed} AND pg_catalog.getdatabaseencoding() = 'UTF8' AND NOT EXISTS (
         SELECT FROM pg_catalog.pg_attribute WHERE attrelid = {name}::regclass AND attname = ANY({characters}::text[])
            AND atttypid NOT IN ('text'::regtype, 'varchar'::regtype))
  FROM (SELECT {hash} AS hash FROM {table} WHERE {condition} OFFSET 0) AS hashed
"""
# A column of another type than it was to be, functions that may not be called, more columns than the server's stack holds.
# What is wrong beyond that is said by the look at rows, which comes then.
_REFUSALS = (psycopg.ProgrammingError, psycopg.DataError, psycopg.NotSupportedError, psycopg.errors.StatementTooComplex)
_OF_CHARACTERS = frozenset((Kind.TEXT, Kind.ENUM, Kind.SET))
# Of a value, {0} being the column and {1} the seed: where it may be NULL; where it may not, and a NULL has no hash. concat()
# gives what COPY prints, and of NULL nothing.
_Hashes = tuple[LiteralString, LiteralString]
_CHARACTERS: _Hashes = (
    "hashtextextended(coalesce({0}, '') COLLATE \"C\", {1})",
    'hashtextextended({0} COLLATE "C", {1})',
)
_PRINTED: _Hashes = (
    'hashtextextended(concat({0}) COLLATE "C", {1})',
    'hashtextextended(CASE WHEN {0} IS NOT NULL THEN concat({0}) END COLLATE "C", {1})',
)
# For SHA-256: the value's bytes, and a byte that no text has for a NULL, of which concat() gives nothing.
_BYTES_OF_CHARACTERS: LiteralString = "coalesce(convert_to({0}, 'UTF8'), '\\xfe')"
_BYTES: LiteralString = "CASE WHEN {0} IS NULL THEN '\\xfe' ELSE convert_to(concat({0}), 'UTF8') END"
_HASHES: dict[Form, _Hashes] = {
    Form.TEXT: _PRINTED,
    Form.CLOCK: _PRINTED,
    Form.INT32: ("hashint4extended(coalesce({0}, 0), {1})", "hashint4extended({0}, {1})"),
    Form.INT64: (
        "hashint8extended(coalesce({0}, 0), hashint4extended((coalesce({0}, 0)::int8 >> 32)::int4, {1}))",
        "hashint8extended({0}, hashint4extended(({0}::int8 >> 32)::int4, {1}))",
    ),
}


def fingerprint(
    connection: Connection,
    table: TableId,
    columns: Sequence[Hashed],
    condition: sql.Composable,
    rows: sql.Composable | None = None,
    hashing: Hashing = Hashing.LOOKUP3,
) -> Fingerprint | None:
    """Ask the server for the fingerprint of the rows for which the condition holds. `rows`: how a query names them,
    if not by the table. None where the server has other hashes, no UTF-8, or other types than these columns were to
    have, and where one has a NULL that is to have none."""
    name, is_own = table_name(table), hashing is Hashing.LOOKUP3
    query = sql.SQL(_SUM).format(
        probed=sql.SQL("{} = {}").format(sql.SQL(PROBE), sql.Literal(PROBED)) if is_own else sql.SQL("true"),
        name=sql.Literal(name.as_string(None)),
        characters=sql.Literal([column.name for column in columns if _is_of_characters(column)]),
        hash=_hash(columns) if is_own else _sha256(columns),
        table=rows or name,
        condition=condition,
    )
    try:
        found = connection.execute(query).fetchone()
    except _REFUSALS:
        return None
    assert found is not None, "an aggregate without groups has a row"
    count, hashes, total, is_as_defined = found
    return Fingerprint(count, int(total) % MODULUS) if is_as_defined and count == hashes else None


def _is_of_characters(column: Hashed) -> bool:
    """Return whether the column is text or varchar; any other type is hashed as the text that COPY prints."""
    return column.type.carried in _OF_CHARACTERS


def _hash(columns: Sequence[Hashed]) -> sql.Composable:
    found: sql.Composable = sql.SQL("0")
    nullable = [column for column in columns if column.nullable]
    for first in range(0, len(nullable), FLAGS):
        found = sql.SQL("hashint4extended({}, {})").format(_flags(nullable[first : first + FLAGS]), found)
    for column in columns:
        found = _column(column, found)
    return found


def _flags(columns: Sequence[Hashed]) -> sql.Composable:
    """Return SQL with one bit for each NULL."""
    return sql.SQL(" | ").join(
        sql.SQL("(CASE WHEN {} IS NULL THEN {} ELSE 0 END)").format(sql.Identifier(column.name), sql.SQL(str(1 << bit)))
        for bit, column in enumerate(columns)
    )


def _column(column: Hashed, seed: sql.Composable) -> sql.Composable:
    with_null, without = _CHARACTERS if _is_of_characters(column) else _HASHES[column.form]
    return sql.SQL(with_null if column.nullable else without).format(sql.Identifier(column.name), seed)


def _sha256(columns: Sequence[Hashed]) -> sql.Composable:
    """Return SQL for the first 64 bits of SHA-256, a signed number: sums are modulo 2**64."""
    parts = sql.SQL(" || '\\xff'::bytea || ").join(
        sql.SQL(_BYTES_OF_CHARACTERS if _is_of_characters(column) else _BYTES).format(sql.Identifier(column.name))
        for column in columns
    )
    return sql.SQL("('x' || left(encode(sha256({}), 'hex'), 16))::bit(64)::bigint").format(parts)
