"""Abilities of releases of MySQL and MariaDB, and since when: vendor facts as data, asked for by name.

What does not live here: which releases a job may use (`preflight_server.py`), settings that a server may have or not
(they are looked up among its variables).
"""

from __future__ import annotations

from collections.abc import Mapping

import pymysql

from anabranch.connectors.mysql.connection import family, version

Version = tuple[int, int, int]
ALWAYS: Version = (0, 0, 0)

# Thing -> first release. MariaDB's are older than the oldest that preflight lets pass, but for what it never had.
_SINCE: Mapping[str, Mapping[str, Version | None]] = {
    # START TRANSACTION READ ONLY: https://dev.mysql.com/doc/refman/5.6/en/commit.html
    "read-only transactions": {"mysql": (5, 6, 5), "mariadb": ALWAYS},
    # DATETIME(6), and the column that tells of it: https://dev.mysql.com/doc/refman/5.6/en/fractional-seconds.html
    "fractions of seconds": {"mysql": (5, 6, 4), "mariadb": ALWAYS},
    # https://dev.mysql.com/doc/refman/5.7/en/create-table-generated-columns.html
    "generated columns": {"mysql": (5, 7, 6), "mariadb": ALWAYS},
    # STATISTICS.IS_VISIBLE, and EXPRESSION: https://dev.mysql.com/doc/refman/8.0/en/information-schema-statistics-table.html
    "invisible indexes": {"mysql": (8, 0, 0), "mariadb": None},
    "functional indexes": {"mysql": (8, 0, 13), "mariadb": None},
    # STATISTICS.IGNORED: https://mariadb.com/kb/en/ignored-indexes/
    "ignored indexes": {"mysql": None, "mariadb": (10, 6, 0)},
    # @@gtid_executed: https://dev.mysql.com/doc/refman/5.6/en/replication-options-gtids.html
    "GTIDs": {"mysql": (5, 6, 5), "mariadb": ALWAYS},
    # Before (seen in 5.6.14: 2 of 40 snapshots under four writers were behind it) a transaction enters gtid_executed when it
    # is logged, since then when its engine has committed it. 5.7: sql/binlog.cc, process_commit_stage_queue.
    "GTIDs of what is committed": {"mysql": (5, 7, 9), "mariadb": ALWAYS},
    # utf8mb4_0900_bin, utf8mb4_nopad_bin: https://dev.mysql.com/doc/relnotes/mysql/8.0/en/news-8-0-17.html
    "collations that do not pad": {"mysql": (8, 0, 17), "mariadb": ALWAYS},
    # Definitions are rows: https://dev.mysql.com/doc/refman/8.0/en/data-dictionary-information-schema.html
    "a data dictionary": {"mysql": (8, 0, 0), "mariadb": None},
    # SHOW BINARY LOG STATUS: https://dev.mysql.com/doc/relnotes/mysql/8.2/en/news-8-2-0.html
    "binary log status": {"mysql": (8, 2, 0), "mariadb": None},
    # SHOW REPLICA STATUS: https://dev.mysql.com/doc/refman/8.0/en/show-replica-status.html
    "replica status": {"mysql": (8, 0, 22), "mariadb": ALWAYS},
}


def knows(connection: pymysql.Connection, thing: str) -> bool:
    """Return whether the server at the other end of `connection` knows `thing` (a key of the table above)."""
    since = _SINCE[thing][family(connection)]
    return since is not None and version(connection) >= since


def has(thing: str, family: str, version: tuple[int, ...]) -> bool:
    """Return whether a release of a family knows `thing` (a key of the table above)."""
    since = _SINCE[thing][family]
    return since is not None and version >= since
