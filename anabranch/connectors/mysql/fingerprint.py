"""Fingerprints of rows (rows/fingerprint.py) by a MySQL or MariaDB itself: one statement, one row of an answer.

SHA-256 is the hash that every release of both has (MySQL 9.7 has no MD5 of its own), and that other databases have, too. It
is asked for once per row.
https://dev.mysql.com/doc/refman/8.0/en/encryption-functions.html#function_sha2 · https://mariadb.com/kb/en/sha2/
What does not live here: a column's text (each role), asking.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from anabranch.model.datatype import Kind, LogicalType
from anabranch.rows.fingerprint import MODULUS, Fingerprint, Hashed, Hashing

HASHINGS = frozenset((Hashing.SHA256_FULL, Hashing.SHA256))
SEPARATOR, NULL = "_binary x'ff'", "_binary x'fe'"
MOMENTS = frozenset((Kind.TIMESTAMP, Kind.INSTANT))


def statement(columns: Sequence[Hashed], texts: Sequence[str], rows: str) -> str:
    """Return the query. `texts`: of each column, UTF-8 as bytes, or a number; `rows`: what stands behind FROM.

    CONCAT_WS takes MySQL half as long again as CONCAT with the separators in between (decision 207). A NULL where none may be
    makes the whole text NULL, which adds nothing to the sum.
    """
    cells = (f"IFNULL({text}, {NULL})" if one.nullable else text for one, text in zip(columns, texts, strict=True))
    digits = f"LEFT(SHA2(CONCAT({f', {SEPARATOR}, '.join(cells)}), 256), 16)"
    return f"SELECT COUNT(*), SUM(CAST(CONV({digits}, 16, 10) AS UNSIGNED)) FROM {rows}"


def outcome(row: Sequence[Any], warnings: int) -> Fingerprint | None:
    """Return the fingerprint of the query's answer. None where the server had a warning, of a row beyond max_allowed_packet
    perhaps, which has no hash: https://dev.mysql.com/doc/refman/8.0/en/string-functions.html"""
    count, total = row
    if warnings or (count and total is None):
        return None
    return Fingerprint(int(count), int(total or 0) % MODULUS)


def plain_bytes(text: str) -> str:
    """Return SQL for characters that are stored in UTF-8 as these bytes."""
    return f"CAST({text} AS BINARY)"


def as_bytes(text: str) -> str:
    """Return SQL for characters as UTF-8 bytes, which no character set of the session touches."""
    return f"CAST(CONVERT({text} USING utf8mb4) AS BINARY)"


def is_full(type: LogicalType, hashing: Hashing) -> bool:
    """Return whether a column's moments are hashed with all the decimals that the source's column has."""
    return hashing is Hashing.SHA256_FULL and type.kind in MOMENTS and not type.printed


def clock(text: str, fraction: int) -> str:
    """Return SQL for a time without zeros at the end of the decimals of its seconds, which has some if `fraction` is not 0."""
    return f"TRIM(TRAILING '.' FROM TRIM(TRAILING '0' FROM {text}))" if fraction else text
