"""Rows that went with a partition, of which a source's log does not tell: the table goes on without them, from a place that is
behind all rows that came to the partition before.

The source is asked now and then, and says what is so now; the log may be read up to a place long before. What does not live
here: how it is known (SourceSetUp.drift), what is noted of it (definitions.py).
"""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from anabranch.contracts import RowsWent, SourceConnector
    from anabranch.model.ids import TableId
    from anabranch.model.position import LogMark
    from anabranch.model.schema import TableSchema
    from anabranch.trail.history import SchemaHistory


class WentRows:
    """`found` takes what a look at the source has found, `due` tells it once the log is read up to there."""

    def __init__(self, source: SourceConnector) -> None:
        self._source = source
        self._found: dict[TableId, TableSchema] = {}  # with the partitions that are left
        self._mark: LogMark | None = None

    def found(self, found: dict[TableId, RowsWent]) -> None:
        """Take findings, unless former ones wait for the log to pass them: the next look finds these again. Raises
        SourceUnavailable."""
        if not found or self._mark is not None:
            return
        with closing(self._source.catalog()) as catalog:
            mark = catalog.mark()  # behind everything that led to what was found
        self._found, self._mark = {table: one.schema for table, one in found.items()}, mark

    def forget(self) -> None:
        """Drop the findings: another server's log has other positions."""
        self._found, self._mark = {}, None

    @property
    def is_waiting(self) -> bool:
        return self._mark is not None

    def due(self, place: LogMark, history: SchemaHistory) -> list[TableSchema]:
        """Return the definitions by which tables go on, of those whose definition is as it was when it was found."""
        if self._mark is None or not self._source.order.includes(place, self._mark.native, None):
            return []
        found, in_force = self._found, history.in_force()
        self.forget()
        return [one for table, one in found.items() if table in in_force and in_force[table].version == one.version]
