"""The driver of a verification: digests of every piece, then the rows of the buckets that differ.

Both ends are read as they are at that moment. Where the job does not run, that is the answer: the writer has to be quiet
and the stream drained for it to mean equality. Beside a running job what differs is looked at again (beside.py). Nothing is
written but what opening a snapshot takes at some sources, and nothing is locked for longer than that.
"""

from __future__ import annotations

import math
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any, Protocol

from pyspark.sql import SparkSession

from anabranch import pace
from anabranch.contracts import ReadTarget, SourceConnector, ValueRules
from anabranch.errors import AnabranchError, NotTold, Retry, SourceUnavailable, TargetUnavailable
from anabranch.model.ids import TableId
from anabranch.rows.fingerprint import Hashing
from anabranch.spark import pieces
from anabranch.spark.pieces import MOST_TOGETHER
from anabranch.spark.where import where
from anabranch.spark.work import Outcome, Work
from anabranch.verify import fingerprints
from anabranch.verify.again import LATE, Again
from anabranch.verify.alone import Alone
from anabranch.verify.beside import Buckets, Differences, Undecided, settle
from anabranch.verify.both_ends import RECONNECTS, Beside
from anabranch.verify.compare import Comparison, Found, Picking
from anabranch.verify.digest import GONE, PieceReading, Shared, Summing, Sums
from anabranch.verify.display import DIGESTS, FINGERPRINTS, ROWS, Tell, silent
from anabranch.verify.exact import LOST, OnePosition, Opening
from anabranch.verify.filtering import Filtering
from anabranch.verify.fingerprints import Way
from anabranch.verify.plan import VerifyPiece, VerifyTable, cut
from anabranch.verify.report import NO_TIME, Difference, TableResult, Verification
from anabranch.verify.sampling import Part, cut_sample, of_parts
from anabranch.verify.stretches import Stretch, pieces_of_stretch
from anabranch.verify.wanted import Sample

ROWS_PER_PIECE = 200_000
LIMIT_KEYS = 100
TASKS_PER_CORE = (
    16  # at least, where pieces share tasks: each costs as much as a small table, few leave cores without work
)
LIMIT_ROWS = 2_000_000  # rows of differing buckets that are brought together, per table


class _Adding(Protocol):
    def add(self, is_source: bool, value: Any, /) -> None: ...


@dataclass
class _Sides:
    """Both ends of a table: sums of what has come of `pieces` pieces; once all of them have, how many rows there are and the
    buckets that differ, and nothing else, however many tables there are."""

    pieces: int
    rows: tuple[int, int] = (0, 0)
    differing: Mapping[int, int] = field(default_factory=dict)  # with the rows of the side that has more
    digests: tuple[str, ...] = ()  # of the source and the target
    _sums: tuple[Sums, Sums] | None = None

    @classmethod
    def equal(cls, rows: int, digest: str = "") -> _Sides:
        """Return the result for a table whose fingerprints are equal."""
        return cls(0, (rows, rows), digests=(digest, digest))

    def add(self, is_source: bool, sums: Sums) -> None:
        source, target = self._sums = self._sums or (Sums(), Sums())
        (source if is_source else target).add(sums)
        self.pieces -= 1
        if not self.pieces:
            self.rows = int(source.rows.sum()), int(target.rows.sum())
            self.differing = {b: int(max(source.rows[b], target.rows[b])) for b in source.differing(target)}
            self.digests = source.digest, target.digest
            self._sums = None


