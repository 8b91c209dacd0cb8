"""SQL that asks the server for values: a column's text form, and literals that compare with a column.

Lines are made of marked bytes. Text of the server is UTF-8, in which bytes from 0xF5 on never occur: they separate
values and rows, stand for NULL, and mark dates, floats and text that is to be decoded here, so that the server escapes
nothing and `lines.py` finishes a whole block at once. What does not live here: statements (`snapshot.py`, `chunks.py`),
finishing of blocks (`lines.py`).
"""

from __future__ import annotations

from struct import Struct

from anabranch.connectors.mysql.charsets import CHARSETS, ambiguous, is_total, is_utf8
from anabranch.connectors.mysql.fingerprint import clock, is_full
from anabranch.connectors.mysql.source.coded import CODES
from anabranch.connectors.mysql.source.typemap import BLOBS, INTEGERS, TEXTS
from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.schema import Column
from anabranch.rows.fingerprint import Form, Hashing, form_of

SEPARATOR, NULL, ROW = b"\xff", b"\xfe", b"\xfd"
DATE, FLOAT32, FLOAT64 = b"\xf9", b"\xf8", b"\xf7"
CODED = b"\xf6"  # then the name of a character set or another code (`coded.py`), a colon, and hexadecimal digits

_FLOAT = Struct("<f")
_INTEGERS = frozenset(kind for pair in INTEGERS.values() for kind in pair)
_WORDS = frozenset({Kind.TEXT, Kind.ENUM, Kind.SET, Kind.JSON})
# Others are longer as text than as they are stored, and may be beyond what a function returns.
_PLAIN = _INTEGERS | {Kind.DECIMAL, Kind.TEXT, Kind.ENUM, Kind.SET, Kind.DATE, Kind.TIMESTAMP, Kind.INSTANT}
_PLAIN |= {Kind.DURATION, Kind.YEAR, Kind.BIT, Kind.UUID}
_MARKS = {
    Kind.DATE: DATE,
    Kind.TIMESTAMP: DATE,
    Kind.INSTANT: DATE,
    Kind.FLOAT32: FLOAT32,
    Kind.FLOAT64: FLOAT64,
}
_WIDTHS = {  # most bytes of a value's text form
    Kind.DECIMAL: 70,
    Kind.FLOAT32: 32,
    Kind.FLOAT64: 32,
    Kind.BIT: 64,
    Kind.JSON: TEXTS["longtext"],
    Kind.GEOMETRY: 2 * BLOBS["longblob"],
    Kind.INET: 60,
    Kind.VECTOR: 8 * 16_384 + 20,  # https://dev.mysql.com/doc/refman/9.7/en/vector.html: at most 16,383 elements
}
TWO_DIGITS = "year(2)"  # https://dev.mysql.com/doc/refman/5.6/en/migrating-from-year2.html
_NARROW = 40  # numbers, dates, clocks
_WIDEST_CHARACTER = 4
_CODE = 12  # of a coded text: its mark and its character set's name


def name(identifier: str) -> str:
    """Return an identifier in backticks."""
    return "`" + identifier.replace("`", "``") + "`"


def marker(byte: bytes) -> str:
    return f"_binary x'{byte.hex()}'"


def text(column: Column, of: str | None = None) -> str:
    """Return SQL for the text form of `column` (model/datatype.py), or of the expression `of` of its type; NULL stays NULL.

    FLOAT comes as the double it is (K34): `c*1e0`, because a sum would lose the sign of zero. DOUBLE is printed by the
    column itself: MySQL cuts an expression's text at 22 characters, which is enough for a FLOAT and not for a DOUBLE. Not
    so DOUBLE(m,d), of which the column prints d decimals and holds more."""
    kind, value = _type(column).kind, of or name(column.name)
    if kind is Kind.BINARY:
        return f"CONCAT('\\\\x', LOWER(HEX({value})))"
    if kind is Kind.BIT:
        return f"LPAD(BIN({value}+0), {_type(column).length}, '0')"
    if kind in (Kind.FLOAT32, Kind.FLOAT64):
        return f"({value}*1e0)" if kind is Kind.FLOAT32 or "(" in column.native else value
    if kind in (Kind.TIMESTAMP, Kind.INSTANT, Kind.DURATION):
        return _clock(_type(column), value)
    if column.native == TWO_DIGITS:
        return f"(IF({value}+0 < 70, 2000, 1900) + {value})"
    if kind is Kind.YEAR or "zerofill" in column.native:
        return f"({value}+0)"
    return f"CAST({value} AS CHAR)" if column.native == "json" else value


