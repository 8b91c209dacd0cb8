"""Rows that differed are looked at again beside writers, by their keys, until the rule (rule.py) can judge them.

One look: the rows at the source in a snapshot, then the log's end; once the trail has reached that, the rows at the
target in one snapshot with the checkpoint; then what the trail says of them. What does not live here: which rows are
looked at (beside.py).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field

from anabranch import pace
from anabranch.contracts import SnapshotReader, ValueRules
from anabranch.errors import AnabranchError, NotTold, SourceUnavailable, TargetUnavailable, TrailError
from anabranch.model.at_target import TextForm
from anabranch.model.datatype import Kind
from anabranch.model.position import Position
from anabranch.rows.left_out import as_lines
from anabranch.rows.lines import parse_line
from anabranch.spark.where import read_columns
from anabranch.verify.both_ends import BothEnds
from anabranch.verify.canonical import Canonical
from anabranch.verify.digest import key_of
from anabranch.verify.display import AGAIN
from anabranch.verify.plan import VerifyTable
from anabranch.verify.report import LATE as LATE
from anabranch.verify.rule import Rows, Window, expected
from anabranch.verify.touched import Watched, changed, is_touched, seen

AT_ONCE = 2_000  # keys of one look
KEYS_AT_ONCE = 50_000  # of the trail, in memory
REST = 2.0  # seconds: the longest pause between two looks at the same keys
TRIES = 3  # looks in a row that may fail with an error of an end

CHANGING = "rows changed each time they were looked at"
NOT_CAPTURED = "capture did not reach what was read at the source"
NOT_SHOWN = "transactions at the source are logged and do not end, so what it shows is not certain"
NOT_STREAMING = "the table was not streaming when it was looked at"
LEFT_OUT = (
    "the job leaves out an origin, so its trail does not tell all that changes rows: verify while both jobs are stopped"
)
NO_KEYS = "its rows cannot be looked for by a key, and it kept changing while it was read"


def has_one_form(one: VerifyTable, rules: ValueRules) -> bool:
    """Return whether keys of the table have one text form, by which rows can be looked for at both ends."""
    table = one.table
    places = [table.columns.index(name) for name in table.key]
    types = [table.types[place] for place in places]
    return (
        bool(places)
        and (one.filter is None or bool(one.filter.columns))
        and not Canonical(table).has_forms(*places)
        and all(t.at_target.text is TextForm.OF_KIND and not t.at_target.zero_dates for t in types)
        and (rules.nul == "stop" or all(t.kind is not Kind.TEXT for t in types))
    )


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


class Again(BothEnds):
    """Looks again."""

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

    def place(self, one: VerifyTable) -> Position | None:
        """Return the last place up to which both ends are sure to have all of a table's changes, for whoever reads it from now
        on; None where nobody knows one."""
        began = self.begin(one)
        if began.low is None or began.generation is None:
            return None
        try:
            return self._trail.position_at(min(began.low, began.at))
        except TrailError:  # that part was removed meanwhile
            return None

    def server(self) -> str:
        """Return which server the source is at this moment."""
        return self._outlasting(lambda: self._source.order.server(self._catalog.mark()))

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
            self._found[table.source] = has_one_form(one, self._rules) and self._reader.finds(table)
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
                if isinstance(error, NotTold):  # which another look would say again
                    break
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
            target = self._rows(one, wanted, self._target_lines(one, keys))
        finally:
            self._reader.leave()
        self._raise_floor(first)
        since = min(found.first.get(key, first) for key in keys)
        window = Window(first, high, placed[0].sequence, self._trail.end().position.sequence, since)
        said = seen(self._trail, self._watched(one), keys, window, lambda: self.is_over)
        for key in keys:
            found.first.setdefault(key, first)
        return [
            key for key in keys if not is_judged(found, key, expected(said, key, source, target), target.get(key, ()))
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

    def _lines_at_source(self, snapshot: SnapshotReader, one: VerifyTable, keys: Sequence[bytes]) -> Iterator[bytes]:
        sources = dict(zip(one.table.columns, one.table.source_columns, strict=True))
        names = [sources[name] for name in one.table.key]
        wanted = [dict(zip(names, parse_line(key), strict=True)) for key in keys]
        columns = read_columns(one.table, one.filter)
        for block in as_lines(snapshot.lines_of(one.schema, columns, wanted, self._rules), columns):
            yield b"".join(row + b"\n" for row in self._passing(one, block.split(b"\n")[:-1]) if row is not None)

    def _target_lines(self, one: VerifyTable, keys: Sequence[bytes]) -> Iterator[bytes]:
        return self._reader.lines_of(one.table, [parse_line(key) for key in keys])

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


def is_judged(found: Settled, key: bytes, there: Sequence[bytes] | None, here: Sequence[bytes]) -> bool:
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
