"""Tables of MariaDB with unique keys over long values: the log has columns of them that no catalogue shows.

The server keeps a hash of the values in a hidden column behind all others and writes it with every row. It says nothing that
the other columns do not, so it is read over. A key that can be kept as it is has none, though it is called a hash, too.
https://mariadb.com/kb/en/create-table/#unique · https://mariadb.com/kb/en/system-versioned-tables/

What does not live here: the decoding itself (`rows_decode.py`).
"""

from __future__ import annotations

from dataclasses import replace

from anabranch.connectors.mysql.source.rows_decode import TableDecoders
from anabranch.connectors.mysql.source.tablemap import TableMap
from anabranch.contracts import ValueRules
from anabranch.model.schema import Column, TableSchema
from anabranch.rows.builder import TableBuffer

NATIVE_TYPE = "bigint unsigned"


def may_be_hashed(schema: TableSchema) -> int:
    """Return how many hidden columns the table may have."""
    return sum(index.unique and index.kind == "hash" for index in schema.indexes)


def with_hashes(schema: TableSchema, seen: TableMap) -> TableSchema:
    """Return the definition with as many hidden columns as the log has more, if the table may have that many."""
    more = len(seen.columns) - len(schema.columns)
    if not 0 < more <= may_be_hashed(schema):
        return schema
    hidden = (Column(f"DB_ROW_HASH_{number}", None, NATIVE_TYPE) for number in range(1, more + 1))
    return replace(schema, columns=(*schema.columns, *hidden))


class HashedDecoders(TableDecoders):
    """Decoders of a table that may have such columns: their values get nowhere."""

    def __init__(self, seen: TableMap, buffer: TableBuffer, rules: ValueRules, family: str) -> None:
        logged = with_hashes(buffer.schema, seen)
        super().__init__(seen, buffer, rules, family, logged)
        self.lists = [*buffer.columns, *([] for _ in logged.columns[len(buffer.columns) :])]