def cell(column: Column) -> str:
    """Return SQL for a value inside a line: marked bytes, NULL as its mark."""
    kind = _type(column).kind
    mark = _MARKS.get(kind)
    if kind in CODES:
        value = f"CONCAT({marker(CODED)}, '{CODES[kind][0]}:', HEX({name(column.name)}))"
    elif mark is not None:
        value = f"CONCAT({marker(mark)}, {text(column)})"
    elif kind is Kind.UUID:
        value = f"CONCAT({text(column)})"  # IFNULL of a UUID is a UUID, which no mark is: it would be NULL
    else:
        value = as_bytes(column, text(column))
    return f"IFNULL({value}, {marker(NULL)})" if column.nullable else value


def hashed(column: Column, hashing: Hashing = Hashing.SHA256) -> str:
    """Return SQL for what a column adds to its row's fingerprint: its text as bytes, clocks as all servers print them."""
    type = _type(column)
    if is_full(type, hashing):
        return name(column.name)
    if form_of(type, Hashing.SHA256) is Form.CLOCK:
        told = clock(name(column.name), type.fraction)
        return f"CONCAT({told}, '+00')" if type.kind is Kind.INSTANT else told
    return f"CONCAT({text(column)})" if type.kind is Kind.UUID else as_bytes(column, text(column))


def is_told(column: Column) -> bool:
    """Return whether the server converts any text of the column to UTF-8 without losing some of it."""
    return column.charset != "" and is_total(column.charset.lower())


def mark(column: Column) -> bytes:
    """Return the mark in front of a value inside a line."""
    return _MARKS.get(_type(column).kind, b"")


def is_words(column: Column) -> bool:
    """Return whether values may have characters that are escaped."""
    return _type(column).kind in _WORDS


def is_plain(column: Column) -> bool:
    """Return whether the server's answer for `text`, as a column of its own, always is the text form in UTF-8."""
    return _type(column).kind in _PLAIN and not is_coded(column)


def as_bytes(column: Column, value: str) -> str:
    """Return words as UTF-8 bytes that no character set of the session touches; anything else as it is."""
    if _type(column).kind not in _WORDS:
        return value
    if not is_coded(column):
        return f"CAST({value} AS BINARY)"
    charset = column.charset.lower()
    told = f"CAST(CONVERT({value} USING utf8mb4) AS BINARY)"
    if is_total(charset):
        return told
    coded = f"CONCAT({marker(CODED)}, '{charset}:', HEX({value}))"
    doubt = " OR ".join(f"LOCATE({marker(one)}, {told})" for one in CHARSETS[charset].unknown)
    return f"IF({doubt}, {coded}, {told})" if doubt else coded


def code_of(column: Column) -> str:
    """Return the code in which values of this column may come, "" for none."""
    if _type(column).kind in CODES:
        return CODES[_type(column).kind][0]
    return column.charset.lower() if is_coded(column) else ""


def is_coded(column: Column) -> bool:
    """Return whether the column is text whose bytes are not UTF-8."""
    return _type(column).kind in _WORDS and column.charset != "" and not is_utf8(column.charset.lower())


