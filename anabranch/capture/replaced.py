"""Tables that lost a column and got another one of its name, with nothing in the log that told it: the rows of both look
alike.

The source is asked now and then. What it says is of now, and the log may still have a row that tells the change at its place:
so a table is parked once the log is read up to there. What does not live here: how a column is known to be another one
(SourceReplacedColumns), how a table is parked (definitions.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from typing import TYPE_CHECKING

from anabranch.contracts import replaced_of

if TYPE_CHECKING:
    from anabranch.contracts import SourceConnector
    from anabranch.model.ids import TableId
    from anabranch.model.position import LogMark
    from anabranch.model.schema import TableSchema
    from anabranch.trail.history import SchemaHistory


class ReplacedColumns:
    """`look` asks, `due` tells what is still so once the log is read up to there."""

    def __init__(self, source: SourceConnector) -> None:
        self._source = source
        self._found: Mapping[TableId, tuple[str, int]] = {}  # why, and the version of the definition
        self._mark: LogMark | None = None

    def look(self, in_force: Mapping[TableId, TableSchema]) -> None:
        """Look for such tables, unless a former finding waits for the log to pass it. Raises SourceUnavailable."""
        if self._mark is not None:
            return
        if found := replaced_of(self._source, in_force):
            with closing(self._source.catalog()) as catalog:
                mark = catalog.mark()  # behind everything that led to what was found
            self._found = {table: (why, in_force[table].version) for table, why in found.items()}
            self._mark = mark

    def forget(self) -> None:
        """Drop the finding: another server's log has other positions."""
        self._found, self._mark = {}, None

    @property
    def is_waiting(self) -> bool:
        return self._mark is not None

    def due(self, place: LogMark, history: SchemaHistory) -> dict[TableId, str]:
        """Return the tables to park, with the reason: those that the log, read up to `place`, has not told of."""
        if self._mark is None or not self._source.order.includes(place, self._mark.native, None):
            return {}
        found, in_force = self._found, history.in_force()
        self.forget()
        return {t: why for t, (why, version) in found.items() if t in in_force and in_force[t].version == version}
