"""Snapshots of both ends at one position, beside a running job: apply is held for a moment, and goes on while they are read.

The order is what makes it right (K25). Apply is held first; what it was about to do by then is in the trail by then. Once the
source shows all that the trail has, its snapshot is opened: it has nothing less than the target. The trail says at which place
that is; apply goes on up to there and no further, the target's snapshot is opened, and apply goes on. Nothing rests on the hold
being kept: the target's own checkpoint in its snapshot has to be that place. An end either shares its snapshot with any number
of connections, or one connection keeps it and reads in it alone (alone.py). What does not live here: reading in the snapshots
(digest.py), what holds apply (trail/holding.py).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from anabranch import pace
from anabranch.contracts import (
    KeepingReader,
    KeptReader,
    ReadTarget,
    SharedReader,
    SharingReader,
    SnapshotReader,
    SourceCatalog,
    SourceConnector,
    TargetReader,
    ValueRules,
)
from anabranch.errors import AnabranchError
from anabranch.model.ids import TableId
from anabranch.model.position import LogMark, Position
from anabranch.model.state import Checkpoint
from anabranch.trail.holding import Hold
from anabranch.trail.reader import TrailReader
from anabranch.verify.digest import GONE, Shared
from anabranch.verify.places import Places
from anabranch.verify.plan import VerifyTable
from anabranch.verify.report import NO_TIME, TableResult
from anabranch.verify.sampling import NO_RANGES

TRIES = 3  # of a source's snapshot that has no place: transactions became visible in another order than the log's
NOT_READ = (NO_TIME, NO_RANGES)
BETWEEN = 0.005  # seconds between two tries at a snapshot that has a place only at some moments
NO_SNAPSHOT = "the {} cannot keep a snapshot for it"
NO_TRANSACTIONS = "the engine of the source's table has no snapshots"
FILTERED = "its rows pass a filter, which tasks evaluate: they cannot read in the one connection's snapshot that the source has"
IN_NO_TIME = "apply would have been held for longer than {:g} s"
LOST = "the snapshot is gone"
NO_PLACE = "the source's snapshots were at no place of its log: transactions become visible in another order there"
LEAVES_OUT = "the job leaves out an origin, so its trail does not tell what a snapshot of the source has"


@dataclass
class OnePosition:
    """The outcome: snapshots, or why there are none; and for how long apply was held. `alone`: readers that alone read in
    theirs, by their end; `left`: tables that are not read there, and why."""

    shared: Shared | None = None
    alone: Mapping[str, Any] = field(default_factory=dict)
    left: Mapping[TableId, str] = field(default_factory=dict)
    why: str = ""
    paused: float = 0.0

    def is_left(self, one: VerifyTable) -> bool:
        """Return whether the table was not read at the position."""
        return self.shared is None or one.table.source in self.left

    def passed(self, tables: Sequence[VerifyTable], gone: Mapping[TableId, str]) -> None:
        """Note which of the tables the snapshots did not keep until they were read; where that is all, there is no position."""
        why = {table: GONE if said == GONE else f"{GONE}: {said}" for table, said in gone.items()}
        if why and len(why) == len(tables):
            self.shared, self.why = None, next(iter(why.values()))
        else:
            self.left = {**self.left, **why}

    def told_of(self, result: TableResult) -> TableResult:
        """Add at which position the table was read, or why at none; nothing to one that was not compared."""
        if result.why in NOT_READ:
            return result
        left = self.left.get(TableId.parse(result.source), "")
        if self.shared is None or left:
            return replace(result, not_exact=left or self.why)
        return replace(result, exact=self.shared.position)


@dataclass
class Opening:
    """Both ends of a job, whose snapshots are opened. `most`: seconds for which apply may be held; `held`: where that is asked
    for; `lock`: its `[load] lock`."""

    job: str
    trail: Path
    held: Path
    most: float
    source: SourceConnector
    target: ReadTarget
    rules: ValueRules
    identity: str
    lock: str = "none"
    is_told: bool = True  # the trail has every change of the source's rows
    stop: Callable[[], bool] = lambda: False
    _until: float = field(default=0.0, init=False)
    _why: str = field(default="", init=False)  # a snapshot had no place at the last try

    @contextmanager
    def opened(self, tables: Sequence[VerifyTable]) -> Iterator[OnePosition]:
        """Open both snapshots, kept until the block ends."""
        with ExitStack() as open_:
            there = open_.enter_context(closing(self.source.snapshot(self.identity)))
            here = open_.enter_context(closing(self.target.reader(self.rules)))
            if not self.is_told:
                yield OnePosition(why=LEAVES_OUT)
            elif not isinstance(there, SharingReader | KeepingReader):
                yield OnePosition(why=NO_SNAPSHOT.format("source"))
            elif not isinstance(here, SharedReader | KeptReader):
                yield OnePosition(why=NO_SNAPSHOT.format("target"))
            else:
                left = _left(there, tables)
                some = [one for one in tables if one.table.source not in left]
                found = self._held(there, here, some) if some else OnePosition(why=next(iter(left.values())))
                found.left = left
                yield found

    def _held(self, there: SnapshotReader, here: TargetReader, tables: Sequence[VerifyTable]) -> OnePosition:
        try:
            hold = Hold(self.held, 0, self.most)
        except AnabranchError as another:
            return OnePosition(why=another.message)
        self._until, found = hold.began + self.most, OnePosition(alone=_alone(there, here))
        try:
            with TrailReader(self.trail, name="verify") as trail, closing(self.source.catalog()) as catalog:
                found.shared, found.why = self._shared(
                    hold, Places(trail, self.source.order), catalog, there, here, tables
                )
        except AnabranchError as error:
            found.why = error.message
        finally:
            found.paused = hold.close()
        return found

    def _shared(
        self,
        hold: Hold,
        places: Places,
        catalog: SourceCatalog,
        there: SnapshotReader,
        here: TargetReader,
        tables: Sequence[VerifyTable],
    ) -> tuple[Shared | None, str]:
        late = IN_NO_TIME.format(self.most)
        for _ in range(TRIES):
            if not places.find_floor(catalog, self._is_over):
                return None, late
            source = self._source_at_a_place(there, tables)
            if source is None:
                return None, f"{late}; {self._why}" if self._why else late
            end = catalog.mark()
            if not self._in_time(lambda end=end: places.is_reached(end)):  # type: ignore[misc]  # a default binds the loop's variable
                return None, late
            at = places.exact(source[1])
            if at is None:
                continue
            hold.move(at)
            target = self._target_at(here, at)
            return (Shared(source[0], target[0], str(target[1])), "") if target else (None, late)
        return None, NO_PLACE

    def _source_at_a_place(self, there: SnapshotReader, tables: Sequence[VerifyTable]) -> tuple[str, LogMark] | None:
        """Open the source's snapshot; return what others need to read in it, and its place."""
        if not isinstance(there, SharingReader):
            return self._kept_at_a_place(there)
        shared = there.share([one.schema for one in tables])
        with closing(self.source.snapshot(self.identity)) as reader:
            assert isinstance(reader, SharingReader), "the other one is of this kind"
            mark = reader.open_shared(tables[0].schema, shared) if shared else None
        return None if mark is None else (shared, mark)

    def _kept_at_a_place(self, there: SnapshotReader) -> tuple[str, LogMark] | None:
        assert isinstance(there, KeepingReader), "it was asked for"
        found: list[LogMark] = []

        def has_a_place() -> bool:
            place = there.keep(self.lock, max(0.0, self._until - time.monotonic()))
            if isinstance(place, str):
                self._why = place
            else:
                found.append(place)
            return bool(found)

        return ("", found[0]) if self._in_time(has_a_place, BETWEEN) else None

    def _target_at(self, here: TargetReader, at: int) -> tuple[str, Position] | None:
        """Open the target's snapshot once the job is at this place there, and not behind it."""
        found: list[tuple[str, Position]] = []

        def is_there() -> bool:
            shared = _opened(here, self.job)
            sequence = shared[1].position.sequence if shared else at
            if shared and sequence == at:
                found.append((shared[0], shared[1].position))
            return sequence >= at

        self._in_time(is_there)
        return found[0] if found else None

    def _is_over(self) -> bool:
        return self.stop() or time.monotonic() >= self._until

    def _in_time(self, is_so: Callable[[], bool], rest: float = 0.0) -> bool:
        while not is_so():
            if self._is_over():
                return False
            time.sleep(rest or pace.current.verify_poll)
        return True


def _opened(here: TargetReader, job: str) -> tuple[str, Checkpoint] | None:
    """Open a target's snapshot; return what others need to read in it, and where the job is in it."""
    if isinstance(here, SharedReader):
        return here.share(job)
    assert isinstance(here, KeptReader), "it was asked for"
    at = here.keep(job)
    return None if at is None else ("", at)


def _alone(there: SnapshotReader, here: TargetReader) -> dict[str, Any]:
    """Return the ends whose snapshots are not shared."""
    found: dict[str, Any] = {} if isinstance(there, SharingReader) else {"source": there}
    return found if isinstance(here, SharedReader) else found | {"target": here}


def _left(there: SnapshotReader, tables: Sequence[VerifyTable]) -> dict[TableId, str]:
    """Return the tables that cannot be read in the source's snapshot, and why."""
    if isinstance(there, SharingReader):
        return {}
    assert isinstance(there, KeepingReader), "it was asked for"
    found = {one.table.source: FILTERED for one in tables if one.filter is not None}
    return found | {one.table.source: NO_TRANSACTIONS for one in tables if not there.keeps(one.schema)}