def width(column: Column) -> int:
    """Return the most bytes that `cell` of this column can have."""
    type = _type(column)
    if type.kind is Kind.BINARY:
        return 2 * (BLOBS.get(column.native.split()[0], 0) or type.length or 0) + 3
    widest, more = _WIDEST_CHARACTER, 1
    if is_coded(column):
        widest, more = max(widest, 2 * CHARSETS[column.charset.lower()].longest), _CODE
    if type.kind in (Kind.ENUM, Kind.SET):
        return sum(len(label) * widest + 1 for label in type.values) + more
    if type.kind is Kind.TEXT:
        return (TEXTS.get(column.native.split()[0], 0) or type.length or 0) * widest + more
    return _WIDTHS.get(type.kind, _NARROW)


# --- keys: bounds and comparison --------------------------------------------------------------------------------------


def key_text(column: Column) -> str:
    """Return SQL for a key value as bounds carry it: the text form; labels by their number, which is their order; text
    that is not UTF-8 by its bytes, of which several may be the same text.
    """
    if _type(column).kind in (Kind.ENUM, Kind.SET):
        return f"({name(column.name)}+0)"
    return f"HEX({name(column.name)})" if is_coded(column) else text(column)


def literal(column: Column, value: str) -> str:
    """Return a value of `key_text` as SQL that compares with the bare column by the column's own collation and index."""
    kind = _type(column).kind
    if kind in _INTEGERS or kind in (Kind.DECIMAL, Kind.ENUM, Kind.SET):
        return _digits(value)
    if kind in (Kind.FLOAT32, Kind.FLOAT64):
        return _double(_FLOAT.unpack(_FLOAT.pack(float(value)))[0] if kind is Kind.FLOAT32 else float(value))
    if kind is Kind.BINARY:
        return f"x'{bytes.fromhex(value.removeprefix(chr(92) + 'x')).hex()}'"
    if kind is Kind.BIT:  # as a number: before 5.7, `>` finds nothing beyond a literal of 64 bits
        return str(int(value, 2))
    if kind is Kind.YEAR:
        return f"'{int(value):04d}'"
    if is_coded(column):
        return f"_{column.charset} x'{bytes.fromhex(value).hex()}'"
    return string(value.removesuffix("+00") if kind is Kind.INSTANT else value)


def equality(column: Column, value: str) -> str:
    """Return SQL for `column = value` with the value in text form; other than in bounds, labels and text are words here. A
    character with several codes is looked for by its text, and without an index."""
    if is_coded(column) and not ambiguous(column.charset.lower()).isdisjoint(value):
        told = f"CAST(CONVERT({name(column.name)} USING utf8mb4) AS BINARY)"
        return f"{told} = {marker(value.encode())}"
    return f"{name(column.name)} = {constant(column, value)}"


def constant(column: Column, value: str) -> str:
    """Return SQL for a value in text form, labels and text as words. Raises ValueError for what is no value of the
    column's type.
    """
    is_word = _type(column).kind in (Kind.ENUM, Kind.SET) or is_coded(column)
    return string(value) if is_word else literal(column, value)


def string(value: str) -> str:
    """Return a string literal in utf8mb4, whatever the session's character set is (`sql_mode` is empty)."""
    escaped = value.replace("\\", "\\\\").replace("'", "''").replace("\0", "\\0")
    return f"_utf8mb4'{escaped}'"


def _double(value: float) -> str:
    """Return a literal of type DOUBLE: without an exponent it would be a decimal number."""
    return repr(value) + "e0" * ("e" not in repr(value))


def _digits(value: str) -> str:
    if not value.lstrip("-").replace(".", "", 1).isdigit():
        raise ValueError(f"{value!r} is no number")
    return value


def _clock(type: LogicalType, value: str) -> str:
    """Return SQL for a time with six decimals; an instant ends with its zone, which is the session's: UTC."""
    zone = "+00" if type.kind is Kind.INSTANT else ""
    decimals = "." * (type.fraction == 0) + "0" * (6 - type.fraction)
    return f"CONCAT({value}, '{decimals}{zone}')" if decimals + zone else value


def _type(column: Column) -> LogicalType:
    assert column.type is not None, f"column {column.name} is refused: {column.refusal}"
    return column.type
