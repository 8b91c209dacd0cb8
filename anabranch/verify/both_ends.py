"""Both ends of a job beside which is verified, kept open from look to look: connections that may be lost, where each end is,
how long anybody waits. What does not live here: looking at rows (again.py), places of the trail (places.py).
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from anabranch import pace
from anabranch.contracts import PlacedReader, ReadTarget, SnapshotReader, SourceConnector, ValueRules
from anabranch.errors import AnabranchError, SourceError, SourceUnavailable, TargetUnavailable
from anabranch.model.ids import TableId
from anabranch.model.position import LogMark, Position
from anabranch.model.state import Checkpoint
from anabranch.model.table_life import TableState
from anabranch.trail.reader import TrailReader
from anabranch.verify.display import Tell, silent
from anabranch.verify.places import Places
from anabranch.verify.plan import VerifyTable
from anabranch.verify.touched import Parent, Passing, all_pass

T = TypeVar("T")

PATIENCE = 10.0  # seconds that a look waits for capture to reach the source's end, and for apply behind it
RECONNECTS = 5  # tries in a row at an end that is away


@dataclass(frozen=True)
class Beside:
    """The job beside which is verified. `lock`: its `[load] lock`. `parents`: by table, what changes rows of it without a
    record in the log. `patience`: seconds after the first comparison until what is still undecided is given up. `tells_all`:
    the trail has every change of the source's rows; where an origin is left out it has not, and nothing that differs can be
    told. `extends`: whether more time is given where whole tables are read again. `in_turn`: other tables wait for theirs, so
    `patience` holds also where a budget is set."""

    job: str
    trail: Path
    lock: str = "none"
    parents: Mapping[TableId, Mapping[TableId, Parent]] = field(default_factory=dict)
    patience: float = 60.0
    tells_all: bool = True
    extends: bool = True
    in_turn: bool = False


class BothEnds:
    """One connection to the source's catalogue and to the target; a snapshot of the source for each look."""

    def __init__(
        self,
        source: SourceConnector,
        target: ReadTarget,
        rules: ValueRules,
        identity: str,
        beside: Beside,
        stop: Callable[[], bool],
        tell: Tell = silent,
        passing: Passing = all_pass,
    ) -> None:
        """Open both ends. `passing`: who tells which rows pass a table's filter."""
        self._source, self._rules, self._identity, self._beside = source, rules, identity, beside
        self._stop, self._until, self._tell, self._passing = stop, float("inf"), tell, passing
        self._target = target
        self._connect()
        self._trail = TrailReader(beside.trail, name="verify")
        self._places = Places(self._trail, source.order)
        self._found: dict[TableId, bool] = {}
        self._server = ""  # at which marks were read since the ends were connected
        self._lock, self._is_limited = "none", False

    def close(self) -> None:
        self._open.close()
        self._trail.close()

    def _connect(self) -> None:
        """Connect both ends; each connection opens when it is first used."""
        self._open = ExitStack()
        reader = self._open.enter_context(closing(self._target.reader(self._rules)))
        assert isinstance(reader, PlacedReader), "every target that keeps rows keeps the checkpoint beside them"
        self._reader: PlacedReader = reader
        self._catalog = self._open.enter_context(closing(self._source.catalog()))

    def _reconnect(self, tried: int, lost: AnabranchError) -> None:
        """Connect anew after an end was lost, after a pause. Raises `lost` after the last try."""
        if tried + 1 >= RECONNECTS or self.is_over:
            raise lost
        with suppress(AnabranchError):
            self._open.close()
        self._places.floor, self._server = None, ""  # it may be another server by now
        self.rest(pace.current.verify_lost * 2**tried)
        self._connect()

    def _outlasting(self, ask: Callable[[], T]) -> T:
        """Ask again where a connection was lost meanwhile."""
        for tried in itertools.count():
            try:
                return ask()
            except (SourceUnavailable, TargetUnavailable) as lost:
                self._reconnect(tried, lost)
        raise AssertionError("the last try raises")

    def until(self, moment: float, is_limited: bool = False) -> None:
        """Give up what is undecided at this moment of `time.monotonic`, which `is_limited` if a person has set it."""
        self._until, self._is_limited = moment, is_limited

    @property
    def is_over(self) -> bool:
        return self._stop() or time.monotonic() >= self._until

    @property
    def is_stopped(self) -> bool:
        return self._stop()

    @property
    def patience(self) -> float:
        return self._beside.patience

    def extend(self, seconds: float) -> None:
        """Give so much more time, where no budget says when it is over."""
        if not self._is_limited and self._beside.extends:
            self._until += seconds

    def rest(self, seconds: float) -> None:
        """Pause before the next look, not beyond the end."""
        time.sleep(max(0.0, min(seconds, self._until - time.monotonic())))

    # --- inside -------------------------------------------------------------------------------------------------------

    def _opened(self, snapshot: SnapshotReader, one: VerifyTable) -> LogMark:
        """Open a snapshot; return its `low`. The job's lock is taken only at a source that has no other way to tell."""
        try:
            return self._of_one_server(snapshot.open(one.schema, self._lock)[0])
        except SourceUnavailable:
            raise
        except SourceError:
            if self._lock == self._beside.lock:
                raise
            self._lock = self._beside.lock
            return self._of_one_server(snapshot.open(one.schema, self._lock)[0])

    def _of_one_server(self, mark: LogMark) -> LogMark:
        """Return a mark of the source. Raises SourceUnavailable where it is of another server than the ones before: places of
        two logs cannot be compared, and snapshots alone are checked for which server they are of."""
        server = self._source.order.server(mark)
        if self._server not in ("", server):
            raise SourceUnavailable(f"connections to the source lead to two servers, {self._server} and {server}")
        self._server = server
        return mark

    def _raise_floor(self, low: int) -> None:
        """Note that every later snapshot has all up to `low`. A lock says that of one table alone."""
        if self._lock == "none":
            self._places.floor = max(low, self._places.floor or 0)

    def _has_floor(self) -> bool:
        """Return whether it is known what the source shows; it is found once, and again where the trail was cut."""
        if self._places.floor is None or self._places.floor + 1 < self._trail.first():
            until = time.monotonic() + PATIENCE
            self._places.floor = None
            self._of_one_server(self._catalog.mark())
            return self._places.find_floor(self._catalog, lambda: self.is_over or time.monotonic() > until)
        return True

    def _is_captured(self, mark: LogMark) -> bool:
        """Wait until the trail has the log up to the mark; False when that takes too long."""
        return self._in_time(lambda: self._places.is_reached(mark))

    def _placed(self, table: TableId) -> tuple[Position, TableState] | None:
        """Return where the target is now, and the table's state."""
        try:
            found = self._reader.place(self._beside.job, table)
        finally:
            self._reader.leave()
        return None if found is None else (found[0].position, found[1])

    def _placed_behind(self, table: TableId, sequence: int) -> tuple[Position, TableState] | None:
        """Open a snapshot of the target, in which the job is at a sequence or behind it, unless that takes too long:
        what has not changed since can be judged all the same."""
        found: list[tuple[Checkpoint, TableState] | None] = []

        def is_there() -> bool:
            found[:] = [self._reader.place(self._beside.job, table)]
            return found[0] is None or found[0][0].position.sequence >= sequence

        self._in_time(is_there)
        return None if found[0] is None else (found[0][0].position, found[0][1])

    def _in_time(self, is_so: Callable[[], bool]) -> bool:
        until = min(time.monotonic() + PATIENCE, self._until)
        while not is_so():
            if self._stop() or time.monotonic() > until:
                return False
            time.sleep(pace.current.verify_poll)
        return True
