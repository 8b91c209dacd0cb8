"""Table map events: what the log says about a table's columns, and whether the definition in force agrees (K19). Pure.

https://dev.mysql.com/doc/dev/mysql-server/latest/classbinary__log_1_1Table__map__event.html
What does not live here: decoding of rows (`rows_decode.py`), where definitions come from (`catalog.py`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from anabranch.connectors.mysql.charsets import CHARSETS, BadText, decoder
from anabranch.connectors.mysql.source.binlog import packed_integer, part
from anabranch.connectors.mysql.source.typemap import ADDRESSES, GEOMETRIES
from anabranch.model.ids import TableId
from anabranch.model.schema import Column, TableSchema

TINY, SHORT, LONG, FLOAT, DOUBLE, TIMESTAMP, LONGLONG, INT24 = 1, 2, 3, 4, 5, 7, 8, 9
DATE, TIME, DATETIME, YEAR, NEWDATE, VARCHAR, BIT = 10, 11, 12, 13, 14, 15, 16
TIMESTAMP2, DATETIME2, TIME2 = 17, 18, 19
BLOB_COMPRESSED, VARCHAR_COMPRESSED, VECTOR, JSON, NEWDECIMAL, ENUM, SET = 140, 141, 242, 245, 246, 247, 248
TINY_BLOB, MEDIUM_BLOB, LONG_BLOB, BLOB, VAR_STRING, STRING, GEOMETRY = 249, 250, 251, 252, 253, 254, 255

_META_BYTES = {
    **dict.fromkeys((FLOAT, DOUBLE, BLOB, JSON, GEOMETRY, VECTOR, BLOB_COMPRESSED), 1),
    **dict.fromkeys((TIMESTAMP2, DATETIME2, TIME2, TINY_BLOB, MEDIUM_BLOB, LONG_BLOB), 1),
    **dict.fromkeys((VARCHAR, BIT, NEWDECIMAL, STRING, VAR_STRING, ENUM, SET, VARCHAR_COMPRESSED), 2),
}
_SIGNED = {TINY, SHORT, INT24, LONG, LONGLONG, FLOAT, DOUBLE, NEWDECIMAL, YEAR}  # columns that have a bit of signedness
_SIGNEDNESS, _NAMES, _SET_LABELS, _ENUM_LABELS, _KEY, _PREFIX_KEY = 1, 4, 5, 6, 8, 9


@dataclass(frozen=True, slots=True)
class LogColumn:
    """A column as the log has it. `meta`: VARCHAR, STRING, ENUM, SET bytes; NEWDECIMAL precision and `scale`; BIT bits;
    BLOB and its like: bytes of the length; times: digits of a second."""

    type: int
    meta: int = 0
    scale: int = 0
    nullable: bool = True
    unsigned: bool | None = None  # None: the log does not say
    name: str | None = None
    labels: tuple[bytes, ...] | None = None


@dataclass(frozen=True, slots=True)
class TableMap:
    table: TableId
    columns: tuple[LogColumn, ...]
    key: tuple[int, ...] | None = None  # places of the primary key's columns, None: the log does not say


def table_of(body: bytes) -> TableId:
    """Return the table that a table map (from its table id on) is about."""
    schema, at = _name(body, 8)
    return TableId(schema, _name(body, at)[0])


def parse_table_map(body: bytes) -> TableMap:
    """Return a table map event without header and checksum. Raises ValueError, LookupError for bytes that are none."""
    schema, at = _name(body, 8)
    name, at = _name(body, at)
    count, at = packed_integer(body, at)
    types, at = part(body, at, count)
    size, at = packed_integer(body, at)
    meta, at = part(body, at, size)
    metas = _metas(types, meta)
    nulls, at = part(body, at, (count + 7) // 8)
    facts = dict(_optional(body, at))
    columns = tuple(
        LogColumn(kind, meta, scale, bool(nulls[i // 8] >> i % 8 & 1)) for i, (kind, meta, scale) in enumerate(metas)
    )
    return TableMap(TableId(schema, name), _with_facts(columns, facts), _primary_key(facts))


def _name(body: bytes, at: int) -> tuple[str, int]:
    name, at = part(body, at + 1, body[at])
    return name.decode(), at + 1


def _metas(types: bytes, data: bytes) -> Iterator[tuple[int, int, int]]:
    """Yield (type, meta, scale) of every column; a STRING may turn out to be ENUM or SET."""
    at = 0
    for kind in types:
        width = _META_BYTES.get(kind, 0)
        first, second = (part(data, at, width)[0] + b"\0\0")[:2]
        at += width
        if kind in (STRING, ENUM, SET):
            if first & 0x30 != 0x30:  # lengths above 255 put two of their bits where the type has ones
                yield first | 0x30, second | ((first & 0x30) ^ 0x30) << 4, 0
            else:
                yield first, second, 0
        elif kind in (VARCHAR, VAR_STRING, VARCHAR_COMPRESSED):
            yield kind, first | second << 8, 0
        elif kind == BIT:
            yield kind, first + 8 * second, 0
        elif kind == NEWDECIMAL:
            yield kind, first, second
        else:
            yield kind, first if width else 0, 0


def _optional(body: bytes, at: int) -> Iterator[tuple[int, bytes]]:
    while at < len(body):
        kind = body[at]
        length, at = packed_integer(body, at + 1)
        value, at = part(body, at, length)
        yield kind, value


def _with_facts(columns: tuple[LogColumn, ...], facts: dict[int, bytes]) -> tuple[LogColumn, ...]:
    signs = _signs(columns, facts.get(_SIGNEDNESS))
    names: Iterator[str | None] = iter([])
    if _NAMES in facts:
        names = (name.decode() for name in _strings(facts[_NAMES]))
    labels = {
        ENUM: _label_lists(facts.get(_ENUM_LABELS, b"")),
        SET: _label_lists(facts.get(_SET_LABELS, b"")),
    }
    return tuple(
        LogColumn(
            column.type,
            column.meta,
            column.scale,
            column.nullable,
            signs.get(place),
            next(names, None),
            next(labels[column.type], None) if column.type in labels else None,
        )
        for place, column in enumerate(columns)
    )


def _signs(columns: tuple[LogColumn, ...], bits: bytes | None) -> dict[int, bool]:
    """Return which numeric columns are unsigned; the bitmap has the first in the highest bit."""
    if bits is None:
        return {}
    numeric = [place for place, column in enumerate(columns) if column.type in _SIGNED]
    return {place: bool(bits[i // 8] << i % 8 & 0x80) for i, place in enumerate(numeric)}


def _strings(data: bytes) -> Iterator[bytes]:
    at = 0
    while at < len(data):
        length, at = packed_integer(data, at)
        value, at = part(data, at, length)
        yield value


def _label_lists(data: bytes) -> Iterator[tuple[bytes, ...]]:
    at = 0
    while at < len(data):
        count, at = packed_integer(data, at)
        labels = []
        for _ in range(count):
            length, at = packed_integer(data, at)
            label, at = part(data, at, length)
            labels.append(label)
        yield tuple(labels)


def _primary_key(facts: dict[int, bytes]) -> tuple[int, ...] | None:
    if _KEY in facts:
        return tuple(_integers(facts[_KEY]))
    if _PREFIX_KEY in facts:
        return tuple(_integers(facts[_PREFIX_KEY]))[::2]
    return () if _NAMES in facts else None  # with names (FULL) a key would be told


def _integers(data: bytes) -> Iterator[int]:
    at = 0
    while at < len(data):
        number, at = packed_integer(data, at)
        yield number


# --- against the definition ---------------------------------------------------------------------------------------------

_NATIVE = re.compile(r"([a-z0-9_ ]+?)\s*(?:\(([^)]*)\))?(?:\s+(.*))?$", re.IGNORECASE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class NativeText:
    """A native type's text taken apart: `int(10) unsigned` -> int, (10,), unsigned."""

    name: str
    numbers: tuple[int, ...] = ()
    unsigned: bool = False


