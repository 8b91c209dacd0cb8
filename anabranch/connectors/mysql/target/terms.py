"""SQL between a value's text form and a column: what a column is assigned, and what reads it back in the same text form.

`assignment(type, value)` is SQL for the value of a column whose text form is `value`: a LOAD DATA variable (`@c3`), a
literal, or a placeholder. It may name `value` more than once: the parameter of a placeholder is given `uses` times.
`read_term(type, column)` is SQL that prints the column in that text form; NULL stays NULL in both, and neither has a sign of
percent. `type` is the column's as the rules of the job have it (TargetTable.types).

What does not live here: types (typemap.py), lines (rows/lines.py), statements (load.py, apply.py, verify.py).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from anabranch.connectors.mysql.target.enums import guarded, is_enum
from anabranch.connectors.mysql.target.words import bare, literal, sizes
from anabranch.model.datatype import Kind, LogicalType

MARIADB = "mariadb"
INTEGERS = frozenset({Kind.INT8, Kind.INT16, Kind.INT32, Kind.INT64, Kind.UINT8, Kind.UINT16, Kind.UINT32, Kind.UINT64})
CLOCKS = frozenset({Kind.DATE, Kind.TIMESTAMP, Kind.INSTANT})
TEXT_TYPES = frozenset(("char", "varchar", "tinytext", "text", "mediumtext", "longtext"))
# A date that is none, where [types] zero_date says "-infinity" for it, is the zero date again.
ZERO = ("-infinity", "0000-00-00")
# A FLOAT is read as a DOUBLE first. Of all its values these have shortest digits that are another one then: the greatest, which
# would be out of range, and one whose digits lie half way to its neighbour.
FLOATS = {"3.4028235e+38": "3.4028234663852886e+38", "7.038531e-26": "7.038530691851209e-26"}
# EWKB in hexadecimal digits: its byte order, its type of four bytes of which the last says that an SRID follows, the SRID.
# https://postgis.net/docs/ST_AsEWKB.html · stored: https://dev.mysql.com/doc/refman/8.0/en/gis-data-formats.html
_HAS_SRID, _NO_SRID = "'20'", "'00000000'"


def assignment(type: LogicalType, value: str, family: str = "mysql") -> str:
    """Return SQL for the value that a column gets, of its text form `value`."""
    name = bare(type.target)
    if name in TEXT_TYPES:  # the job's choice: the text form itself
        return _within(type, value) if type.kind in (Kind.TEXT, Kind.NATIVE) else value
    if name == "decimal" and type.kind not in INTEGERS:
        return _digits(type, value)
    if chosen := _CHOSEN.get((type.kind, name)):
        return chosen(value)
    if name and type.kind is Kind.NATIVE:  # as a number: the server would round 1.5 without an error
        return f"IF({value} REGEXP '^-?[0-9]+$', {value}, CONCAT('!', {value}))"
    put = _PUT.get(type.kind)
    return put(type, value, family) if put else value


def read_term(type: LogicalType, column: str, family: str = "mysql") -> str:
    """Return SQL that prints a column in its text form. `column`: as SQL, in backticks and with its table where needed."""
    name = bare(type.target)
    if name in TEXT_TYPES or (name and type.kind is Kind.NATIVE):
        return column
    if name == "time":
        return _without_zeros(type, column)
    read = _READ.get(type.kind)
    return read(type, column, family) if read else column


def constant(type: LogicalType, text: str | None, family: str = "mysql") -> str:
    """Return SQL for a value in text form, as a literal of the column's type; NULL for None."""
    return "NULL" if text is None else assignment(type, literal(text), family)


def uses(type: LogicalType, family: str = "mysql") -> int:
    """Return how often `assignment` names the value."""
    return assignment(type, "\0", family).count("\0")


def is_plain(type: LogicalType, family: str = "mysql") -> bool:
    """Return whether a column takes the text form as it is, so that LOAD DATA needs no variable for it."""
    return assignment(type, "\0", family) == "\0"


# --- into the column --------------------------------------------------------------------------------------------------


def _within(type: LogicalType, value: str) -> str:
    """Return text that fits, or is refused: a strict server cuts blanks at the end without an error.

    https://dev.mysql.com/doc/refman/8.0/en/char.html
    """
    most = sizes(type.target)[:1]
    if not most or (type.length or most[0] + 1) <= most[0]:
        return value
    return f"IF(CHAR_LENGTH({value}) > {most[0]}, CONCAT({value}, REPEAT('!', {most[0]})), {value})"


