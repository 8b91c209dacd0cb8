"""Rows that differed are looked at again beside writers, by their keys, until the rule (rule.py) can judge them.

One look: the rows at the source in a snapshot, then the log's end; once the trail has reached that, the rows at the
target in one snapshot with the checkpoint; then what the trail says of them. What does not live here: which rows are
looked at (beside.py).
"""

from __future__ import annotations

import itertools
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from anabranch import pace
from anabranch.contracts import PlacedReader, RowTarget, SnapshotReader, SourceConnector, ValueRules
from anabranch.errors import AnabranchError, SourceError, SourceUnavailable, TargetUnavailable, TrailError
from anabranch.model.at_target import TextForm
from anabranch.model.datatype import Kind
from anabranch.model.ids import TableId
from anabranch.model.position import LogMark, Position
from anabranch.model.state import Checkpoint
from anabranch.model.table_life import TableState
from anabranch.rows.left_out import as_lines
from anabranch.rows.lines import parse_line
from anabranch.spark.where import read_columns
from anabranch.trail.reader import TrailReader
from anabranch.verify.canonical import Canonical
from anabranch.verify.digest import key_of
from anabranch.verify.display import AGAIN, Tell, silent
from anabranch.verify.places import Places
from anabranch.verify.plan import VerifyTable
from anabranch.verify.rule import Rows, Window, expected
from anabranch.verify.touched import Parent, Passing, Watched, all_pass, changed, is_touched, seen

T = TypeVar("T")

AT_ONCE = 2_000  # keys of one look
KEYS_AT_ONCE = 50_000  # of the trail, in memory
REST = 2.0  # seconds: the longest pause between two looks at the same keys
PATIENCE = 10.0  # seconds that a look waits for capture to reach the source's end, and for apply behind it
RECONNECTS = 5  # tries in a row at an end that is away
TRIES = 3  # looks in a row that may fail with an error of an end

CHANGING = "rows changed each time they were looked at"
NOT_CAPTURED = "capture did not reach what was read at the source"
NOT_SHOWN = "transactions at the source are logged and do not end, so what it shows is not certain"
NOT_STREAMING = "the table was not streaming when it was looked at"
LATE = "there was no time to look at all of them again"
LEFT_OUT = (
    "the job leaves out an origin, so its trail does not tell all that changes rows: verify while both jobs are stopped"
)
NO_KEYS = "its rows cannot be looked for by a key, and it kept changing while it was read"


@dataclass(frozen=True)
class Beside:
    """The job beside which is verified. `lock`: its `[load] lock`. `parents`: by table, what changes rows of it without
    a record in the log. `patience`: seconds after the first comparison until what is still undecided is given up.
    `tells_all`: the trail has every change of the source's rows; where an origin is left out it has not, and nothing
    that differs can be told. `extends`: whether more time is given where whole tables are read again."""

    job: str
    trail: Path
    lock: str = "none"
    parents: Mapping[TableId, Mapping[TableId, Parent]] = field(default_factory=dict)
    patience: float = 60.0
    tells_all: bool = True
    extends: bool = True


@dataclass(frozen=True, slots=True)
class Bracket:
    """The beginning of a reading of a whole table: everything up to `low` is in it. None where that is not known."""

    low: int | None
    at: int
    generation: int | None


@dataclass
class Settled:
    """The outcome for some keys: rows of those that differ, by end, and the keys of which nobody can tell, and why."""

    source: list[bytes] = field(default_factory=list)
    target: list[bytes] = field(default_factory=list)
    pending: list[bytes] = field(default_factory=list)
    why: str = ""
    different: int = 0  # keys
    is_cut: bool = False  # there were so many that not all keys were looked at
    is_parked: bool = False  # the table parked meanwhile: no further look can tell
    suspects: set[bytes] = field(default_factory=set)  # which differed at the last look: the next one decides
    first: dict[bytes, int] = field(default_factory=dict)  # the place of the first look at each key


