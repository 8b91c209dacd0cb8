"""Releases of the two servers and what they can make: facts by name, for statements that are written with and without a
connection.

What does not live here: which releases a job may use (preflight), settings of a server.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from weakref import WeakKeyDictionary

from anabranch.connectors.mysql.connection import family, version
from anabranch.connectors.mysql.target.session import Connection, ask

Version = tuple[int, int, int]
ALWAYS: Version = (0, 0, 0)
NEWEST: Version = (99, 0, 0)

# Thing -> first release, None: not in any.
_SINCE: Mapping[str, Mapping[str, Version | None]] = {
    # DEFAULT (expression), also for text, blob, json: https://dev.mysql.com/doc/refman/8.0/en/data-type-defaults.html
    # https://mariadb.com/kb/en/create-table/#default-column-option
    "expression defaults": {"mysql": (8, 0, 13), "mariadb": (10, 2, 1)},
    # https://dev.mysql.com/doc/refman/8.0/en/create-table-check-constraints.html
    "checks": {"mysql": (8, 0, 16), "mariadb": (10, 2, 22)},
    # https://dev.mysql.com/doc/refman/5.7/en/create-table-generated-columns.html
    "generated columns": {"mysql": (5, 7, 6), "mariadb": ALWAYS},
    # https://dev.mysql.com/doc/refman/8.0/en/invisible-columns.html · https://mariadb.com/kb/en/invisible-columns/
    "invisible columns": {"mysql": (8, 0, 23), "mariadb": (10, 3, 3)},
    # https://dev.mysql.com/doc/refman/8.0/en/invisible-indexes.html · https://mariadb.com/kb/en/ignored-indexes/
    "invisible indexes": {"mysql": (8, 0, 0), "mariadb": (10, 6, 0)},
    # Parts that are expressions: https://dev.mysql.com/doc/refman/8.0/en/create-index.html
    "functional indexes": {"mysql": (8, 0, 13), "mariadb": None},
    # Index rows of 3,072 bytes in DYNAMIC tables without a setting: https://dev.mysql.com/doc/refman/5.7/en/innodb-limits.html
    "long index rows": {"mysql": (5, 7, 7), "mariadb": (10, 2, 2)},
    # https://dev.mysql.com/doc/refman/8.0/en/descending-indexes.html · https://mariadb.com/kb/en/descending-indexes/
    "descending indexes": {"mysql": (8, 0, 0), "mariadb": (10, 8, 0)},
    # https://dev.mysql.com/doc/refman/8.0/en/alter-table.html · https://mariadb.com/kb/en/alter-table/#rename-column
    "RENAME COLUMN": {"mysql": (8, 0, 3), "mariadb": (10, 5, 2)},
    # https://dev.mysql.com/doc/refman/5.7/en/alter-table.html · https://mariadb.com/kb/en/alter-table/#rename-indexkey
    "RENAME INDEX": {"mysql": (5, 7, 1), "mariadb": (10, 5, 2)},
    # https://dev.mysql.com/doc/refman/5.7/en/creating-spatial-indexes.html · https://mariadb.com/kb/en/spatial-index/
    "spatial indexes": {"mysql": (5, 7, 5), "mariadb": (10, 2, 2)},
    # https://dev.mysql.com/doc/refman/8.0/en/roles.html · https://mariadb.com/kb/en/roles_overview/
    "roles": {"mysql": (8, 0, 0), "mariadb": (10, 0, 5)},
}
# Type -> the first release that has it; all others are older than what may be a target.
# https://dev.mysql.com/doc/refman/5.7/en/json.html · https://dev.mysql.com/doc/refman/9.0/en/vector.html
# https://mariadb.com/kb/en/uuid-data-type/ · https://mariadb.com/kb/en/inet4/ · https://mariadb.com/kb/en/vector/
_TYPES: Mapping[str, Mapping[str, Version]] = {
    "json": {"mysql": (5, 7, 8)},
    "vector": {"mysql": (9, 0, 0), "mariadb": (11, 7, 1)},
    "uuid": {"mariadb": (10, 7, 0)},
    "inet4": {"mariadb": (10, 10, 0)},
}
INDEX_BYTES, OLD_COLUMN_BYTES = 3072, 767  # of an index row; of each of its columns in older releases


_COLLATIONS = "SELECT COLLATION_NAME FROM information_schema.COLLATIONS"
# What the newest release of a family has not, by a part of the name
_UNKNOWN = {"mysql": ("uca1400", "_nopad_"), "mariadb": ("_0900_",)}


class Newest(frozenset[str]):
    """The collations of a family's newest release, where no server is asked: all but those of the other family."""

    family = "mysql"

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and bool(name) and not any(part in name for part in _UNKNOWN[self.family])


class NewestMariadb(Newest):
    family = "mariadb"


@dataclass(frozen=True, slots=True)
class Release:
    """`family`: mysql or mariadb. `collations`: those that the server has. `explicit`: a `timestamp` gets no clauses that its
    definition does not have."""

    family: str
    version: Version
    collations: frozenset[str]
    explicit: bool = True

    @classmethod
    def of(cls, connection: Connection) -> Release:
        """Return the release of a connection's server, which is asked once."""
        if connection not in _KNOWN:
            names = frozenset(str(name) for (name,) in ask(connection, _COLLATIONS))
            _KNOWN[connection] = cls(family(connection), version(connection), names, connection.explicit_timestamps)
        return _KNOWN[connection]

    @classmethod
    def newest(cls, family: str) -> Release:
        return cls(family, NEWEST, NewestMariadb() if family == "mariadb" else Newest())

    def has(self, thing: str) -> bool:
        """Return whether it can make `thing` (a key of the table above)."""
        since = _SINCE[thing][self.family]
        return since is not None and self.version >= since

    def has_type(self, name: str) -> bool:
        """Return whether columns may have this type, by its name without sizes."""
        return self.version >= _TYPES.get(name, {}).get(self.family, ALWAYS)

    @property
    def index_bytes(self) -> int:
        """The most bytes that one column may take in an index; INDEX_BYTES is what all may together."""
        return INDEX_BYTES if self.has("long index rows") else OLD_COLUMN_BYTES


_KNOWN: WeakKeyDictionary[Connection, Release] = WeakKeyDictionary()
