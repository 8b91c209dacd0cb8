"""Large epochs on executors: each task plans a piece of the epoch and writes its net changes into staging tables of its
own attempt (K10). The committing connection checks what it finds there and merges piece after piece, in order.

The planning code is the same as on the driver. The driver itself plans epochs that Spark SQL has to look at (filters),
that change what is followed (barriers), or that concern rows to be read again.
"""

from __future__ import annotations

import time
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path

import pyarrow.compute as pc

from anabranch import log
from anabranch.apply.compact import NeedsSlowWay
from anabranch.apply.context import ApplyContext
from anabranch.apply.feed import Feed, grouped
from anabranch.apply.plan import group, stages
from anabranch.apply.stage import Stage
from anabranch.contracts import Conflict, RowTarget, ValueRules
from anabranch.errors import AnabranchError, SparkUnavailable
from anabranch.failpoints import reach
from anabranch.model.ids import TableId
from anabranch.rows.chunk import OP, Op
from anabranch.rows.net import StagedNet
from anabranch.spark.engine import Engine
from anabranch.spark.work import Failure
from anabranch.trail.chunk_refs import ChunkRef
from anabranch.trail.reader import TrailReader

STAGE_ROWS = 250_000  # images of updates and deletes; with fewer, one connection is faster (python -m bench stage)
AWAY_SECONDS = 300.0  # for which the driver plans alone where workers were away
LOOKED_AT = 8  # chunks by which the operations of a whole epoch are estimated


@dataclass(frozen=True)
class StagedStage:
    """A stage whose nets are at the target."""

    stage: Stage  # without nets
    nets: tuple[StagedNet, ...]


@dataclass(frozen=True)
class StagedPiece:
    """The report of a task: its stages in order, and row changes per table; or the reason why there are none."""

    stages: tuple[StagedStage, ...] = ()
    counts: tuple[tuple[TableId, int], ...] = ()
    needs_slow_way: str = ""
    failure: Failure | None = None


@dataclass(frozen=True)
class Piece:
    """The work of one task."""

    job: str
    trail: Path
    refs: tuple[ChunkRef, ...]
    context: ApplyContext
    target: RowTarget
    rules: ValueRules

    def __call__(self) -> StagedPiece:
        try:
            return self._stage()
        except NeedsSlowWay as reason:
            return StagedPiece(needs_slow_way=reason.why)
        except Conflict as reason:
            return StagedPiece(needs_slow_way=reason.what)
        except AnabranchError as error:
            return StagedPiece(failure=Failure.of(error))

    def _stage(self) -> StagedPiece:
        with TrailReader(self.trail) as trail:
            part = group([trail.load(ref) for ref in self.refs], self.context)
        planned = stages(part, self.context)
        reach("apply.stage")
        with closing(self.target.stager(self.rules)) as stager:
            found = [StagedStage(replace(s, nets=()), tuple(stager.stage(self.job, s.nets))) for s in planned]
        return StagedPiece(tuple(found), tuple(part.counts().items()))


@dataclass
class Absence:
    """Workers that were away are not asked again before `until`, in seconds of time.monotonic: each question takes a time for
    which the epoch waits."""

    until: float = 0.0

    def begins(self) -> None:
        self.until = time.monotonic() + AWAY_SECONDS

    def lasts(self) -> bool:
        return time.monotonic() < self.until


@dataclass(frozen=True)
class Executors:
    """Plans and stages whole epochs, a piece in each of the engine's tasks."""

    job: str
    trail: Path
    target: RowTarget
    rules: ValueRules
    engine: Engine
    stage_rows: int | None  # images from which an epoch is for executors; None: the measured default
    away: Absence = field(default_factory=Absence)

    def takes(self, feed: Feed, context: ApplyContext) -> bool:
        """Return whether this epoch is one for executors. Inserts alone are not a reason: one COPY into the table
        itself is faster than staging tables from which the same connection copies them, however many tasks fill those."""
        rows, least = sum(ref.rows for ref in feed.refs), self.stage_rows or STAGE_ROWS
        if rows < least or any(f.filter or f.waiting for f in context.tables.values()):
            return False
        if any(ref.has_barriers for ref in feed.refs) or self.away.lasts():
            return False
        return self.stage_rows is not None or _changing(feed, rows) >= STAGE_ROWS

    def stage(self, feed: Feed, context: ApplyContext) -> list[StagedPiece]:
        """Stage all pieces, and return them in order; none where the workers are away: the driver does it then. Raises
        NeedsSlowWay, or the error of a task."""
        pieces = [
            Piece(self.job, self.trail, tuple(refs), context, self.target, self.rules) for refs in grouped(feed.refs)
        ]
        try:
            staged = self.engine.each(pieces)
        except SparkUnavailable as away:
            self.away.begins()
            log.get(job=self.job).warning("epoch_not_staged", reason=str(away), rows=sum(r.rows for r in feed.refs))
            return []
        for piece in staged:
            if piece.failure is not None:
                raise piece.failure.error()
            if piece.needs_slow_way:
                raise NeedsSlowWay(next(iter(context.tables.values())).table, piece.needs_slow_way)
        return staged


def _changing(feed: Feed, rows: int) -> int:
    """Estimate how many of the feed's images are of updates and deletes, from some of its chunks."""
    ops = [rows.batch.column(OP) for chunk in feed.some(LOOKED_AT) for rows in chunk.tables]
    others = sum(pc.sum(pc.not_equal(op, int(Op.INSERT))).as_py() or 0 for op in ops)
    return int(rows * others // max(1, sum(map(len, ops))))
