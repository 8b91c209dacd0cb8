"""Transactions that are prepared and undecided at the server (XA, K6). What the log says of them is `endings.py`'s.

https://dev.mysql.com/doc/refman/8.0/en/xa-statements.html · https://mariadb.com/kb/en/xa-transactions/
"""

from __future__ import annotations

from collections.abc import Mapping

import pymysql

from anabranch import log
from anabranch.connectors.mysql.connection import ask, family, version
from anabranch.connectors.mysql.source.binlog import xid_text
from anabranch.errors import SourceError, SourceUnavailable

# From which version on XA PREPARE is in the log; before, the rows come with XA COMMIT and nothing is to be waited for.
# https://dev.mysql.com/doc/relnotes/mysql/5.7/en/news-5-7-7.html · https://mariadb.com/kb/en/mariadb-1050-release-notes/
LOGGED_FROM: Mapping[str, tuple[int, int, int]] = {"mysql": (5, 7, 7), "mariadb": (10, 5, 0)}
# MySQL gives the xid as text unless told otherwise, from the same version on; MariaDB, and MySQL before, as bytes.
_ASK = {"mysql": "XA RECOVER CONVERT XID", "mariadb": "XA RECOVER"}


def prepared(connection: pymysql.Connection) -> frozenset[str] | None:
    """List prepared transactions whose rows may be in the log already."""
    return listed(connection) if version(connection) >= LOGGED_FROM[family(connection)] else frozenset()


def listed(connection: pymysql.Connection) -> frozenset[str] | None:
    """Return the xids as the log names them; None where this user may not ask (MySQL: XA_RECOVER_ADMIN)."""
    kind = family(connection)
    try:
        rows = ask(connection, _ASK[kind] if version(connection) >= LOGGED_FROM[kind] else "XA RECOVER")
    except SourceUnavailable:
        raise
    except SourceError as error:
        log.get().warning("prepared_transactions_unknown", why=error.message)
        return None
    return frozenset(_xid(*row) for row in rows)


def _xid(form: int, first: int, second: int, data: bytes | str) -> str:
    """Write an xid. The lengths of both parts are in bytes; MySQL's data is 0x and hexadecimal digits."""
    if isinstance(data, str):
        data = bytes.fromhex(data.removeprefix("0x")) if data.startswith("0x") else data.encode()
    return xid_text(form, data[:first], data[first : first + second])
