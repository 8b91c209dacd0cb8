"""Sizes of rows: how many bytes a column takes of what a row may have, as the servers count when they make a table.

There are two limits. A row may have 65,535 bytes, in which a long value counts as the pointer to it; and InnoDB keeps half a
page (8,126 bytes of 16 KB) of each row together: MySQL counts of a value that is in no key 40 bytes at most, MariaDB the
pointer to a value of more than 255 bytes, and all of a shorter one. A column that is computed when it is read counts for the
first limit alone (all seen in 8.0.33 and 10.11.19).
https://dev.mysql.com/doc/refman/8.0/en/column-count-limit.html · https://mariadb.com/kb/en/innodb-row-formats-overview/
What does not live here: sizes in an index (`columns.py`), what is said of them (`preflight_sizes.py`).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from anabranch.connectors.mysql.target.columns import GEOMETRIES, MadeColumn
from anabranch.connectors.mysql.target.words import bare, sizes

MOST = 65_535
# https://dev.mysql.com/doc/refman/8.0/en/storage-requirements.html
FIXED = {
    "tinyint": 1,
    "smallint": 2,
    "mediumint": 3,
    "int": 4,
    "bigint": 8,
    "float": 4,
    "double": 8,
    "year": 1,
    "date": 3,
}
FIXED |= {"uuid": 16, "inet4": 4, "inet6": 16}
CLOCKS = {"time": 3, "datetime": 5, "timestamp": 4}  # and a byte for two digits of a second
# Length and pointer of a value that is kept apart.
POINTERS = {"tinytext": 9, "text": 10, "mediumtext": 11, "longtext": 12, "tinyblob": 9, "blob": 10, "mediumblob": 11}
POINTERS |= {"longblob": 12, "json": 12, "vector": 12, **dict.fromkeys(GEOMETRIES, 12)}
SHORT = 256  # from here on a length takes two bytes
# Family -> from which length on a value is kept apart, and the bytes of it that then count.
# https://mariadb.com/kb/en/troubleshooting-row-size-too-large-errors-with-innodb/
APART = {"mysql": (41, 40), "mariadb": (SHORT, 20)}
# A row's own: its header, transaction and undo pointer. https://dev.mysql.com/doc/refman/8.0/en/innodb-row-format.html
ROW, OWN_NUMBER = 5 + 6 + 7, 6
PAGE, PAGE_OWN, LARGEST = 16_384, 132, 16_383
DIGITS = (0, 1, 1, 2, 2, 3, 3, 4, 4, 4)  # bytes of up to nine digits


def row_bytes(columns: Sequence[MadeColumn]) -> int:
    """Return the bytes of the longest row, as the first limit counts them."""
    nulls = sum(column.nullable for column in columns)
    return sum(map(_declared, columns)) + (nulls + 7) // 8


def page_bytes(columns: Sequence[MadeColumn], key: Collection[str], family: str) -> int:
    """Return the bytes of the longest row that InnoDB keeps together."""
    nulls = sum(column.nullable for column in columns)
    own = ROW + OWN_NUMBER * (not key) + (nulls + 7) // 8
    return own + sum(_together(column, column.name in key, *APART[family]) for column in columns)


def page_room(page: int) -> int:
    """Return how many bytes of a row are too many for InnoDB, by the size of its pages."""
    return min((page - PAGE_OWN) // 2, LARGEST)


def _declared(column: MadeColumn) -> int:
    name = bare(column.native)
    if name in POINTERS:
        return POINTERS[name]
    length = _length(column)
    if name in ("varchar", "varbinary"):
        return length + (2 if length >= SHORT else 1)
    return length


def _together(column: MadeColumn, is_key: bool, apart: int, counted: int) -> int:
    name = bare(column.native)
    if name in POINTERS:
        return counted + 1
    length = _length(column)
    is_open = name in ("varchar", "varbinary") or (name == "char" and column.character_bytes > 1)
    if not is_open:
        return length
    if length >= apart and not is_key:
        return counted + 1
    return length + (2 if length >= SHORT else 1)


def _length(column: MadeColumn) -> int:
    """Return the most bytes of a value that stands in the row."""
    name, size = bare(column.native), sizes(column.native)
    if name in FIXED:
        return FIXED[name]
    if name in CLOCKS:
        return CLOCKS[name] + ((*size, 0)[0] + 1) // 2
    if name == "decimal":
        precision, scale = (*(size or (10, 0)), 0)[:2]
        return _digits(precision - scale) + _digits(scale)
    if name == "bit":
        return ((*size, 1)[0] + 7) // 8
    if name == "enum":
        return 1 if column.native.count("','") < SHORT - 1 else 2
    if name == "set":
        labels = column.native.count("','") + 1
        return next(count for count in (1, 2, 3, 4, 8) if labels <= 8 * count)
    return (*size, 1)[0] * column.character_bytes


def _digits(count: int) -> int:
    return count // 9 * 4 + DIGITS[count % 9]
