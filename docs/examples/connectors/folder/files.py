"""Reads the folder: definitions, the log, and tables as they were behind a place of the log."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from anabranch.errors import SourceUnavailable
from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.endpoint import Endpoint
from anabranch.model.ids import TableId
from anabranch.model.schema import Column, TableSchema

# Types of this database -> logical types.
TYPES = {
    "int": LogicalType(Kind.INT32),
    "bigint": LogicalType(Kind.INT64),
    "text": LogicalType(Kind.TEXT),
    "money": LogicalType(Kind.DECIMAL, precision=12, scale=2),
    "bytes": LogicalType(Kind.BINARY),
    "moment": LogicalType(Kind.TIMESTAMP),
}
Row = dict[str, str | None]
"""Text forms by column."""


class Folder:
    """Reads files only; it keeps nothing open and nothing in memory."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._place = Path("/" + endpoint.database)

    def identity(self) -> str:
        return str(self._read("tables.json")["identity"])

    def tables(self) -> dict[TableId, TableSchema]:
        found = {}
        for name, table in self._read("tables.json")["tables"].items():
            key = tuple(table["key"])
            columns = tuple(Column(c, TYPES[type], type, nullable=c not in key) for c, type in table["columns"].items())
            found[TableId.parse(name)] = TableSchema(TableId.parse(name), columns, key)
        return found

    def begin(self) -> int:
        """Return the number behind which the log still has everything."""
        return int(self._read("base.json")["number"])

    def end(self) -> int:
        return max((int(file.name) for file in (self._place / "log").glob("[0-9]*")), default=self.begin())

    def transaction(self, number: int) -> dict[str, Any]:
        return self._read(f"log/{number:08}")

    def rows(self, table: TableSchema, upto: int) -> list[Row]:
        """Return the rows that the table had behind transaction `upto`."""
        base = self._read("base.json")
        rows = list[Row](base["rows"].get(str(table.id), []))
        for number in range(base["number"] + 1, upto + 1):
            done = self.transaction(number)
            if done.get("truncate") == str(table.id):
                rows.clear()
            for change in done.get("changes", []):
                if change["table"] == str(table.id):
                    if change["before"] is not None:
                        rows.remove(change["before"])
                    if change["after"] is not None:
                        rows.append(change["after"])
        return rows

    def _read(self, name: str) -> dict[str, Any]:
        try:
            found: dict[str, Any] = json.loads((self._place / name).read_bytes())
        except OSError as error:
            raise SourceUnavailable(f"{self._place / name} cannot be read: {error.strerror}") from None
        return found
