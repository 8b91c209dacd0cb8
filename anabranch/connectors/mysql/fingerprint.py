"""Fingerprints of rows (rows/fingerprint.py) by a MySQL or MariaDB itself: one statement, one row of an answer.

MD5 is the one hash that both have, and that other databases have, too. It is asked for once per row. From MySQL 9.6 on it is a
component that may not be installed: https://dev.mysql.com/doc/relnotes/mysql/9.6/en/news-9-6-0.html
https://dev.mysql.com/doc/refman/8.0/en/encryption-functions.html#function_md5 · https://mariadb.com/kb/en/md5/
What does not live here: a column's text (each role), asking.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from weakref import WeakKeyDictionary

import pymysql

from anabranch.connectors.mysql.connection import fetch
from anabranch.rows.fingerprint import MODULUS, Fingerprint, Hashing

HASHINGS = frozenset((Hashing.MD5,))
NO_FUNCTION = (1046, 1305)  # the first where the session has no database in which a function could be
_HAD: WeakKeyDictionary[Any, frozenset[Hashing]] = WeakKeyDictionary()  # session -> what its server can
SEPARATOR, NULL = "_binary x'ff'", "_binary x'fe'"


def hashings(connection: pymysql.Connection) -> frozenset[Hashing]:
    """Return the ways in which this server can make fingerprints; it is asked once a session. Errors of the driver pass."""
    if connection not in _HAD:
        try:
            fetch(connection, "SELECT MD5('')")
            _HAD[connection] = HASHINGS
        except pymysql.err.Error as error:
            if error.args[0] not in NO_FUNCTION:
                raise
            _HAD[connection] = frozenset()
    return _HAD[connection]


def statement(texts: Sequence[str], rows: str) -> str:
    """Return the query. `texts`: of each column, UTF-8 as bytes, or a number; `rows`: what stands behind FROM."""
    cells = ", ".join(f"IFNULL({text}, {NULL})" for text in texts)
    half = f"LEFT(MD5(CONCAT_WS({SEPARATOR}, {cells})), 16)"
    return f"SELECT COUNT(*), SUM(CAST(CONV({half}, 16, 10) AS UNSIGNED)) FROM {rows}"


def outcome(row: Sequence[Any], warnings: int) -> Fingerprint | None:
    """Return the fingerprint of the query's answer. None where the server had a warning, of a row beyond max_allowed_packet
    perhaps, which has no hash: https://dev.mysql.com/doc/refman/8.0/en/string-functions.html"""
    count, total = row
    if warnings or (count and total is None):
        return None
    return Fingerprint(int(count), int(total or 0) % MODULUS)


def as_bytes(text: str) -> str:
    """Return SQL for characters as UTF-8 bytes, which no character set of the session touches."""
    return f"CAST(CONVERT({text} USING utf8mb4) AS BINARY)"


def clock(text: str, fraction: int) -> str:
    """Return SQL for a time without zeros at the end of the decimals of its seconds, which has some if `fraction` is not 0."""
    return f"TRIM(TRAILING '.' FROM TRIM(TRAILING '0' FROM {text}))" if fraction else text