def native_of(column: Column) -> NativeText:
    found = _NATIVE.match(column.native.strip())
    if found is None:
        return NativeText(column.native.lower())
    name, inside, rest = found[1].lower(), found[2] or "", (found[3] or "").lower()
    if name in ("enum", "set"):
        return NativeText(name)
    words = name.split()
    unsigned = "unsigned" in rest.split() or "unsigned" in words or "zerofill" in rest.split()
    numbers = tuple(int(n) for n in re.findall(r"\d+", inside))
    return NativeText(words[0], numbers, unsigned)


def mismatch(seen: TableMap, schema: TableSchema) -> str:
    """Say why the log's table map cannot be of this definition; "" when it can."""
    if len(seen.columns) != len(schema.columns):
        return f"the log has {len(seen.columns)} columns, the definition {len(schema.columns)}"
    for log, column in zip(seen.columns, schema.columns, strict=True):
        why = _column_mismatch(log, column)
        if why:
            return f"column {column.name} {column.native}: {why}"
    if seen.key is not None and seen.key != schema.key_indexes and not _stands_for_key(seen.key, schema):
        names = ", ".join(schema.columns[i].name for i in seen.key) or "none"
        return f"the log has the primary key ({names}), the definition ({', '.join(schema.primary_key) or 'none'})"
    return ""


def _stands_for_key(key: tuple[int, ...], schema: TableSchema) -> bool:
    """Return whether the logged key is a unique key: without a primary one a server logs the first unique key without
    NULL as it.

    https://dev.mysql.com/doc/refman/8.0/en/innodb-index-types.html
    """
    return not schema.primary_key and any(
        index.unique
        and key == tuple(map(schema.index_of, index.columns))
        and not any(schema.column(name).nullable for name in index.columns)
        for index in schema.indexes
    )


def _column_mismatch(log: LogColumn, column: Column) -> str:
    if log.name is not None and log.name != column.name:
        return f"the log calls it {log.name}"
    native = native_of(column)
    if log.unsigned is not None and native.name in _INTEGERS and log.unsigned != native.unsigned:
        return f"the log has it {'un' if log.unsigned else ''}signed"
    if native.name not in _FITS:
        return "" if column.type is None else "nobody knows how the log writes this type"
    if not _FITS[native.name](log, native, column):
        return f"the log has type {log.type} ({log.meta}, {log.scale})"
    return _label_mismatch(log, column)


