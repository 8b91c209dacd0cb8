"""TargetCatalog: what keys, foreign keys and triggers stand at a PostgreSQL target now, on the tables that a job writes to.

What does not live here: the statements that read them (`unique.py`, `enforced.py`, `catalog.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from anabranch.connectors.postgresql.connection import Connection, connect
from anabranch.connectors.postgresql.errors import translated
from anabranch.connectors.postgresql.target.catalog import read_tables
from anabranch.connectors.postgresql.target.enforced import read_keys
from anabranch.connectors.postgresql.target.unique import UniqueKey as ExistingKey
from anabranch.connectors.postgresql.target.unique import unique_keys
from anabranch.contracts import Enforced
from anabranch.model.endpoint import Endpoint
from anabranch.model.ids import TableId
from anabranch.rows.keys import EnforcedKey, UniqueKey
from anabranch.rows.net import TargetTable


class PostgresCatalog:
    """Reads over one connection, opened on first use and again after it was lost."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._connection: Connection | None = None

    def unique_keys(self, tables: Sequence[TargetTable]) -> Mapping[TableId, frozenset[UniqueKey]]:
        with translated("read the unique keys of the target"):
            found = unique_keys(self._session(), [table.target for table in tables])
        ours = {t.source: frozenset(_ours(found.get(t.target, ()), frozenset(t.columns))) for t in tables}
        return {source: keys for source, keys in ours.items() if keys}

    def foreign_keys(self, tables: Sequence[TargetTable]) -> Sequence[EnforcedKey]:
        with translated("read the foreign keys of the target"):
            return read_keys(self._session(), [table.target for table in tables])

    def guards(self, tables: Sequence[TargetTable]) -> Enforced:
        with translated("read triggers and foreign keys of the target"):
            found = read_tables(self._session(), [table.target for table in tables])
        has_keys = any(table.foreign_keys or table.referenced_by for table in found.values())
        return Enforced(has_keys, any(table.triggers for table in found.values()))

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _session(self) -> Connection:
        if self._connection is None or self._connection.closed:
            self._connection = connect(self._endpoint, "anabranch-catalog", autocommit=True)
        return self._connection


def _ours(found: Iterable[ExistingKey], ours: frozenset[str]) -> Iterator[UniqueKey]:
    for key in found:
        if columns := key.columns & ours:
            yield UniqueKey(columns, key.is_plain and columns == key.columns)
