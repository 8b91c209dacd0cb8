"""Two-phase commit (K6): rows of prepared transactions wait in the trail's staging, and enter it where they are committed.

What does not live here: the files (`trail/staging.py`), how a log says it (each connector).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from dataclasses import replace

import pyarrow as pa

from anabranch import log
from anabranch.capture.definitions import DefinitionKeeper, alone
from anabranch.errors import LogLost, UnknownLogEvent
from anabranch.failpoints import reach
from anabranch.model.ids import TableId
from anabranch.model.position import LogMark
from anabranch.rows.chunk import Barrier, Chunk, Part, TableRows
from anabranch.rows.chunk_schema import TRANSACTION_SCHEMA
from anabranch.rows.log_items import LogDecided, LogPrepared
from anabranch.rows.uncommitted import LogEnded
from anabranch.trail.writer import TrailWriter

_NOTHING = Chunk(pa.RecordBatch.from_pylist([], schema=TRANSACTION_SCHEMA), ())


class PreparedTransactions:
    """Takes what the reader says about them; gives chunks for the trail."""

    def __init__(self, trail: TrailWriter, keeper: DefinitionKeeper) -> None:
        self._trail, self._keeper = trail, keeper
        self._barriers: list[Barrier] = []

    def rewind(self, end: LogMark) -> None:
        """Remove staged transactions that were decided before the trail's end, from which the log is read again."""
        self._barriers = []
        order = self._keeper.source.order
        for one in self._trail.staging.all():
            with suppress(LogLost):  # decided in another server's log
                if one.decided and order.includes(end, order.mark(one.decided).native, None):
                    self._trail.staging.remove(one.xid)

    def stage(self, item: LogPrepared) -> Chunk | None:
        """Keep a part of one. With the last it is durable; returns what happens to tables at that place: a table that cannot
        be read any more is parked there, not where the transaction is committed."""
        self._barriers += item.chunk.barriers
        if item.chunk.row_count:
            self._trail.staging.add(replace(item.chunk, barriers=()))
        if item.chunk.part is Part.FRAGMENT:
            return None
        barriers, self._barriers = self._barriers, []
        left_out = {table for table in item.left_out if self._keeper.wanted(table)}
        self._trail.staging.prepare(item.xid, item.mark, left_out | {barrier.table for barrier in barriers})
        log.get().info("transaction_prepared", xid=item.xid, at=item.mark.native)
        return self._keeper.on_chunk(alone([replace(b, tx=0) for b in barriers], item.mark, None)) if barriers else None

    def decide(self, item: LogDecided) -> Iterator[Chunk]:
        """Yield the chunks that enter the trail where a transaction was decided. Call `done` when they are durable."""
        staging = self._trail.staging
        if item.xid not in staging:
            if not item.is_committed:
                return
            raise UnknownLogEvent(
                f"the prepared transaction {item.xid} was committed, and the trail does not have its rows",
                position=item.mark.native,
                hint="remove the job's state (anabranch drop JOB --execute) and load again",
            )
        log.get().info("transaction_decided", xid=item.xid, committed=item.is_committed, at=item.mark.native)
        staging.decide(item.xid, item.mark)
        reach("capture.decided")
        if not item.is_committed or staging[item.xid].is_older:
            return
        staged = staging[item.xid]
        what = f"rows of the prepared transaction {item.xid} could not be kept"
        yield from entering(self._trail, self._keeper, staging.chunks(item.xid), staged.left_out, what, item)

    def done(self, item: LogDecided) -> None:
        """Remove a decided transaction, once what `decide` gave is durable."""
        if item.xid in self._trail.staging:
            self._trail.staging.remove(item.xid)


def entering(
    trail: TrailWriter,
    keeper: DefinitionKeeper,
    chunks: Iterable[Chunk],
    left_out: Collection[str],
    what: str,
    end: LogDecided | LogEnded,
) -> Iterator[Chunk]:
    """Yield the rows of a transaction that waited for its end, as chunks for the trail, with what it does to tables.

    Tables whose rows it has only in part are parked: a table joins only when there are none (`DefinitionKeeper.join`).
    """
    torn = {table for table in trail.history.in_force() if str(table) in left_out}
    waiting, part = None, Part.WHOLE
    for chunk in chunks:
        chunk = _in_force(trail, chunk, torn)
        if not (chunk.tables or chunk.barriers):
            continue
        if waiting:
            yield _part(waiting, Part.FRAGMENT)
            part = Part.LAST
        waiting = keeper.on_chunk(chunk)
    if waiting or torn:
        found = _part(waiting or _NOTHING, part, end)
        yield replace(found, barriers=(*keeper.park(torn, what), *found.barriers))


def _in_force(trail: TrailWriter, chunk: Chunk, torn: set[TableId]) -> Chunk:
    """Return the part of a chunk that concerns tables replicated now."""
    tables = [rows for one in chunk.tables if (rows := _fitting(trail, one, torn))]
    now = trail.history.in_force() if chunk.barriers else {}
    barriers = tuple(b for b in chunk.barriers if b.table in now and b.table not in torn)
    return replace(chunk, tables=tuple(tables), barriers=barriers)


def _fitting(trail: TrailWriter, rows: TableRows, torn: set[TableId]) -> TableRows | None:
    """Return the rows under the definition in force now; None for a table that is parked, or has another definition since."""
    now = trail.history.in_force().get(rows.table)
    if now is None or rows.table in torn:
        return None
    if now.version != rows.version and not now.same_definition(trail.history.at(rows.table, rows.version)):
        torn.add(rows.table)
        return None
    return replace(rows, version=now.version)


def _part(chunk: Chunk, part: Part, end: LogDecided | LogEnded | None = None) -> Chunk:
    """Return a chunk of one transaction; its position and id are those of its end."""
    place: dict[str, str | int | None] = {"native": "", "gtid": None, "commit_time": 0}
    if end is not None:
        place = {"native": end.mark.native, "gtid": end.gtid, "commit_time": end.mark.commit_time, "origin": end.origin}
    transactions = pa.RecordBatch.from_pylist([place | {"rows": chunk.row_count}], schema=TRANSACTION_SCHEMA)
    return replace(
        chunk,
        transactions=transactions,
        part=part,
        first_sequence=0,
        resume=end.mark.resume if end else "",
    )