def _label_mismatch(log: LogColumn, column: Column) -> str:
    """Compare labels of ENUM and SET, which the log has in the column's character set."""
    if log.labels is None or column.type is None:
        return ""
    if len(log.labels) != len(column.type.values):
        return f"the log has {len(log.labels)} labels"
    try:
        known = tuple(map(decoder(column.charset.lower()), log.labels))
    except BadText as error:
        return f"the log has a label with {error}"
    for seen, ours in zip(known, column.type.values, strict=True):
        if seen != ours.encode():
            return f"the log has the label {seen.decode('utf-8', 'replace')!r} for {ours!r}"
    return ""


# How MariaDB marks a column with fractions of seconds in its own format, of before it took over that of MySQL 5.6; the
# log has no size of it. https://mariadb.com/kb/en/server-system-variables/#mysql56_temporal_format
HIRES = "/* mariadb-5.3 */"
Fits = Callable[[LogColumn, NativeText, Column], bool]
_INTEGERS = {"tinyint": TINY, "smallint": SHORT, "mediumint": INT24, "int": LONG, "integer": LONG, "bigint": LONGLONG}


def _is(*types: int) -> Fits:
    return lambda log, native, column: log.type in types


def _decimal(log: LogColumn, native: NativeText, column: Column) -> bool:
    precision, scale = (*native.numbers, 10, 0)[:2] if len(native.numbers) != 1 else (native.numbers[0], 0)
    return (log.type, log.meta, log.scale) == (NEWDECIMAL, precision, scale)


def _time(new: int, old: int) -> Fits:
    def fits(log: LogColumn, native: NativeText, column: Column) -> bool:
        digits = (*native.numbers, 0)[0]
        is_old = digits == 0 or HIRES in column.native
        return (log.type == new and log.meta == digits) or (log.type == old and is_old)

    return fits


def _sized(*types: int) -> Fits:
    def fits(log: LogColumn, native: NativeText, column: Column) -> bool:
        known = CHARSETS.get(column.charset.lower())
        each = known.longest if known else 0 if column.charset else 1
        more = 1 if log.type == VARCHAR_COMPRESSED else 0  # the byte that says how
        return log.type in types and (not each or not native.numbers or log.meta == native.numbers[0] * each + more)

    return fits


def _blob(width: int) -> Fits:
    return lambda log, native, column: log.type in (BLOB, BLOB_COMPRESSED) and log.meta == width


def _bytes(size: int) -> Fits:
    return lambda log, native, column: (log.type, log.meta) == (STRING, size)


def _enum(log: LogColumn, native: NativeText, column: Column) -> bool:
    size = len(column.type.values) if column.type else 0
    return log.type == ENUM and (not size or log.meta == (1 if size < 256 else 2))


def _set(log: LogColumn, native: NativeText, column: Column) -> bool:
    size = len(column.type.values) if column.type else 0
    width = (size + 7) // 8
    return log.type == SET and (not size or log.meta == (width if width <= 4 else 8))


def _bits(log: LogColumn, native: NativeText, column: Column) -> bool:
    return log.type == BIT and log.meta == (*native.numbers, 1)[0]


_FITS: dict[str, Fits] = {
    **{name: _is(code) for name, code in _INTEGERS.items()},
    "float": _is(FLOAT),
    "double": _is(DOUBLE),
    "real": _is(DOUBLE),
    "decimal": _decimal,
    "numeric": _decimal,
    "date": _is(DATE, NEWDATE),
    "year": _is(YEAR),
    "datetime": _time(DATETIME2, DATETIME),
    "timestamp": _time(TIMESTAMP2, TIMESTAMP),
    "time": _time(TIME2, TIME),
    "char": _sized(STRING),
    "binary": _sized(STRING),
    "varchar": _sized(VARCHAR, VAR_STRING, VARCHAR_COMPRESSED),
    "varbinary": _sized(VARCHAR, VAR_STRING, VARCHAR_COMPRESSED),
    **dict.fromkeys(("tinytext", "tinyblob"), _blob(1)),
    **dict.fromkeys(("text", "blob"), _blob(2)),
    **dict.fromkeys(("mediumtext", "mediumblob"), _blob(3)),
    **dict.fromkeys(("longtext", "longblob"), _blob(4)),
    "enum": _enum,
    "set": _set,
    "bit": _bits,
    "uuid": lambda log, native, column: (log.type, log.meta) == (STRING, 16),
    **{name: _bytes(size) for name, size in ADDRESSES.items()},
    # MySQL has a type of its own, MariaDB bytes: https://dev.mysql.com/doc/refman/9.7/en/vector.html
    "vector": _is(VECTOR, VARCHAR, BLOB),
    **dict.fromkeys(GEOMETRIES, _is(GEOMETRY)),
    "json": lambda log, native, column: (log.type, log.meta) in ((JSON, 4), (BLOB, 4)),
}