class Again:
    """Looks again. One connection to the source's catalogue and to the target, a snapshot of the source for each look."""

    def __init__(
        self,
        source: SourceConnector,
        target: RowTarget,
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

    # --- whole tables -------------------------------------------------------------------------------------------------

    def begin(self, one: VerifyTable) -> Bracket:
        """Note where both ends are before all rows of a table are read."""
        return self._outlasting(lambda: self._begun(one))

    def _begun(self, one: VerifyTable) -> Bracket:
        placed, low = self._placed(one.table.source), None
        if self._has_floor():
            with closing(self._source.snapshot(self._identity)) as snapshot:
                low = self._places.low(self._opened(snapshot, one))
                self._raise_floor(low)
        state = placed[1] if placed else None
        return Bracket(
            low, placed[0].sequence if placed else 0, state.generation if state and state.is_streaming else None
        )

    def is_quiet(self, one: VerifyTable, began: Bracket) -> bool:
        """Return whether no row of the table changed, at either end, since `begin`; then what was read is of one position."""
        return self._outlasting(lambda: self._is_quiet(one, began))

    def _is_quiet(self, one: VerifyTable, began: Bracket) -> bool:
        if not self._beside.tells_all or began.low is None or began.generation is None:
            return False
        if not self._is_captured(self._of_one_server(self._catalog.mark())):
            return False
        placed = self._placed(one.table.source)
        if placed is None or not placed[1].is_streaming or placed[1].generation != began.generation:
            return False
        end = self._trail.end().position.sequence
        try:
            return not is_touched(self._trail, self._watched(one), min(began.low, began.at), end)
        except TrailError:  # that part was removed meanwhile
            return False

    # --- rows by their keys -------------------------------------------------------------------------------------------

    def can_find(self, one: VerifyTable) -> bool:
        """Return whether rows of the table can be looked for by keys at both ends: a key has one text form there."""
        table = one.table
        if table.source not in self._found:
            places = [table.columns.index(name) for name in table.key]
            types = [table.types[place] for place in places]
            has_one_form = (
                bool(places)
                and (one.filter is None or bool(one.filter.columns))
                and not Canonical(table).has_forms(*places)
                and all(t.at_target.text is TextForm.OF_KIND and not t.at_target.zero_dates for t in types)
                and (self._rules.nul == "stop" or all(t.kind is not Kind.TEXT for t in types))
            )
            self._found[table.source] = has_one_form and self._reader.finds(table)
        return self._found[table.source]

    def settle(self, one: VerifyTable, keys: Sequence[bytes], enough: int) -> Settled:
        """Look at rows with these keys until each is judged, time is over, or `enough` differ."""
        found, rest = Settled(), pace.current.verify_poll
        if not self._beside.tells_all:
            return Settled(pending=list(keys), why=LEFT_OUT)
        left, refused = list(keys), list[bytes]()
        while left and not (self.is_over or found.is_cut or found.is_parked):
            batches, still = [*_batches(left)], list[bytes]()
            for number, some in enumerate(batches):
                if self.is_over:
                    still += some
                    continue
                judged = self._tried(one, some, found, refused)
                suspects = [key for key in judged if key in found.suspects]
                if suspects and not self.is_over:  # at once: of many that differ none is left for want of time
                    kept = frozenset(self._tried(one, suspects, found, refused))
                    judged = [key for key in judged if key in kept or key not in suspects]
                still += judged
                if found.different >= enough:
                    found.is_cut = number + 1 < len(batches) or bool(still)
                    break
            left = [key for key in still if key not in refused]
            self._tell(AGAIN, len(keys) - len(left), len(keys))
            if left and not (self.is_over or found.is_cut or found.is_parked):
                self.rest(rest)
                rest = min(2 * rest, REST)
        found.pending = [] if found.is_cut else [*left, *refused]
        return found

    def _tried(self, one: VerifyTable, keys: Sequence[bytes], found: Settled, refused: list[bytes]) -> list[bytes]:
        """Look once, and again where that fails: a TRUNCATE in between, a part of the trail that was removed. Where it
        stays so, halves are tried, down to the row that an end does not give: nobody can tell of it."""
        for _ in range(TRIES):
            try:
                return self._outlasting(lambda: self._look(one, keys, found))
            except (SourceUnavailable, TargetUnavailable) as lost:
                if not self.is_over:
                    raise
                found.why = lost.message
                return list(keys)
            except (AnabranchError, ValueError) as error:
                found.why, self._places.floor = getattr(error, "message", str(error)), None
                if self.is_over:
                    return list(keys)
        if len(keys) == 1:
            refused += keys
            return []
        middle = len(keys) // 2
        return [key for half in (keys[:middle], keys[middle:]) for key in self._tried(one, half, found, refused)]

    def _look(self, one: VerifyTable, keys: Sequence[bytes], found: Settled) -> list[bytes]:
        """Look once; return the keys that are still pending."""
        if not self._has_floor():
            found.why = NOT_SHOWN
            return list(keys)
        wanted = frozenset(keys)
        with closing(self._source.snapshot(self._identity)) as snapshot:
            low = self._opened(snapshot, one)
            source = self._rows(one, wanted, self._lines_at_source(snapshot, one, keys))
        mark = self._of_one_server(self._catalog.mark())
        if not self._is_captured(mark):
            found.why = NOT_CAPTURED
            return list(keys)
        first, high = self._places.low(low), self._places.high(mark)
        try:
            placed = self._placed_behind(one.table.source, high)
            if placed is None or not placed[1].is_streaming:
                found.why, found.is_parked = NOT_STREAMING, placed is not None and placed[1].is_parked
                return list(keys)
            target = self._rows(one, wanted, self._reader.lines_of(one.table, [parse_line(key) for key in keys]))
        finally:
            self._reader.leave()
        self._raise_floor(first)
        since = min(found.first.get(key, first) for key in keys)
        window = Window(first, high, placed[0].sequence, self._trail.end().position.sequence, since)
        said = seen(self._trail, self._watched(one), keys, window, lambda: self.is_over)
        for key in keys:
            found.first.setdefault(key, first)
        return [
            key for key in keys if not _is_judged(found, key, expected(said, key, source, target), target.get(key, ()))
        ]

    def has_changed(self, one: VerifyTable, after: int) -> bool:
        """Return whether any row of the table changed behind `after`. Raises TrailError where the trail does not reach
        back so far."""
        return is_touched(self._trail, self._watched(one), after, self._trail.end().position.sequence)

    def changed(self, one: VerifyTable, after: int) -> Iterator[list[bytes] | None]:
        """Yield the keys of a table's rows that changed behind `after`, up to the trail's end, in lists of some
        KEYS_AT_ONCE; None where all rows may have changed. Raises TrailError where the trail does not reach back so far."""
        end = self._trail.end().position.sequence
        return changed(self._trail, self._watched(one), after, end, KEYS_AT_ONCE)

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

    def _lines_at_source(self, snapshot: SnapshotReader, one: VerifyTable, keys: Sequence[bytes]) -> Iterator[bytes]:
        sources = dict(zip(one.table.columns, one.table.source_columns, strict=True))
        names = [sources[name] for name in one.table.key]
        wanted = [dict(zip(names, parse_line(key), strict=True)) for key in keys]
        columns = read_columns(one.table, one.filter)
        for block in as_lines(snapshot.lines_of(one.schema, columns, wanted, self._rules), columns):
            yield b"".join(row + b"\n" for row in self._passing(one, block.split(b"\n")[:-1]) if row is not None)

    def _rows(self, one: VerifyTable, wanted: Collection[bytes], blocks: Iterable[bytes]) -> Rows:
        """Return rows by key. Those whose key an end only takes for an equal one are left out."""
        canonical, key, found = Canonical(one.table), key_of(one.table), dict[bytes, list[bytes]]()
        for block in blocks:
            for row in canonical.rows(block):
                if (its := key(row)) in wanted:
                    found.setdefault(its, []).append(row)
        return found

    def _watched(self, one: VerifyTable) -> Watched:
        return Watched(one, self._rules, self._beside.parents.get(one.table.source, {}), self._passing)

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


def _is_judged(found: Settled, key: bytes, there: Sequence[bytes] | None, here: Sequence[bytes]) -> bool:
    """Take a row as both ends have it, None: nobody can tell. It differs if two looks, one after the other, say so:
    engines without transactions show a row before their log has it."""
    if there is None:
        found.why = CHANGING
        return False
    if Counter(there) == Counter(here):
        found.suspects.discard(key)
        return True
    if key not in found.suspects:
        found.suspects.add(key)
        found.why = CHANGING
        return False
    found.source += there
    found.target += here
    found.different += 1
    return True


def _batches(keys: Sequence[bytes]) -> Iterator[Sequence[bytes]]:
    for start in range(0, len(keys), AT_ONCE):
        yield keys[start : start + AT_ONCE]
