"""SQL for what a column of a target table adds to its row's fingerprint (rows/fingerprint.py).

The text form of `terms.py` as bytes, which is right for whatever column was there; and the bare column, where the server prints
that text by itself: each function around a column costs as much as reading it. What does not live here: the statement
(`mysql/fingerprint.py`), which rows (`pieces.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from anabranch.connectors.mysql.connection import family
from anabranch.connectors.mysql.fingerprint import as_bytes, clock, is_full, plain_bytes
from anabranch.connectors.mysql.target import terms
from anabranch.connectors.mysql.target.session import Connection, ask, quoted
from anabranch.connectors.mysql.target.words import bare, sizes
from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.ids import TableId
from anabranch.rows.fingerprint import Form, Hashed, Hashing, form_of

COLUMNS = """
SELECT COLUMN_NAME, COLUMN_TYPE, CHARACTER_SET_NAME FROM information_schema.COLUMNS
 WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s
"""
MOMENTS = frozenset(("datetime", "timestamp"))
INTEGERS = frozenset(("tinyint", "smallint", "mediumint", "int", "integer", "bigint"))
UTF8 = frozenset(("utf8mb4", "utf8mb3", "utf8", "ascii"))  # stored as the same bytes as in utf8mb4
_NUMBERS = (Form.INT32, Form.INT64)
_WORDS = (Kind.TEXT, Kind.ENUM, Kind.SET)


@dataclass(frozen=True, slots=True)
class Stored:
    """A column as the server has it: `type` in its words ("decimal(12,2) unsigned"), `charset` "" for what is no text."""

    type: str
    charset: str

    @property
    def is_filled(self) -> bool:
        """Return whether numbers are printed with zeros in front."""
        return "zerofill" in self.type

    @property
    def decimals(self) -> int:
        return next(iter(sizes(self.type)), 0)


def stored(connection: Connection, table: TableId) -> Mapping[str, Stored]:
    """Return the columns of a table; names of columns are one name whatever their case."""
    rows = ask(connection, COLUMNS, table.schema, table.name)
    return {str(name).lower(): Stored(str(type).lower(), str(charset or "").lower()) for name, type, charset in rows}


def texts(connection: Connection, table: TableId, columns: Sequence[Hashed], hashing: Hashing) -> list[str]:
    """Return SQL for each column's text as bytes, or a number; dates and clocks as all servers print them."""
    there, kind = stored(connection, table), family(connection)
    return [_text(one.name, one.type, there.get(one.name.lower()), kind, hashing) for one in columns]


def _text(name: str, type: LogicalType, there: Stored | None, family: str, hashing: Hashing) -> str:
    form, column = form_of(type, hashing), quoted(name)
    if there is not None and is_full(type, hashing) and bare(there.type) in MOMENTS:
        return _moment(column, type.fraction, there.decimals)
    if form is Form.CLOCK:
        told = clock(column, type.fraction)
        return f"CONCAT({told}, '+00')" if type.kind is Kind.INSTANT else told
    if type.kind is Kind.DATE or (there is not None and _is_printed_so(type, there)):
        return column
    if there is not None and type.kind in _WORDS and there.charset in UTF8:
        return plain_bytes(column)
    text = terms.read_term(type, column, family)
    return text if form in _NUMBERS else as_bytes(text)


def _is_printed_so(type: LogicalType, there: Stored) -> bool:
    """Return whether the server prints a number of this column as its text form."""
    if there.is_filled:
        return False
    if type.kind is Kind.DECIMAL:
        return not type.printed and bare(there.type) == "decimal" and sizes(there.type) == (type.precision, type.scale)
    return type.kind in terms.INTEGERS and bare(there.type) in INTEGERS


def _moment(column: str, wanted: int, decimals: int) -> str:
    """Print a moment with the decimals that the source's column has. One with others than zeros behind them keeps all of its
    own: it differs."""
    if wanted == decimals:
        return column
    shorter, longer = sorted((wanted, decimals))
    ending = f"{'' if shorter else '.'}{'0' * (longer - shorter)}"
    if wanted > decimals:
        return f"CONCAT({column}, '{ending}')"
    rest = f"CHAR_LENGTH({column}) - {len(ending)}"
    return f"IF(RIGHT({column}, {len(ending)}) = '{ending}', LEFT({column}, {rest}), CONCAT({column}))"