def _digits(type: LogicalType, value: str) -> str:
    """Return a number that has no digit which the column has not, or is refused: a strict server rounds without an error.

    https://dev.mysql.com/doc/refman/8.0/en/precision-math-numbers.html
    """
    precision, scale = (*sizes(type.target), 10, 0)[:2] if sizes(type.target) else (10, 0)
    if len(sizes(type.target)) == 1:
        scale = 0
    if type.kind is Kind.DECIMAL and type.precision and type.scale <= scale:
        return value
    whole = f"[0-9]{{1,{max(precision - scale, 1)}}}"
    behind = f"([.][0-9]{{0,{scale}}}0*)?"
    return f"IF({value} REGEXP '^-?0*{whole}{behind}$', {value}, CONCAT('!', {value}))"


def _clock(type: LogicalType, value: str, family: str) -> str:
    """Return a date or a moment. A printed one is checked: of a year with five digits the server would read the first four, and
    of one before Christ all but that."""
    zone = f"TRIM(TRAILING '+00' FROM {value})" if type.kind is Kind.INSTANT else value
    if type.printed:
        return f"IF(SUBSTR({value}, 5, 1) = '-' AND RIGHT({value}, 1) <> 'C', {zone}, CONCAT('!', {value}))"
    return f"REPLACE({zone}, '{ZERO[0]}', '{ZERO[1]}')" if type.at_target.zero_dates else zone


def _geometry(type: LogicalType, value: str, family: str) -> str:
    """Return a geometry as the server stores it, its SRID and WKB: no function may turn its axes."""
    srid = f"CONCAT(SUBSTR({value}, 13, 8), '01', SUBSTR({value}, 5, 6), '00', SUBSTR({value}, 21))"
    plain = f"CONCAT({_NO_SRID}, SUBSTR({value}, 3))"
    return f"UNHEX(IF(SUBSTR({value}, 11, 2) = {_HAS_SRID}, {srid}, {plain}))"


def _uuid(type: LogicalType, value: str, family: str) -> str:
    return f"UNHEX(REPLACE({value}, '-', ''))" if bare(type.target) == "binary" else value


def _float(type: LogicalType, value: str, family: str) -> str:
    if type.target:
        return value
    for short, exact in FLOATS.items():
        value = f"REPLACE({value}, '{short}', '{exact}')"
    return value


def _bit(type: LogicalType, value: str, family: str) -> str:
    return value if _is_long(type) else f"CAST(CONV({value}, 2, 10) AS UNSIGNED)"


def _label(type: LogicalType, value: str, family: str) -> str:
    return guarded(value) if is_enum(type) else value


def _or_refused(value: str, pattern: str) -> str:
    """Return a text of this form, or one that a strict server refuses."""
    return f"IF({value} REGEXP '{pattern}', {value}, CONCAT('!', {value}))"


# A year below 70 would be one of this century, and 0 as text the year 2000. An interval of days would be read as hours. A
# number as text would be the place of labels. https://dev.mysql.com/doc/refman/8.0/en/year.html · …/time.html · …/set.html
_YEARS, _HOURS = "^(19[0-9][0-9]|2[01][0-9][0-9])$", "^-?[0-9]{2,3}:[0-9]{2}:[0-9]{2}([.][0-9]{1,6})?$"
_CHOSEN: Mapping[tuple[Kind, str], Callable[[str], str]] = {
    (Kind.INT16, "year"): lambda value: f"IF({value} = '0', '0000', {_or_refused(value, _YEARS)})",
    (Kind.INTERVAL, "time"): lambda value: _or_refused(value, _HOURS),
    (Kind.TEXT, "enum"): guarded,
    (Kind.TEXT, "set"): lambda value: (
        f"IF({value} REGEXP '^[[:space:]]*[-+]?[0-9]+[[:space:]]*$', CONCAT('!', {value}), {value})"
    ),
}

_PUT: Mapping[Kind, Callable[[LogicalType, str, str], str]] = {
    Kind.FLOAT32: _float,
    Kind.BINARY: lambda type, value, family: f"UNHEX(SUBSTR({value}, 3))",
    Kind.BOOLEAN: lambda type, value, family: f"({value} = 't')",
    Kind.BIT: _bit,
    Kind.YEAR: lambda type, value, family: f"CAST({value} AS UNSIGNED)",  # as text, 0 would be 2000
    Kind.GEOMETRY: _geometry,
    Kind.VECTOR: lambda type, value, family: f"UNHEX({value})",
    Kind.UUID: _uuid,
    Kind.ENUM: _label,
    **dict.fromkeys(CLOCKS, _clock),
}

# --- out of the column ------------------------------------------------------------------------------------------------