def verify_tables(
    spark_factory: Callable[[], SparkSession],
    source: SourceConnector,
    target: ReadTarget,
    tables: Sequence[VerifyTable],
    *,
    rules: ValueRules | None = None,
    rows_per_piece: int = ROWS_PER_PIECE,
    limit_keys: int = LIMIT_KEYS,
    show_values: bool = False,
    by_rows: bool = False,
    expected_identity: str = "",
    beside: Beside | None = None,
    budget: float = math.inf,
    sample: Sample | None = None,
    stretch: Stretch | None = None,
    opening: Opening | None = None,
    tell: Tell = silent,
    stop: Callable[[], bool] = lambda: False,
) -> Verification | None:
    """Compare tables; None when `stop()` ended it. At most `limit_keys` keys are shown per table; `by_rows`: all rows are read,
    also where servers can sum up their own; `beside`: the job that runs meanwhile; `budget`: seconds after which what is not
    decided is pending; `sample`: of each table only ranges of its key are compared; `stretch`: of the one table only that;
    `opening`: how both ends can be read at one position. Raises what a task raised, as one message."""
    values, began = rules or ValueRules(), time.monotonic()
    ends, every = (source, target, values, expected_identity), tables
    cutting = _Cutting(rows_per_piece, beside is None, sample, stretch)
    pieces, parts = cutting.pieces(source, target, every, values, expected_identity)
    if budget < math.inf:  # a large table that takes all of the time leaves small ones theirs
        pieces = pieces[::-1]
    tables = [one for one in every if parts is None or one.table.source in parts]
    run = _Run(spark_factory, pieces, stop, began + budget, tell)
    way = None if by_rows else fingerprints.agreed(source, target, values)
    sides, one_position = _first_look(run, ends, tables, way, opening)
    if sides is None:
        return None
    found = [Undecided(one, dict(sides[one.table.source].differing)) for one in tables if one.table.source in sides]
    comparison = Comparison({one.table.source: one.table for one in tables}, limit_keys, show_values)

    def differences(buckets: Buckets, how: Comparison) -> dict[TableId, list[Found]] | None:
        return run.differences(Picking(*ends, buckets), how) if buckets else {}

    if beside is None:
        is_through = _decide_once(found, comparison, differences)
    else:
        with closing(Again(*ends, beside, stop, tell, Filtering(spark_factory))) as again:
            again.until(_end(began, budget, beside), is_limited=budget < math.inf)
            is_through = settle(again, found, comparison, differences, LIMIT_ROWS)
    if not is_through:
        return None
    is_limited = beside is not None or budget < math.inf
    results = {one.source: _result(one, sides[one.source], limit_keys, is_limited) for one in found}
    told = tuple(results.get(one.table.source) or _not_compared(one, run.untold) for one in tables)
    told = told if parts is None else of_parts(every, told, parts)
    told = tuple(one_position.told_of(one) for one in told) if opening else told
    exact = one_position.shared.position if one_position.shared else ""
    return Verification(told, sample=sample, exact=exact, not_exact=one_position.why, paused=one_position.paused)


def _end(began: float, budget: float, beside: Beside) -> float:
    """Return until when rows that differ are looked at again."""
    patient = time.monotonic() + beside.patience + (time.monotonic() - began)
    if budget == math.inf:
        return patient
    return min(began + budget, patient) if beside.in_turn else began + budget


Ends = tuple[SourceConnector, ReadTarget, ValueRules, str]


def _first_look(
    run: _Run, ends: Ends, tables: Sequence[VerifyTable], way: Way | None, opening: Opening | None
) -> tuple[dict[TableId, _Sides] | None, OnePosition]:
    """Sum up both ends, at one position where that is wanted and can be; None when stopped."""
    if opening is None or not tables:
        return _sums(run, ends, tables, way, None), OnePosition()
    at_once, sides = tables, dict[TableId, _Sides]()
    with opening.opened(tables) as found:
        if found.shared is not None:
            there = [one for one in tables if one.table.source not in found.left]
            alone, gone = Alone(found.alone), dict[TableId, str]()
            try:
                read = _sums(run.only(there, alone, gone), ends, there, way, found.shared)
                if read is None:
                    return None, found
                found.passed(there, gone)
                at_once, sides = [one for one in tables if found.is_left(one)], read
            except AnabranchError as lost:
                if not alone.failed.is_set():
                    raise
                found.shared, found.why = None, f"{LOST}: {lost.message}"
    if not at_once:
        return sides, found
    read = _sums(run.only(at_once), ends, at_once, way, None)
    return None if read is None else sides | read, found


def _sums(
    run: _Run, ends: Ends, tables: Sequence[VerifyTable], way: Way | None, shared: Shared | None
) -> dict[TableId, _Sides] | None:
    """Return both ends of each table: first those whose fingerprints are equal. None when stopped."""
    hashed = {one.table.source for one in fingerprints.possible(tables, way)}
    equal = run.equal(fingerprints.Fingerprinting(*ends, way or Way(Hashing.LOOKUP3), shared=shared), hashed)
    read = None if equal is None else run.sides(Summing(*ends, shared=shared), {*equal, *(run.gone or ())})
    return None if equal is None or read is None else equal | read


@dataclass(frozen=True, slots=True)
class _Cutting:
    """The cutting of tables, and which part of them is read. `by_place`: a source may be cut by where its rows lie."""

    rows_per_piece: int
    by_place: bool
    sample: Sample | None
    stretch: Stretch | None

    def pieces(
        self,
        source: SourceConnector,
        target: ReadTarget,
        tables: Sequence[VerifyTable],
        rules: ValueRules,
        identity: str,
    ) -> tuple[list[VerifyPiece], Mapping[TableId, Part] | None]:
        """Return what is read of both sides, and, of a sample, which parts of the tables that is."""
        if self.stretch is not None:
            (one,) = tables
            return pieces_of_stretch(target, one, self.stretch, rules), None
        how: Any = {"rows_per_piece": self.rows_per_piece, "rules": rules, "expected_identity": identity}
        if self.sample is None:
            return cut(source, target, tables, **how, by_place=self.by_place), None
        found = cut_sample(source, target, tables, self.sample, **how)
        return found.pieces, found.parts


