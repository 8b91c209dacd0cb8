"""Tables that came or went behind the log's back: those that the source has and the trail has no definition of (created,
renamed, moved or let in after the log began), and parked ones that the source has no longer.

Some logs have no statements, and none has what its users could not see before. So the source is asked, now and then. What
does not live here: how a table is parked (definitions.py), what became of tables that are followed (SourceSetUp.drift).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import closing
from typing import TYPE_CHECKING

from anabranch.model.parked_reasons import new_but, tells_dropped, tells_not_yet
from anabranch.model.writers import own_targets
from anabranch.trail import requests

if TYPE_CHECKING:
    from anabranch.capture.begin import Wanted
    from anabranch.contracts import SourceCatalog, SourceConnector
    from anabranch.model.ids import TableId
    from anabranch.model.position import LogMark
    from anabranch.trail.history import SchemaHistory
    from anabranch.trail.writer import TrailWriter


class Newcomers:
    """`look` asks, `due` tells what is still unknown once the log is read up to there: where it has a statement that says
    so, this comes first."""

    def __init__(self, source: SourceConnector, trail: TrailWriter, wanted: Wanted) -> None:
        self._source, self._trail, self._wanted = source, trail, wanted
        self._names: Mapping[TableId, str] = {}
        self._gone: Mapping[TableId, str] = {}
        self._mark: LogMark | None = None

    def look(self) -> None:
        """Look for new and dropped tables, unless a former finding still waits for the log to pass it. Raises
        SourceUnavailable.
        """
        if self._mark is not None:
            return
        with closing(self._source.catalog()) as catalog:
            names = catalog.names()
            found = set(unknown(names, self._wanted, self._trail.history, self._own(catalog)))
            self._gone = gone(catalog, names, self._wanted, self._trail.history)
            if found or self._gone:
                self._names, self._mark = {table: names[table] for table in found}, catalog.mark()

    def forget(self) -> None:
        """Drop the finding: another server's log has other positions."""
        self._names, self._gone, self._mark = {}, {}, None

    @property
    def is_waiting(self) -> bool:
        return self._mark is not None

    def due(self, place: LogMark) -> tuple[dict[TableId, str], dict[TableId, str]]:
        """Return new tables with the reason they are parked, and parked ones that are gone with what each is now.

        Tables that a `load --table` waits for are left out.
        """
        if self._mark is None or not self._source.order.includes(place, self._mark.native, None):
            return {}, {}
        history, names, left = self._trail.history, self._names, self._gone
        self.forget()
        asked = {request.table for request in requests.pending(self._trail.directory)}
        new = {table: new_but(names[table]) for table in unknown(names, self._wanted, history) if table not in asked}
        return new, {table: left[table] for table in _sorted(left.keys() & _undropped(history) - asked)}

    def _own(self, catalog: SourceCatalog) -> frozenset[TableId]:
        return own_targets(catalog.writers(), self._trail.job_uuid)


def unknown(
    names: Mapping[TableId, str], wanted: Wanted, history: SchemaHistory, own: Collection[TableId] = ()
) -> Iterator[TableId]:
    """Yield wanted tables that the history does not have, without those that the job writes itself (`own`).

    Also tables that could not be followed when they were parked, or were dropped, and can be followed now.
    """
    parked = history.parked()
    for table in _sorted(names):
        why = parked.get(table, "")
        is_known = history.knows(table) or table in parked
        is_better = tells_dropped(why) or (tells_not_yet(why) and not names[table])
        if (is_better or not is_known) and table not in own and wanted(table):
            yield table


def gone(
    catalog: SourceCatalog, names: Mapping[TableId, str], wanted: Wanted, history: SchemaHistory
) -> dict[TableId, str]:
    """Return parked, wanted tables that the source no longer has, with what each is now, unless the history says so already."""
    missing = [table for table in _undropped(history) if table not in names and wanted(table)]
    return catalog.gone(missing) if missing else {}


def _undropped(history: SchemaHistory) -> set[TableId]:
    return {table for table, why in history.parked().items() if not tells_dropped(why)}


def _sorted(tables: Iterable[TableId]) -> list[TableId]:
    return sorted(tables, key=str)