def _moment(type: LogicalType, column: str, family: str) -> str:
    """Print a moment with six decimals, as all sources but one do, or without zeros at its end, as PostgreSQL does."""
    zone = ", '+00'" if type.kind is Kind.INSTANT else ""
    if type.printed:
        return f"CONCAT({_without_zeros(type, column)}{zone})" if zone else _without_zeros(type, column)
    six = column if type.fraction >= 6 else _with_six(type, column)
    return _or_zero(type, column, f"CONCAT({six}{zone})")


def _with_six(type: LogicalType, column: str) -> str:
    """Print a clock with six decimals, however many the column has: one that was there may have more than the source's."""
    if type.kind is Kind.DURATION:
        return f"CAST({column} AS TIME(6))"
    return f"LEFT(CONCAT({column}, IF(LOCATE('.', {column}), '000000', '.000000')), 26)"


def _without_zeros(type: LogicalType, column: str) -> str:
    if not type.fraction:
        return f"IF(LOCATE('.', {column}), {_trimmed(column)}, CONCAT({column}))"
    return _trimmed(column)


def _trimmed(column: str) -> str:
    return f"TRIM(TRAILING '.' FROM TRIM(TRAILING '0' FROM CONCAT({column})))"


def _date(type: LogicalType, column: str, family: str) -> str:
    shown = f"LEFT({column}, 10)" if bare(type.target) == "datetime" else f"CONCAT({column})"
    return _or_zero(type, column, shown)


def _or_zero(type: LogicalType, column: str, shown: str) -> str:
    return f"IF({column} = 0, '{ZERO[0]}', {shown})" if type.at_target.zero_dates else shown


def _bits(type: LogicalType, column: str, family: str) -> str:
    return column if _is_long(type) else f"LPAD(BIN({column}+0), {type.length or 1}, '0')"


def _ewkb(type: LogicalType, column: str, family: str) -> str:
    stored = f"LOWER(HEX({column}))"
    srid = f"CONCAT('\\\\x01', SUBSTR({stored}, 11, 6), '20', SUBSTR({stored}, 1, 8), SUBSTR({stored}, 19))"
    return f"IF(LEFT({stored}, 8) = {_NO_SRID}, CONCAT('\\\\x', SUBSTR({stored}, 9)), {srid})"


def _uuid_text(type: LogicalType, column: str, family: str) -> str:
    if bare(type.target) != "binary":
        return f"CONCAT({column})"
    text = f"HEX({column})"
    for place in (9, 14, 19, 24):
        text = f"INSERT({text}, {place}, 0, '-')"
    return f"LOWER({text})"


def _json(type: LogicalType, column: str, family: str) -> str:
    return column if family == MARIADB else f"CAST({column} AS CHAR)"


def _decimal(type: LogicalType, column: str, family: str) -> str:
    """Print a DECIMAL, without the zeros that ZEROFILL puts in front of it."""
    if type.target or not 0 < type.precision <= 65 or type.printed:
        return column
    plain = f"CAST({column} AS DECIMAL({type.precision},{type.scale}))"
    return f"IF({plain} = {column}, {plain}, CONCAT({column}))"  # a column with more digits may hold another value


def _double(type: LogicalType, column: str, family: str) -> str:
    """Print a FLOAT as the double it is: as text of its own it has six digits."""
    return f"({column}*1e0)" if type.kind is Kind.FLOAT32 and not type.target else column


_READ: Mapping[Kind, Callable[[LogicalType, str, str], str]] = {
    **dict.fromkeys(INTEGERS, lambda type, column, family: f"({column}+0)"),  # ZEROFILL
    Kind.YEAR: lambda type, column, family: f"({column}+0)",
    Kind.DECIMAL: _decimal,
    Kind.FLOAT32: _double,
    Kind.FLOAT64: _double,
    Kind.BINARY: lambda type, column, family: f"CONCAT('\\\\x', LOWER(HEX({column})))",
    Kind.BOOLEAN: lambda type, column, family: f"CASE {column} WHEN 1 THEN 't' WHEN 0 THEN 'f' ELSE {column} END",
    Kind.BIT: _bits,
    Kind.DATE: _date,
    Kind.TIMESTAMP: _moment,
    Kind.INSTANT: _moment,
    Kind.DURATION: _moment,
    Kind.TIME: lambda type, column, family: _without_zeros(type, column),
    Kind.JSON: _json,
    Kind.GEOMETRY: _ewkb,
    Kind.VECTOR: lambda type, column, family: f"LOWER(HEX({column}))",
    Kind.UUID: _uuid_text,
}


def _is_long(type: LogicalType) -> bool:
    """Return whether bits are more than the server's type has: they stand as digits in a text."""
    return (type.length or 1) > 64
