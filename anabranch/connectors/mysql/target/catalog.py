"""TargetCatalog: what keys, foreign keys and triggers stand at a MySQL or MariaDB target now, on the tables that a job
writes to.

What does not live here: the statements that read them (`structures.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from anabranch.connectors.mysql.target.errors import translated
from anabranch.connectors.mysql.target.session import Connection, connect
from anabranch.connectors.mysql.target.structures import ExistingForeignKey, ExistingTable, read_tables
from anabranch.contracts import Enforced
from anabranch.model.endpoint import Endpoint
from anabranch.model.ids import TableId
from anabranch.model.schema import Action
from anabranch.rows.keys import EnforcedKey, UniqueKey
from anabranch.rows.net import TargetTable

# https://dev.mysql.com/doc/refman/8.0/en/create-table-foreign-keys.html#foreign-key-referential-actions
ACTIONS = {"CASCADE": Action.CASCADE, "SET NULL": Action.SET_NULL, "SET DEFAULT": Action.SET_DEFAULT}
ACTIONS |= {"NO ACTION": Action.RESTRICT, "RESTRICT": Action.RESTRICT}


class MysqlTargetCatalog:
    """Reads over one connection, opened on first use and again after it was lost."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._connection: Connection | None = None

    def unique_keys(self, tables: Sequence[TargetTable]) -> Mapping[TableId, frozenset[UniqueKey]]:
        with translated("read the unique keys of the target"):
            found = self._read(tables)
        ours = {t.source: frozenset(_unique_keys(found[t.target], t.columns)) for t in tables if t.target in found}
        return {source: keys for source, keys in ours.items() if keys}

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


def _unique_keys(table: ExistingTable, ours: Sequence[str]) -> Iterator[UniqueKey]:
    """Yield the unique keys that depend on columns of ours. Names of columns are one name whatever their case."""
    for index in table.secondary_unique:
        needed = frozenset(name.lower() for name in table.depends_on(index))
        columns = frozenset(name for name in ours if name.lower() in needed)
        whole = not any((*index.prefixes, *index.expressions)) and len(columns) == len(needed) == len(index.columns)
        if columns:
            yield UniqueKey(columns, whole)


def _enforced(key: ExistingForeignKey) -> EnforcedKey:
    """Return a key of InnoDB: it is asked at once, and never at the end of a transaction."""
    ends = key.child, key.columns, key.parent, key.parent_columns
    return EnforcedKey(key.name, *ends, ACTIONS[key.on_delete], ACTIONS[key.on_update])