def _decide_once(tables: Sequence[Undecided], comparison: Comparison, differences: Differences) -> bool:
    """Take what differs for what it is. False when stopped."""
    buckets = {one.source: one.chosen(LIMIT_ROWS) for one in tables if one.left}
    found = differences(buckets, comparison)
    for one in tables:
        if found and one.source in found:
            one.decide(buckets[one.source], found[one.source])
    return found is not None


@dataclass(frozen=True)
class _Run:
    spark_factory: Callable[[], SparkSession]
    pieces: Sequence[VerifyPiece]
    stop: Callable[[], bool]
    until: float  # of time.monotonic
    tell: Tell = silent
    alone: Alone = field(default_factory=Alone)
    gone: dict[TableId, str] | None = (
        None  # tables whose rows a snapshot does not keep, and why; None: there is no snapshot
    )
    untold: dict[TableId, str] = field(default_factory=dict)  # tables whose rows the target does not tell, and why

    def is_over(self) -> bool:
        return self.stop() or self.alone.failed.is_set() or time.monotonic() >= self.until

    def only(
        self, tables: Sequence[VerifyTable], alone: Alone | None = None, gone: dict[TableId, str] | None = None
    ) -> _Run:
        """Return it for the pieces of these tables; in snapshots, where `gone` is to get those that these do not keep."""
        names = {one.table.source for one in tables}
        pieces = [piece for piece in self.pieces if piece.one.table.source in names]
        return replace(self, pieces=pieces, alone=alone or Alone(), gone=gone)

    def equal(self, work: PieceReading, tables: Collection[TableId]) -> dict[TableId, _Sides] | None:
        """Return the tables, of these, whose fingerprints are equal; None when stopped."""
        pieces = [piece for piece in self.pieces if piece.one.table.source in tables]
        found = fingerprints.waiting(pieces)
        if not self._take(FINGERPRINTS, work, pieces, found, together=MOST_TOGETHER):
            return None
        return {table: _Sides.equal(both.rows, both.digest) for table, both in found.items() if both.rows is not None}

    def sides(self, work: PieceReading, known: Collection[TableId]) -> dict[TableId, _Sides] | None:
        """Sum up all tables but the known ones, those for which there was time; None when stopped."""
        pieces = [piece for piece in self.pieces if piece.one.table.source not in known]
        counts = Counter(piece.one.table.source for piece in pieces)
        found = {table: _Sides(count) for table, count in counts.items()}
        is_through = self._take(DIGESTS, work, pieces, found)
        return {table: sides for table, sides in found.items() if not sides.pieces} if is_through else None

    def _take(
        self,
        what: str,
        work: PieceReading,
        pieces: Sequence[VerifyPiece],
        into: Mapping[TableId, _Adding],
        together: int = 1,
    ) -> bool:
        """Read every piece into its table's result. Returns False when stopped. `together`: at most so many pieces
        share a task.
        """

        done, one_by_one = count(1), threading.Lock()

        def take(outcome: Outcome) -> None:
            with one_by_one:
                if outcome.failure is None:
                    into[outcome.piece.one.table.source].add(outcome.piece.is_source, outcome.value)
                elif self.gone is not None:
                    self.gone[outcome.piece.one.table.source] = outcome.failure.message
                self.tell(what, next(done), len(pieces))

        with self.alone.reading(work, pieces, take, self.is_over):
            self._in_tasks(work, self.alone.others(pieces), take, together)
        return not self.stop()

    def _in_tasks(
        self, work: Work, left: Sequence[VerifyPiece], take: Callable[[Outcome], None], together: int
    ) -> None:
        lost: list[tuple[VerifyPiece, AnabranchError]] = []
        for tried in count():
            if not left or self.is_over():
                break
            lost.clear()
            spark = self.spark_factory()
            if not self._run(spark, list(self._outcomes(spark, work, left, together)), take, lost):
                break
            left = [piece for piece, _ in lost]
            if lost:
                self._rest(tried, lost[0][1])

    def _rest(self, tried: int, lost: AnabranchError) -> None:
        """Pause before pieces are read again whose end was lost meanwhile. Raises `lost` after the last try."""
        if tried + 1 >= RECONNECTS:
            raise lost
        until = min(self.until, time.monotonic() + pace.current.verify_lost * 2**tried)
        while not self.stop() and (left := until - time.monotonic()) > 0:
            time.sleep(min(left, 0.1))

    def differences(self, work: Picking, comparison: Comparison) -> dict[TableId, list[Found]] | None:
        """Bring rows of buckets together and compare them, again where an end was lost meanwhile; {} where there was no time
        for all of it, None when stopped."""
        for tried in count():
            try:
                return self._differences(work, comparison)
            except (SourceUnavailable, TargetUnavailable) as lost:
                self._rest(tried, lost)
                if self.is_over():
                    return None if self.stop() else {}
        raise AssertionError("the last try raises")

    def _differences(self, work: Picking, comparison: Comparison) -> dict[TableId, list[Found]] | None:
        found: dict[TableId, list[Found]] = {table: [] for table in work.buckets}

        def take(outcome: Outcome) -> None:
            found[outcome.piece[0]].append(outcome.value)

        self.tell(ROWS, 0, 0)
        spark = self.spark_factory()
        wanted = [piece for piece in self.pieces if piece.one.table.source in work.buckets]
        rows = spark.sparkContext.union(list(self._outcomes(spark, work, wanted))).flatMap(comparison.spread)
        compared = rows.groupByKey(spark.sparkContext.defaultParallelism * 4).flatMap(comparison.bucket)
        if self._run(spark, [compared], take):
            if changed := [why for table, why in self.untold.items() if table in work.buckets]:
                raise NotTold(changed[0])  # since it was summed up
            return found
        return None if self.stop() else {}

    def _outcomes(
        self, spark: SparkSession, work: Work, wanted: Sequence[VerifyPiece], together: int = 1
    ) -> Iterator[Any]:
        """Yield RDDs: one for all pieces that are read without a filter, one for each filtered table's source pieces."""
        filtered: dict[TableId, list[VerifyPiece]] = {}
        plain: list[VerifyPiece] = []
        for piece in wanted:
            is_filtered = piece.is_source and piece.one.filter is not None
            (filtered.setdefault(piece.one.table.source, []) if is_filtered else plain).append(piece)
        shared = min(together, len(plain) // (TASKS_PER_CORE * spark.sparkContext.defaultParallelism))
        yield pieces.plain(spark, work, plain, [0.99 / shared] * len(plain) if shared > 1 else ())
        for some in filtered.values():
            one = some[0].one
            assert one.filter is not None
            yield pieces.filtered(spark, work, some, where(one.schema, one.table, one.filter))

    def _run(
        self,
        spark: SparkSession,
        outcomes: list[Any],
        take: Callable[[Outcome], None],
        lost: list[tuple[VerifyPiece, AnabranchError]] | None = None,
    ) -> bool:
        """Run the outcomes; False when time is over. `lost` takes pieces whose end was lost meanwhile; that is no error."""

        def checked(outcome: Outcome) -> None:
            if outcome.failure is not None and (self.gone is None or outcome.failure.message != GONE):
                error = outcome.failure.error()
                error.table = error.table or str(outcome.piece.one.table.source)
                if isinstance(error, NotTold):
                    self.untold[outcome.piece.one.table.source] = error.message
                    return
                if lost is None or error.retry is not Retry.TIMED:
                    raise error
                lost.append((outcome.piece, error))
                return
            take(outcome)

        return pieces.run(spark, outcomes, checked, self.is_over)


def _not_compared(one: VerifyTable, untold: Mapping[TableId, str]) -> TableResult:
    """Return the result for a table of which nothing could be told, or for which there was no time."""
    why = untold.get(one.table.source, NO_TIME)
    return TableResult(str(one.table.source), str(one.table.target), 0, 0, False, is_complete=False, pending=1, why=why)


def _result(one: Undecided, sides: _Sides, limit_keys: int, is_limited: bool) -> TableResult:
    """Return a table's result. `is_limited`: what is not decided is pending, beside a job or for lack of time."""
    found, is_shared = one.found, one.one.is_shared
    sample = sorted((difference for bucket in found for difference in bucket.sample), key=_order)
    missing, extra, different = (sum(getattr(b, what) for b in found) for what in ("missing", "extra", "different"))
    is_complete = not one.left
    if is_shared:
        sample = [difference for difference in sample if difference.kind != "extra"]
    differs = bool(missing or different or (extra and not is_shared))
    pending = one.pending or int(is_limited and not is_complete and not differs)
    is_told = not sides.differing or differs or is_shared  # else what was looked at again is not what was summed up
    has_same = not sides.differing or (is_complete and not differs and (is_shared or is_limited))
    return TableResult(
        source=str(one.source),
        target=str(one.one.table.target),
        rows_source=sides.rows[0],
        rows_target=sides.rows[1],
        identical=has_same and not pending,
        missing=missing,
        extra=0 if is_shared else extra,
        different=different,
        is_complete=is_complete,
        others=extra if is_shared else 0,
        sample=tuple(sample[:limit_keys]),
        pending=pending,
        why=(one.why or LATE) if pending else "",
        digests=sides.digests if is_told else (),
    )


def _order(difference: Difference) -> list[tuple[int, str]]:
    """Sort numbers by size and texts by letter: putting short ones first does both well enough."""
    return [(len(value or ""), value or "") for value in difference.key.values()]
