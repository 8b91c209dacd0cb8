"""Partitions of tables, rows that went with one, and foreign keys that came, of which a source's log does not tell: the table
goes on without these rows, or with the keys, from a place that is behind all rows that were there before.

The source is asked now and then, and says what is so now; the log may be read up to a place long before. Which partitions a
table has had is kept in the trail, so that none is forgotten that goes before somebody asks again, or while nobody does.
What does not live here: how it is known (SourceSetUp.drift, PartedReader), what is noted of it (definitions.py).
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING

from anabranch.contracts import Rekeyed, RowsWent

if TYPE_CHECKING:
    from anabranch.contracts import SourceConnector
    from anabranch.model.ids import TableId
    from anabranch.model.position import LogMark
    from anabranch.model.schema import Partition, TableSchema
    from anabranch.trail.history import SchemaHistory
    from anabranch.trail.writer import TrailWriter


class WentRows:
    """`found` takes what a look at the source has found, `due` tells it once the log is read up to there."""

    def __init__(self, source: SourceConnector) -> None:
        self._source = source
        self._found: dict[TableId, RowsWent | Rekeyed] = {}
        self._mark: LogMark | None = None

    def found(self, found: dict[TableId, RowsWent | Rekeyed]) -> None:
        """Take findings, unless former ones wait for the log to pass them: the next look finds these again. Raises
        SourceUnavailable."""
        if not found or self._mark is not None:
            return
        with closing(self._source.catalog()) as catalog:
            mark = catalog.mark()  # behind everything that led to what was found
        self._found, self._mark = dict(found), mark

    def forget(self) -> None:
        """Drop the findings: another server's log has other positions."""
        self._found, self._mark = {}, None

    @property
    def is_waiting(self) -> bool:
        return self._mark is not None

    def due(self, place: LogMark, history: SchemaHistory) -> list[RowsWent | Rekeyed]:
        """Return what was found with the definitions by which tables go on, with the partitions that are left, of those whose
        definition is as it was when it was found."""
        if self._mark is None or not self._source.order.includes(place, self._mark.native, None):
            return []
        found, in_force = self._found, history.in_force()
        self.forget()
        return [
            replace(one, schema=_as_now(in_force[table], one))
            for table, one in found.items()
            if table in in_force and in_force[table].version == one.schema.version
        ]


def _as_now(schema: TableSchema, found: RowsWent | Rekeyed) -> TableSchema:
    if isinstance(found, RowsWent):
        left = (part for part in schema.partitions if not any(map(part.is_same, found.gone)))
        return replace(schema, partitions=tuple(left))
    return replace(schema, foreign_keys=found.schema.foreign_keys)


def note_part(trail: TrailWriter, table: TableId, part: Partition) -> None:
    """Note a partition that the log has rows of, unless it is known: durable before these rows are."""
    schema = trail.history.in_force().get(table)
    if schema is not None and not any(map(part.is_same, schema.partitions)):
        trail.divide(replace(schema, partitions=(*schema.partitions, part)))


def note_divided(trail: TrailWriter, now: TableSchema) -> None:
    """Note the partitions that a table has by now, if its definition is still the one that they were compared with."""
    schema = trail.history.in_force().get(now.id)
    if schema is not None and schema.version == now.version:
        trail.divide(replace(schema, partitions=now.partitions))
