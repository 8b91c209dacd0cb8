"""What servers of tests have and have not, as data: a test that needs more than a release knows does not run on it.

What does not live here: which release of a source the product asks what (connectors/mysql/versions.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from anabranch.testing import packages
from anabranch.testing.packages import Version
from anabranch.testing.servers import Server

# Feature -> first release of MySQL, None: never. MariaDB's names are its own affair: tests run on one release of it.
SINCE: dict[str, Version | None] = {
    "checksums": (5, 6),
    "fractions": (5, 6),  # of seconds: DATETIME(6)
    "GTIDs": (5, 6),
    "ST_GeomFromText": (5, 6),
    "row images": (5, 6),  # MINIMAL and NOBLOB
    "full-text": (5, 6),  # indexes of InnoDB
    "GTIDs of what is committed": (5, 7),  # before, a snapshot needs a watermark with GTIDs, too
    "generated columns": (5, 7),
    "JSON": (5, 7),
    "utf8mb3": (5, 7),  # by this name; before, it is called utf8
    "XA in the log": (5, 7),  # before, what was prepared is logged with its commit
    "row metadata": (8, 0),
    "compressed transactions": (8, 0),
    "axes": (8, 0),  # of geographic systems: latitude is read first
    "replicas of one id": (8, 0),  # the first is told that another has come
    "recursive queries": (8, 0),
    "CREATE TABLE … SELECT": (8, 0),  # with GTIDs
    "TRUNCATE under a snapshot": (8, 0),  # is told to who reads on; before, the table is empty to all
    "invisible columns": (8, 0),
    "expression defaults": (8, 0),
    "utf8mb4_0900_bin": (8, 0),
    "roles": (8, 0),
    "checks": (8, 0),  # before, they are read and forgotten
    "keys that are wanted": (8, 0),  # sql_require_primary_key
    "of two releases": None,  # MariaDB 10.11 and MySQL 8.0 alone
}


def has(version: Version, feature: str) -> bool:
    """Return whether a MySQL of this version has it."""
    since = SINCE[feature]
    return since is not None and version >= since


def has_all(version: Version, features: Iterable[str]) -> bool:
    return all(has(version, feature) for feature in features)


_FRACTION = re.compile(r"\b(\w*(?:TIME|STAMP))\([1-6]\)", re.IGNORECASE)
# What in a column's SQL needs a feature.
_NEEDED_BY = (
    ("JSON", re.compile(r"\bjson\b", re.IGNORECASE)),
    ("fractions", re.compile(r"\b(time|datetime|timestamp)\([1-6]\)", re.IGNORECASE)),
    ("expression defaults", re.compile(r"DEFAULT \(", re.IGNORECASE)),
)


def knows(server: Server, feature: str) -> bool:
    """Return whether a server of the tests has this feature. For a MariaDB a test says so itself."""
    return server.name != "mysql" or has(packages.parse_release(server.version), feature)


def takes(server: Server, column: str) -> bool:
    """Can `column` (SQL of a type, with a default or not) be a column there?"""
    return all(knows(server, feature) for feature, needed in _NEEDED_BY if needed.search(column))


def spelled(server: Server, sql: str) -> str:
    """The same with what an older server has instead."""
    if not knows(server, "fractions"):
        sql = _FRACTION.sub(r"\1", sql)
    return sql if knows(server, "utf8mb3") else sql.replace("utf8mb3", "utf8")
