"""TargetCatalog: what keys, foreign keys and triggers stand at a MySQL or MariaDB target now, on the tables that a job
writes to.

What does not live here: the statements that read them (`structures.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from anabranch.connectors.mysql.target.errors import translated
from anabranch.connectors.mysql.target.session import Connection, connect
from anabranch.connectors.mysql.target.structures import ExistingForeignKey, ExistingTable, read_tables
from anabranch.contracts import Enforced
from anabranch.model.endpoint import Endpoint
from anabranch.model.ids import TableId
from anabranch.model.schema import Action
from anabranch.rows.keys import EnforcedKey
from anabranch.rows.net import TargetTable

# https://dev.mysql.com/doc/refman/8.0/en/create-table-foreign-keys.html#foreign-key-referential-actions
ACTIONS = {"CASCADE": Action.CASCADE, "SET NULL": Action.SET_NULL, "SET DEFAULT": Action.SET_DEFAULT}
ACTIONS |= {"NO ACTION": Action.RESTRICT, "RESTRICT": Action.RESTRICT}


class MysqlTargetCatalog:
    """Reads over one connection, opened on first use and again after it was lost."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._connection: Connection | None = None

    def unique_columns(self, tables: Sequence[TargetTable]) -> Mapping[TableId, frozenset[str]]:
        with translated("read the unique keys of the target"):
            found = self._read(tables)
        ours = {t.source: _unique_columns(found[t.target], t.columns) for t in tables if t.target in found}
        return {source: columns for source, columns in ours.items() if columns}

    def foreign_keys(self, tables: Sequence[TargetTable]) -> Sequence[EnforcedKey]:
        with translated("read the foreign keys of the target"):
            found = self._read(tables)
        keys = {(k.child, k.name): k for t in found.values() for k in (*t.foreign_keys, *t.referenced_by)}
        return [_enforced(keys[place]) for place in sorted(keys)]

    def guards(self, tables: Sequence[TargetTable]) -> Enforced:
        with translated("read triggers and foreign keys of the target"):
            found = self._read(tables)
        has_keys = any(table.foreign_keys or table.referenced_by for table in found.values())
        return Enforced(has_keys, any(table.triggers for table in found.values()))

    def close(self) -> None:
        if self._connection is not None and self._connection.open:
            self._connection.close()
        self._connection = None

    def _read(self, tables: Sequence[TargetTable]) -> dict[TableId, ExistingTable]:
        return read_tables(self._session(), [table.target for table in tables])

    def _session(self) -> Connection:
        if self._connection is None or not self._connection.open:
            self._connection = connect(self._endpoint, "anabranch-catalog", autocommit=True)
        return self._connection


def _unique_columns(table: ExistingTable, ours: Sequence[str]) -> frozenset[str]:
    """Return those of our columns on which unique keys depend. Names of columns are one name whatever their case."""
    found = frozenset(name.lower() for index in table.secondary_unique for name in table.depends_on(index))
    return frozenset(name for name in ours if name.lower() in found)


def _enforced(key: ExistingForeignKey) -> EnforcedKey:
    """Return a key of InnoDB: it is asked at once, and never at the end of a transaction."""
    ends = key.child, key.columns, key.parent, key.parent_columns
    return EnforcedKey(key.name, *ends, ACTIONS[key.on_delete], ACTIONS[key.on_update])
