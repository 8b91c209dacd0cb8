"""Verification of a table whose source is not reached from here: sums and digests come through the trail, rows never
do.

First the sums of all buckets are compared, then keys and digests of the rows of those that differ. A row is read at
both ends at unknown moments, each between two places of the trail. Where the trail has no change of it between the
first and the last of these places, it is the same row at all of them, and differs if its digests do, in two looks one
after the other: engines without transactions show a row before their log has it. One that changed meanwhile is looked
at again. What does not live here: asking (asking.py), reading at the source (source_side.py).
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import TypeVar

from anabranch import pace
from anabranch.contracts import PlacedReader, ReadTarget, SourceConnector, ValueRules
from anabranch.errors import TargetUnavailable, TrailCorrupt, TrailError
from anabranch.model.position import Position
from anabranch.spark.engine import Engine
from anabranch.trail.reader import TrailReader
from anabranch.verify.again import CHANGING, KEYS_AT_ONCE, LATE, NOT_STREAMING, REST, has_one_form
from anabranch.verify.asking import Asking, Refused
from anabranch.verify.both_ends import RECONNECTS, Beside
from anabranch.verify.compare import text_of
from anabranch.verify.digest import Summing, Sums, bucket_of
from anabranch.verify.plan import VerifyPiece, VerifyTable
from anabranch.verify.report import NO_TIME, Difference, TableResult
from anabranch.verify.source_side import ROWS_PER_PIECE, Stopped, TooMany, digested, summed
from anabranch.verify.told import Digesting, Told
from anabranch.verify.touched import Watched, changed, has_barrier, is_touched

T = TypeVar("T")
Digests = dict[bytes, list[bytes]]
ROWS_AT_ONCE = 50_000  # rows of differing buckets in one answer, but a bucket at least
STUCK = 5  # looks in a row that decide nothing: then the rest is pending
PATIENCE = 60.0  # seconds for apply to come to what was read at the source
FILTERED = "its rows pass a filter, which only a job that reaches both ends evaluates"
NOT_APPLIED = "apply did not come to what was read at the source"
ANEW = "it was loaded anew, or taken out of the job, while it was compared"


@dataclass
class _Judged:
    """The outcome so far. `left`: buckets that differ, with the rows of the side that has more; `suspects`: keys that
    differed at the last look; `open`: keys of which that look could not tell."""

    one: VerifyTable
    left: dict[int, int]
    found: dict[bytes, list[Difference]] = field(default_factory=dict)
    others: set[bytes] = field(default_factory=set)
    suspects: set[bytes] = field(default_factory=set)
    open: int = 0
    why: str = ""

    @property
    def differences(self) -> list[Difference]:
        return [one for some in self.found.values() for one in some]

    def chosen(self) -> frozenset[int]:
        some, rows = list[int](), 0
        for bucket, count in self.left.items():
            rows += count
            if some and rows > ROWS_AT_ONCE:
                break
            some.append(bucket)
        return frozenset(some)


@dataclass(frozen=True)
class _Here:
    """The places of the job at the target before and behind a reading."""

    first: int
    last: int


class _Unknown(Exception):
    """Nobody can tell of the table now, for this reason."""


@dataclass
class Elsewhere:
    """Both ends of a job that applies a trail. `until`: of time.monotonic, when what is undecided is pending."""

    engine: Engine
    source: SourceConnector
    target: ReadTarget
    rules: ValueRules
    beside: Beside
    asking: Asking
    limit_keys: int
    until: float
    stop: Callable[[], bool] = lambda: False

    def compare(self, one: VerifyTable) -> TableResult:
        """Compare a table with what the source's site tells of it."""
        result = TableResult(str(one.table.source), str(one.table.target), 0, 0, identical=False)
        pending = replace(result, is_complete=False, pending=1)
        if one.filter is not None:
            return replace(pending, why=FILTERED)
        try:
            with closing(TrailReader(self.beside.trail, name="verify")) as trail:
                return self._compared(one, trail, result)
        except (_Unknown, Refused) as error:
            return replace(pending, why=str(error))

    def _compared(self, one: VerifyTable, trail: TrailReader, result: TableResult) -> TableResult:
        generation = self._place(one, None)[1]
        told = self._asked(one, None)
        there = told.sums
        if there is None:
            raise _Unknown("the answer has no sums")
        ends = self.source, self.target, self.rules
        here, _ = self._read(one, told, generation, lambda cut: summed(self.engine, Summing(*ends), cut, self._is_over))
        judged = _Judged(one, {b: int(max(there.rows[b], here.rows[b])) for b in there.differing(here)})
        self._settle(judged, trail, generation)
        return _result(judged, result, there, here, self.limit_keys)

    def _settle(self, judged: _Judged, trail: TrailReader, generation: int) -> None:
        """Look at the rows of buckets that differ until all is decided, enough differs or nobody can tell."""
        stuck, rest = 0, pace.current.verify_poll
        while judged.left and len(judged.differences) < self.limit_keys and stuck < STUCK:
            before = len(judged.left), len(judged.differences), frozenset(judged.suspects)
            try:
                self._look(judged, trail, generation)
            except (
                _Unknown,
                Refused,
                TrailCorrupt,
            ) as error:  # TrailCorrupt: an answer that cannot be read, or is too long
                judged.why = str(error)
                return
            after = len(judged.left), len(judged.differences), frozenset(judged.suspects)
            stuck = 0 if after != before else stuck + 1
            if stuck:
                time.sleep(max(0.0, min(rest, self.until - time.monotonic())))
                rest = min(2 * rest, REST)

    def _look(self, judged: _Judged, trail: TrailReader, generation: int) -> None:
        one, some = judged.one, judged.chosen()
        told = self._asked(one, some)
        work = Digesting(self.source, self.target, self.rules, buckets=some)
        rows, at = self._read(one, told, generation, lambda cut: digested(self.engine, work, cut, self._is_over))
        there, here = _by_key(told.rows), _by_key(rows)
        keys = {key for key in there.keys() | here.keys() if _differ(there, here, key)}
        window = min(told.low, at.first), max(told.high, at.last)
        touched, why = self._touched(one, trail, window, keys) if keys else (frozenset[bytes](), "")
        undecided = set[bytes]()
        for key in sorted(keys - judged.found.keys() if one.table.key else keys):
            if one.is_shared and key not in there:
                judged.others.add(key)
            elif key in touched or key not in judged.suspects:
                undecided.add(key)
            else:
                judged.found.setdefault(key, []).extend(_differences(one, key, there.get(key, []), here.get(key, [])))
        judged.suspects = {key for key in undecided if key not in touched}
        judged.open, judged.why = len(undecided), why or CHANGING
        for bucket in some - ({bucket_of(key) for key in undecided} if one.table.key else some if undecided else set()):
            del judged.left[bucket]

    def _touched(
        self, one: VerifyTable, trail: TrailReader, window: tuple[int, int], keys: set[bytes]
    ) -> tuple[Iterable[bytes] | frozenset[bytes], str]:
        """Return which of the keys may have changed behind the first place of the window, up to the last; and why
        nobody can tell where that is all of them."""
        watched = Watched(one, self.rules, self.beside.parents.get(one.table.source, {}))
        after, upto = window
        try:
            if has_barrier(trail, watched, upto, trail.end().position.sequence):
                return frozenset(keys), CHANGING
            if not has_one_form(one, self.rules):
                return frozenset(keys if is_touched(trail, watched, after, upto) else ()), CHANGING
            found = set[bytes]()
            for some in changed(trail, watched, after, upto, KEYS_AT_ONCE):
                if some is None:
                    return frozenset(keys), CHANGING
                found.update(keys.intersection(some))
            return frozenset(found), ""
        except TrailError as error:  # that part was removed meanwhile, or is not there yet
            return frozenset(keys), error.message

    # --- both ends ----------------------------------------------------------------------------------------------------

    def _asked(self, one: VerifyTable, buckets: frozenset[int] | None) -> Told:
        found = self.asking.ask(one, self.rules, buckets, self._is_over)
        if found is None:
            raise _Unknown(NO_TIME if buckets is None else LATE)
        return found

    def _read(
        self, one: VerifyTable, told: Told, generation: int, read: Callable[[Sequence[VerifyPiece]], T]
    ) -> tuple[T, _Here]:
        """Read the target once apply is behind what the source's site has read; return also between which places that was."""
        for tried in range(RECONNECTS):
            try:
                first, before = self._place(one, told.high)
                with closing(self.target.reader(self.rules)) as reader:
                    cut = [VerifyPiece(one, place=place) for place in reader.pieces(one.table, ROWS_PER_PIECE)]
                found = read(cut)
                last, behind = self._place(one, None)
                if not before == behind == generation:
                    raise _Unknown(ANEW)
                return found, _Here(first, last)
            except Stopped:
                raise _Unknown(LATE) from None
            except TooMany as error:
                raise _Unknown(f"at the target: {error}") from None
            except TargetUnavailable:
                if tried + 1 >= RECONNECTS or self._is_over():
                    raise
                time.sleep(min(pace.current.verify_lost * 2**tried, max(0.0, self.until - time.monotonic())))
        raise AssertionError("the last try raises")

    def _place(self, one: VerifyTable, wanted: int | None) -> tuple[int, int]:
        """Return where the job is at the target, once it is at a sequence or behind it, and the number of the table's load.
        Raises _Unknown where it does not come there, or the table does not stream."""
        until = min(time.monotonic() + PATIENCE, self.until)
        with closing(self.target.reader(self.rules)) as reader:
            assert isinstance(reader, PlacedReader), "every target that keeps rows keeps the checkpoint beside them"
            while True:
                try:
                    found = reader.place(self.beside.job, one.table.source)
                finally:
                    reader.leave()
                if found is None or not found[1].is_streaming:
                    raise _Unknown(NOT_STREAMING)
                position: Position = found[0].position
                if wanted is None or position.sequence >= wanted:
                    return position.sequence, found[1].generation
                if self.stop() or time.monotonic() > until:
                    raise _Unknown(NOT_APPLIED)
                time.sleep(pace.current.verify_poll)

    def _is_over(self) -> bool:
        return self.stop() or time.monotonic() >= self.until


