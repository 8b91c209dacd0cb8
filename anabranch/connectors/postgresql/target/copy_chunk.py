"""Rows of a chunk copied into a PostgreSQL by COPY, as lines or in binary, each counted; a refused row is named by its key.

What does not live here: the chunk's transaction and its ledger row (load.py, ledger.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import chain

import psycopg
from psycopg import sql

from anabranch.connectors.postgresql.binary_forms import binary_forms
from anabranch.connectors.postgresql.connection import Connection, column_list, table_name
from anabranch.connectors.postgresql.errors import WAITED_FOR, Meaning, describe, meaning, state_of, translate
from anabranch.connectors.postgresql.target.copy_in import refuse_miscount
from anabranch.connectors.sql.held_blocks import holding
from anabranch.errors import RowRefused
from anabranch.rows.counted import Told, lines_in, miscount
from anabranch.rows.net import TargetTable

MALFORMED = "08P01"  # what a type's receive function says of bytes that it does not know, too
HELD_BYTES = 16 << 20  # one COPY: a refused row is looked up among the lines of its COPY, which are held until it ends

ZERO_DATE_HINT = '[types] zero_date = "null" turns zero dates into NULL'
UNIQUE_HINT = "the target table had this key before the load: [load] defer_constraints = true takes it off meanwhile"
# SQLSTATE -> what decides otherwise, for values that only a load meets; others: errors.MEANINGS
HINTS = {"22007": ZERO_DATE_HINT, "22008": ZERO_DATE_HINT, "23505": UNIQUE_HINT}

UNESCAPED = {b"\\\\": b"\\", b"\\t": b"\t", b"\\n": b"\n", b"\\r": b"\r"}
# in the error's context, in any language: COPY orders, line 7, column id: "x"
PLACE = re.compile(r"^COPY .*?, \D*(\d+)(?:, \S+ ([^:\n]+))?", re.MULTILINE)
ESCAPE = re.compile(rb"\\[\\tnr]")


def copy_lines(connection: Connection, job: str, table: TargetTable, number: int, lines: Iterable[bytes]) -> int:
    """Copy all lines, in one COPY after another of at most HELD_BYTES. Each has to take as many rows as were sent."""
    total, blocks = 0, iter(lines)
    for first in blocks:
        held: list[bytes] = []
        cursor = connection.cursor()
        try:
            with cursor.copy(copy_command(table)) as copy:
                for block in holding(chain([first], blocks), held, HELD_BYTES):
                    copy.write(block)
        except psycopg.Error as error:
            raise _refusal(error, job, table, held) from None
        sent = sum(map(lines_in, held))
        refuse_miscount(connection, table.target, sent, cursor.rowcount, f"load chunk {number}", table.source)
        total += sent
    return total


def copy_binary(
    connection: Connection, job: str, table: TargetTable, number: int, form: str, blocks: Iterable[bytes]
) -> int:
    """Copy a stream in one COPY. The lock keeps the columns' types as they are found to be.

    As many rows have to arrive as the source says it sent; otherwise they are read again as lines, which are counted at
    both ends.
    """
    connection.execute(sql.SQL("LOCK TABLE ONLY {} IN ROW EXCLUSIVE MODE").format(table_name(table.target)))
    if binary_forms(connection, [(table.target, table.columns)]) != [form]:
        raise RowRefused("the target's columns have other types by now", job=job, table=str(table.source))
    cursor, told = connection.cursor(), Told(blocks)
    try:
        with cursor.copy(copy_command(table) + sql.SQL(" (FORMAT binary)")) as copy:
            for block in told:
                copy.write(block)
    except psycopg.Error as error:
        kind, hint = meaning(error)
        if kind in WAITED_FOR and state_of(error) != MALFORMED:
            raise
        raise RowRefused(describe(error), hint=hint, job=job, table=str(table.source)) from None
    if told.rows is not None and told.rows != cursor.rowcount:
        message = f"load chunk {number}: {miscount('the source', told.rows, cursor.rowcount)}"
        raise RowRefused(message, job=job, table=str(table.source))
    return cursor.rowcount


def copy_command(table: TargetTable) -> sql.Composed:
    return sql.SQL("COPY {} ({}) FROM STDIN").format(table_name(table.target), column_list(table.columns))


def _refusal(error: psycopg.Error, job: str, table: TargetTable, held: list[bytes]) -> Exception:
    """Return RowRefused with the row's key where the server names a line of this COPY, else what the error means."""
    places = PLACE.findall(error.diag.context or "")
    kind, hint = meaning(error)
    if kind is not Meaning.CONFLICT or not places:
        return translate(error, f"copy rows into {table.target}")
    number, column = places[-1]
    what = describe(error)
    if column and f"column {column}" not in what:
        what += f" (column {column})"
    return RowRefused(
        f"{what}; {_key_text(table, _line(held, int(number)))}",
        hint=HINTS.get(error.sqlstate or "", hint),
        job=job,
        table=str(table.source),
    )


def _line(held: list[bytes], number: int) -> bytes:
    """Return line `number` (from 1) of the blocks."""
    for block in held:
        count = block.count(b"\n")
        if number <= count:
            return block.split(b"\n", number)[number - 1]
        number -= count
    return b""


def _key_text(table: TargetTable, line: bytes) -> str:
    values = dict(zip(table.columns, line.split(b"\t"), strict=False))
    if not table.key or not all(name in values for name in table.key):
        return "the row has no key"
    return "key " + ", ".join(f"{name}={unescape(values[name])}" for name in table.key)


def unescape(value: bytes) -> str:
    r"""Write a field of a line as readable text; \\N stays."""
    return ESCAPE.sub(lambda found: UNESCAPED[found[0]], value).decode(errors="backslashreplace")
