"""Tables that the source has and the trail has no definition of: created, renamed, moved or let in after the log began.

Some logs have no statements, and none has what its users could not see before. So the source is asked, now and then. What
does not live here: how a table is parked (definitions.py), what became of tables that are followed (SourceConnector.astray).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from typing import TYPE_CHECKING

from anabranch.trail import requests

if TYPE_CHECKING:
    from anabranch.abc import SourceConnector
    from anabranch.capture.begin import Wanted
    from anabranch.model.ids import TableId
    from anabranch.model.position import LogMark
    from anabranch.trail.history import SchemaHistory
    from anabranch.trail.writer import TrailWriter

NEW = "new at the source: it was created, renamed or moved there after the log began, or was hidden from the job's user"
BUT = f"{NEW}, and "  # why it cannot be followed as it is


class Newcomers:
    """`look` asks, `due` tells what is still unknown once the log is read up to there: where it has a statement that says
    so, this comes first."""

    def __init__(self, source: SourceConnector, trail: TrailWriter, wanted: Wanted) -> None:
        self._source, self._trail, self._wanted = source, trail, wanted
        self._names: Mapping[TableId, str] = {}
        self._mark: LogMark | None = None

    def look(self) -> None:
        """Raises SourceUnavailable. What was seen last, and the log has not passed yet, stays."""
        if self._mark is not None:
            return
        with closing(self._source.catalog()) as catalog:
            names = catalog.names()
            found = set(unknown(names, self._wanted, self._trail.history))
            if found:
                self._names, self._mark = {table: names[table] for table in found}, catalog.mark()

    def forget(self) -> None:
        """Drops what was seen: another server's log has other places."""
        self._names, self._mark = {}, None

    @property
    def is_waiting(self) -> bool:
        return self._mark is not None

    def due(self, place: LogMark) -> dict[TableId, str]:
        """The tables, and why they are parked."""
        if self._mark is None or not self._source.order.includes(place, self._mark.native, None):
            return {}
        asked = {request.table for request in requests.pending(self._trail.directory)}
        names, self._names, self._mark = self._names, {}, None
        return {
            table: f"{BUT}{names[table]}" if names[table] else NEW
            for table in unknown(names, self._wanted, self._trail.history)
            if table not in asked
        }


def unknown(names: Mapping[TableId, str], wanted: Wanted, history: SchemaHistory) -> Iterator[TableId]:
    """Wanted tables that the history has nothing of, and those that could not be followed when they were parked, and can be
    now."""
    parked = history.parked()
    for table in _sorted(names):
        is_known = history.latest(table) is not None or table in parked
        is_better = parked.get(table, "").startswith(BUT) and not names[table]
        if (is_better or not is_known) and wanted(table):
            yield table


def _sorted(tables: Iterable[TableId]) -> list[TableId]:
    return sorted(tables, key=str)