def _by_key(rows: Iterable[tuple[bytes, bytes]]) -> Digests:
    found: Digests = {}
    for key, digest in rows:
        found.setdefault(key, []).append(digest)
    return found


def _differ(there: Mapping[bytes, list[bytes]], here: Mapping[bytes, list[bytes]], key: bytes) -> bool:
    return sorted(there.get(key, ())) != sorted(here.get(key, ()))


def _differences(one: VerifyTable, key: bytes, there: list[bytes], here: list[bytes]) -> list[Difference]:
    """Return what differs in the rows of a key; of a table without one, in all rows that were looked at."""
    if one.table.key:
        kind = "different" if there and here else "missing" if there else "extra"
        return [Difference(kind, dict(zip(one.table.key, map(text_of, key.split(b"\t")), strict=True)))]
    ours, theirs = Counter(there), Counter(here)
    rows = [(ours[digest], theirs[digest]) for digest in sorted(ours | theirs) if ours[digest] != theirs[digest]]
    return [Difference("missing" if a > b else "extra", copies=(a, b)) for a, b in rows for _ in range(abs(a - b))]


def _result(judged: _Judged, result: TableResult, there: Sums, here: Sums, limit_keys: int) -> TableResult:
    found = judged.differences
    kinds = Counter(one.kind for one in found)
    pending = 0 if not judged.left or len(found) >= limit_keys else max(1, judged.open)
    return replace(
        result,
        rows_source=int(there.rows.sum()),
        rows_target=int(here.rows.sum()),
        identical=not judged.left and not found,
        missing=kinds["missing"],
        extra=kinds["extra"],
        different=kinds["different"],
        is_complete=not judged.left,
        sample=tuple(found[:limit_keys]),
        others=len(judged.others),
        pending=pending,
        why=judged.why if pending else "",
    )
