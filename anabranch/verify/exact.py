"""Snapshots of both ends at one position, beside a running job: apply is held for a moment, and goes on while they are read.

The order is what makes it right (K25). Apply is held first; what it was about to do by then is in the trail by then. Once the
source shows all that the trail has, its snapshot is opened: it has nothing less than the target. The trail says at which place
that is; apply goes on up to there and no further, the target's snapshot is opened, and apply goes on. Nothing rests on the hold
being kept: the target's own checkpoint in its snapshot has to be that place. What does not live here: reading in the snapshots
(digest.py), what holds apply (trail/holding.py).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from anabranch import pace
from anabranch.contracts import RowTarget, SharedReader, SharingReader, SourceCatalog, SourceConnector, ValueRules
from anabranch.errors import AnabranchError
from anabranch.model.position import Position
from anabranch.trail.holding import Hold
from anabranch.trail.reader import TrailReader
from anabranch.verify.digest import Shared
from anabranch.verify.places import Places
from anabranch.verify.plan import VerifyTable

TRIES = 3  # of a source's snapshot that has no place: transactions became visible in another order than the log's
NO_SHARING = "not all connections to the {} can read in one snapshot"
IN_NO_TIME = "apply would have been held for longer than {:g} s"
NO_PLACE = "the source's snapshots were at no place of its log: transactions become visible in another order there"
LEAVES_OUT = "the job leaves out an origin, so its trail does not tell what a snapshot of the source has"


@dataclass
class OnePosition:
    """The outcome: snapshots, or why there are none; and for how long apply was held."""

    shared: Shared | None = None
    why: str = ""
    paused: float = 0.0


@dataclass
class Opening:
    """Both ends of a job, whose snapshots are opened. `most`: seconds for which apply may be held; `held`: where that is asked
    for."""

    job: str
    trail: Path
    held: Path
    most: float
    source: SourceConnector
    target: RowTarget
    rules: ValueRules
    identity: str
    is_told: bool = True  # the trail has every change of the source's rows
    stop: Callable[[], bool] = lambda: False
    _until: float = field(default=0.0, init=False)

    @contextmanager
    def opened(self, tables: Sequence[VerifyTable]) -> Iterator[OnePosition]:
        """Open both snapshots, kept until the block ends."""
        with ExitStack() as open_:
            there = open_.enter_context(closing(self.source.snapshot(self.identity)))
            here = open_.enter_context(closing(self.target.reader(self.rules)))
            if not self.is_told:
                yield OnePosition(why=LEAVES_OUT)
            elif not isinstance(there, SharingReader):
                yield OnePosition(why=NO_SHARING.format("source"))
            elif not isinstance(here, SharedReader):
                yield OnePosition(why=NO_SHARING.format("target"))
            else:
                yield self._held(there, here, tables)

    def _held(self, there: SharingReader, here: SharedReader, tables: Sequence[VerifyTable]) -> OnePosition:
        try:
            hold = Hold(self.held, 0, self.most)
        except AnabranchError as another:
            return OnePosition(why=another.message)
        self._until, found = hold.began + self.most, OnePosition()
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
        there: SharingReader,
        here: SharedReader,
        tables: Sequence[VerifyTable],
    ) -> tuple[Shared | None, str]:
        late = IN_NO_TIME.format(self.most)
        for _ in range(TRIES):
            if not places.find_floor(catalog, self._is_over):
                return None, late
            source = there.share([one.schema for one in tables])
            with closing(self.source.snapshot(self.identity)) as reader:
                assert isinstance(reader, SharingReader), "the other one is of this kind"
                mark = reader.open_shared(tables[0].schema, source) if source else None
            end = catalog.mark()
            if mark is None or not self._in_time(lambda end=end: places.is_reached(end)):  # type: ignore[misc]  # a default binds the loop's variable
                return None, late
            at = places.exact(mark)
            if at is None:
                continue
            hold.move(at)
            target = self._target_at(here, at)
            return (Shared(source, target[0], str(target[1])), "") if target else (None, late)
        return None, NO_PLACE

    def _target_at(self, here: SharedReader, at: int) -> tuple[str, Position] | None:
        """Open the target's snapshot once the job is at this place there, and not behind it."""
        found: list[tuple[str, Position]] = []

        def is_there() -> bool:
            shared = here.share(self.job)
            sequence = shared[1].position.sequence if shared else at
            if shared and sequence == at:
                found.append((shared[0], shared[1].position))
            return sequence >= at

        self._in_time(is_there)
        return found[0] if found else None

    def _is_over(self) -> bool:
        return self.stop() or time.monotonic() >= self._until

    def _in_time(self, is_so: Callable[[], bool]) -> bool:
        while not is_so():
            if self._is_over():
                return False
            time.sleep(pace.current.verify_poll)
        return True
