"""Conditions on rows of a target table by values in text form: which rows hold one of some values, and which of them.

A literal takes the column's type and collation, so the target itself says what is equal to what. Statements are built whole,
with their values in them: some of them go in one packet (session.together).
https://dev.mysql.com/doc/refman/8.0/en/charset-collation-coercibility.html
What does not live here: how a value of a type is written and read (terms.py).
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import product

from anabranch.connectors.mysql.connection import family
from anabranch.connectors.mysql.target import words
from anabranch.connectors.mysql.target.session import Connection, column_list, quoted
from anabranch.connectors.mysql.target.terms import FLOATS, INTEGERS, constant, read_term
from anabranch.model.datatype import Kind
from anabranch.rows.net import TargetTable

Values = tuple[str | None, ...]
Numbered = tuple[int, Values]
# Values in one statement: the longest keys are 3,072 bytes, twice as many as digits, and a packet may be 4 MB.
# https://dev.mysql.com/doc/refman/8.0/en/innodb-limits.html
BATCH = 200
# Kinds whose values one collation takes for equal and another does not.
COLLATED = frozenset({Kind.TEXT, Kind.ENUM, Kind.SET, Kind.NATIVE, Kind.JSON})
NUMBERS = INTEGERS | {Kind.DECIMAL}
_NUMBER = re.compile(r"-?\d+(\.\d+)?")
_FLOAT = re.compile(r"-?\d+(\.\d+)?([eE][-+]?\d+)?")
_LENGTH = re.compile(r"binary\((\d+)\)", re.IGNORECASE)  # whose values a log may give without the zeros at their end


def literal(connection: Connection, table: TargetTable, column: str, value: str | None) -> str:
    """Write a value of a column as SQL. A number stands without quotes: beside a text it would be compared as a double."""
    type = table.type_of(column)
    if value is not None and not type.target and type.kind in NUMBERS and _NUMBER.fullmatch(value):
        return value
    text = constant(type, value, family(connection))
    length = _LENGTH.match(type.native) if value is not None and not type.target else None
    return f"RPAD({text}, {length[1]}, X'00')" if length else text


def equals(connection: Connection, table: TargetTable, column: str, value: str | None) -> list[str]:
    """Return literals of which a column that holds the value equals one. 0.1 is not the FLOAT 0.1: that is also told as the
    double that it is; in a column that is a DOUBLE at the target 0.1 is 0.1."""
    found, type = [literal(connection, table, column, value)], table.type_of(column)
    if value is not None and not type.target and type.kind is Kind.FLOAT32 and _FLOAT.fullmatch(value):
        for short, exact in FLOATS.items():
            value = value.replace(short, exact)
        with suppress(OverflowError):  # no FLOAT
            found.append(repr(*struct.unpack("<f", struct.pack("<f", float(value)))))
    return found


def text_literal(value: str | None) -> str:
    """Write a text form itself as SQL."""
    return "NULL" if value is None else words.literal(value)


def reads(connection: Connection, table: TargetTable, columns: Iterable[str]) -> str:
    """Return the expressions that read columns in text form."""
    kind = family(connection)
    return ", ".join(f"CONCAT({read_term(table.type_of(name), quoted(name), kind)})" for name in columns)


def holds(connection: Connection, table: TargetTable, columns: Sequence[str], values: Values, sign: str = "=") -> str:
    """Return the condition for rows that hold just these values. `sign`: `<=>` finds NULL too."""
    each = []
    for name, value in zip(columns, values, strict=True):
        some = [f"{quoted(name)} {sign} {one}" for one in equals(connection, table, name, value)]
        each.append(some[0] if len(some) == 1 else f"({' OR '.join(some)})")
    return " AND ".join(each)


def holds_any(connection: Connection, table: TargetTable, columns: Sequence[str], some: Iterable[Values]) -> str:
    """Return the condition for rows that hold one of these values; NULL is held by none. A list of single values, or of
    rows of them, is read by the index of the columns."""
    told = ([equals(connection, table, name, value) for name, value in zip(columns, row, strict=True)] for row in some)
    rows = [", ".join(one) for each in told for one in product(*each)]
    if len(columns) == 1:
        return f"{quoted(columns[0])} IN ({', '.join(rows)})"
    return f"({column_list(columns)}) IN ({', '.join(f'({row})' for row in rows)})"


def which(connection: Connection, table: TargetTable, columns: Sequence[str], some: Iterable[Numbered]) -> str:
    """Return the expression for the number of the values that a row holds."""
    cases = (f"WHEN {holds(connection, table, columns, values)} THEN {number}" for number, values in some)
    return f"CASE {' '.join(cases)} END"


def batches(some: Iterable[Values]) -> Iterator[list[Numbered]]:
    """Cut numbered values into lists for one statement each. Those with NULL are left out: no row holds them."""
    batch: list[Numbered] = []
    for number, values in enumerate(some):
        if None not in values:
            batch.append((number, values))
        if len(batch) == BATCH:
            yield batch
            batch = []
    if batch:
        yield batch
