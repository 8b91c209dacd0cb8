"""The driver of the initial load: chunks as tasks of the engine, progress, tables handed over as their last chunk ends.

Delivery: when `load_tables` returns True, every row of every table is at the target once, each chunk from one snapshot
whose marks are in the ledger; a load that ended otherwise resumes where it stopped.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import partial

from anabranch import log, pace, spans
from anabranch.contracts import (
    RawLoader,
    RowTarget,
    SharingReader,
    SourceConnector,
    ValueRules,
)
from anabranch.errors import (
    AnabranchError,
    Retry,
    SourceBusy,
    SourceUnavailable,
    StateError,
    TargetBusy,
    TargetUnavailable,
)
from anabranch.failpoints import reach
from anabranch.load.copy import ChunkWork, Quiet
from anabranch.load.handover import hand_over_all
from anabranch.load.plan import Knot, LoadPiece, LoadTable, PlannedLoad, pieces_of, plan
from anabranch.model.condition import Waiting
from anabranch.model.endpoint import EndLimits
from anabranch.model.ids import TableId
from anabranch.spark.engine import Engine
from anabranch.spark.where import where
from anabranch.spark.work import Bundle, Outcome

Progress = Callable[[TableId, int, int], None]
"""Table, rows at the target, rows that the source's statistics promise."""
Parked = Callable[[TableId], str]
"""Why capture has parked a table since its load was planned, "" if it has not: its changes would not be followed."""
OnWait = Callable[[str, Waiting | AnabranchError], None]

AT_ONCE, AT_ONCE_SECONDS = 64, 1.0  # tables that are handed over at once; seconds in which more of them may come
ROWS_PER_TASK = 20_000  # small tables share tasks up to here
GIVE_UP = 300.0  # seconds without a finished chunk, after which an end that is away is an error; one that is full never
FAILURES_PER_ROUND = 8  # then the other tasks need not find out by themselves
PLACED_TRIES = 3  # shared snapshots that may get lost before tables without a key are read in one piece
UNAVAILABLE = (SourceUnavailable, TargetUnavailable)


def load_tables(
    job: str,
    engine: Engine,
    source: SourceConnector,
    target: RowTarget,
    tables: Sequence[LoadTable],
    *,
    rows_per_chunk: int | None = None,
    lock: str = "none",
    rules: ValueRules | None = None,
    expected_identity: str = "",
    quiet: Quiet | None = None,
    on_progress: Progress = lambda table, rows, estimate: None,
    on_wait: OnWait = lambda why, on: None,
    stop: Callable[[], bool] = lambda: False,
    parked: Parked = lambda table: "",
    raw: bool = True,
    retry: tuple[EndLimits, EndLimits] | None = None,
    room: Callable[[], str] | None = None,
) -> bool:
    """Load what is not loaded yet; False when `stop()` ended it before that. As many chunks run at once as the engine has
    room for; it is not asked when nothing is left to do. A table that is `parked` by then is not handed over. `raw`: rows may
    go unread from one end to the other where both have them in one form.

    An end that cannot be reached at the start is an error at once, later as `retry` says, of both, and so where others are in
    the way; what a chunk raised comes up here."""
    values, wanted, tries = rules or ValueRules(), list(tables), PLACED_TRIES
    while True:
        begin = partial(
            plan,
            job,
            source,
            target,
            wanted,
            rows_per_chunk=rows_per_chunk,
            rules=values,
            expected_identity=expected_identity,
            by_place=tries > 0,
        )
        planned = begun_patiently(
            job, begin, on_wait, stop, retry or (EndLimits(lock=GIVE_UP), EndLimits(lock=GIVE_UP))
        )
        begun = {one.load.schema.id: one.load for one in planned}
        wanted = [begun.get(load.schema.id, load) for load in wanted]
        with sharing(source, expected_identity, planned) as shared:
            if shared or not any(piece.is_placed for one in planned for piece in one.pieces):
                forms = forms_of(target, values, planned) if raw else {}
                work = ChunkWork(job, source, target, values, lock, expected_identity, quiet, shared, forms, room=room)
                try:
                    return _Load(work, planned, engine, on_progress, on_wait, stop, parked, retry).run()
                except _SnapshotGone as gone:
                    log.get(job=job, table=str(gone)).warning("load_begins_anew", reason="its snapshot is gone")
        tries = tries - 1 if shared else 0


def begun_patiently(
    job: str,
    begin: Callable[[], list[PlannedLoad]],
    on_wait: OnWait,
    stop: Callable[[], bool],
    retry: tuple[EndLimits, EndLimits],
) -> list[PlannedLoad]:
    """Begin the loads, again and again while others are in the way (a deadlock, a lock that did not come).

    What was begun goes on. `retry`: the limits of source and target. Raises SourceBusy or TargetBusy once that has lasted for
    the limit of its end, or `stop()` says so.
    """
    since, pause = time.monotonic(), 0.5
    while True:
        try:
            return begin()
        except (SourceBusy, TargetBusy) as busy:
            limits = retry[isinstance(busy, TargetBusy)]
            if stop() or time.monotonic() - since > limits.lock:
                raise
            log.get(job=job).warning("load_waits_for_an_end", reason=busy.message, seconds=pause, **busy.named())
            on_wait(f"the load waits: {busy}", busy)
        time.sleep(pause)
        pause = min(pause * 2, limits.interval)


@contextmanager
def sharing(source: SourceConnector, identity: str, planned: Sequence[PlannedLoad]) -> Iterator[str]:
    """Share one snapshot among tables of several chunks, where the source can: they are of one moment, and need no
    window (K14).

    A table that is half loaded is left out: its rest is of another moment anyway.
    """
    cut = [one.load.schema for one in planned if len(one.chunks) > 1 and not one.rows and not one.load.together]
    with closing(source.snapshot(identity)) as snapshot:
        yield snapshot.share(cut) if cut and isinstance(snapshot, SharingReader) else ""


def forms_of(target: RowTarget, rules: ValueRules, planned: Sequence[PlannedLoad]) -> dict[TableId, str]:
    """Return the form in which target tables take rows without decoding, by table."""
    left = [one.load.table for one in planned if one.pieces]
    with closing(target.loader(rules)) as loader:
        return dict(loader.raw_forms(left)) if left and isinstance(loader, RawLoader) else {}


class _SnapshotGone(Exception):
    """The shared snapshot is lost: what is done of a table without a key cannot be completed any more."""


class _EndAway(Exception):
    """Many chunks found an end away: no use in trying the rest of this round."""


def _pieces(planned: PlannedLoad, form: str) -> dict[int, LoadPiece]:
    return {piece.number: replace(piece, form=form) for piece in planned.pieces}


class _Load:
    """Rounds: every round is one run of the engine over the chunks that are still open."""

    def __init__(
        self,
        work: ChunkWork,
        planned: Sequence[PlannedLoad],
        engine: Engine,
        on_progress: Progress,
        on_wait: OnWait,
        stop: Callable[[], bool],
        parked: Parked,
        retry: tuple[EndLimits, EndLimits] | None = None,
    ) -> None:
        self.work, self.engine, self.on_progress, self.stop = replace(work, forms={}), engine, on_progress, stop
        self.on_wait, self.parked = on_wait, parked
        self.store, self.loader = work.target.store(), work.target.loader(work.rules)
        self.made = work.target.tables(work.rules)
        self.tables = {one.load.schema.id: one for one in planned}
        self.rows = {table: one.rows for table, one in self.tables.items()}
        self.open = {table: _pieces(one, work.forms.get(table, "")) for table, one in self.tables.items()}
        self.unavailable: list[AnabranchError] = []
        self.away_since: float | None = None
        self.pause, self.tries, self.retry = 0.5, 0, retry
        self.done: list[TableId] = []  # and not handed over
        self.handed_over_at = 0.0

    def run(self) -> bool:
        try:
            return self.rounds()
        finally:
            self.close()

    def rounds(self) -> bool:
        for table in list(self.tables):
            self.report(table)
        self.hand_over([table for table, left in self.open.items() if not left])
        while self.open:
            self.unavailable = []
            if self.stop() or not self.round():
                return False
            if self.open:
                self.wait()
        return True

    def round(self) -> bool:
        try:
            finished = self.engine.run(self.work, self.bundles(), self.take, self.polled)
        except _EndAway:
            return True
        self.hand_over([table for table, left in self.open.items() if not left])
        return finished

    def bundles(self) -> list[Bundle]:
        """Return one bundle for all tables without a filter, one for each filtered table; large tables first, small
        ones together.
        """
        plain: list[LoadPiece | Knot] = []
        sizes: list[float] = []
        filtered: list[Bundle] = []
        knots: dict[frozenset[TableId], list[LoadPiece]] = {}
        for table, left in self.open.items():
            load = self.tables[table].load
            if load.together and load.filter is None:
                knots.setdefault(load.together, []).extend(left.values())
            elif load.filter is None:
                plain += left.values()
                sizes += [self.size(table)] * len(left)
            elif left:
                condition = where(load.schema, load.table, load.filter)
                filtered.append(Bundle(list(left.values()), where=condition))
        for together, pieces in knots.items():
            if not pieces:
                continue
            self.refuse_part(together)
            plain.append(Knot(tuple(pieces)))
            sizes.append(sum(self.size(piece.load.schema.id) for piece in pieces))
        return [Bundle(plain, sizes), *filtered]

    def refuse_part(self, together: frozenset[TableId]) -> None:
        """Raise StateError if only some of the tables that must be of one moment are loaded.

        They are committed together, so somebody else has loaded those (a release that did not know of it).
        """
        states = self.store.states.tables(self.work.job)
        here = {t: self.tables[t].chunks for t in together & self.tables.keys()}
        there = [t for t, chunks in here.items() if any(chunk.rows is not None for chunk in chunks)]
        there += [t for t in together - here.keys() if t in states and not states[t].is_parked]
        if there:
            raise StateError(
                f"{', '.join(map(str, sorted(together)))} have to be read at one moment, and"
                f" {', '.join(map(str, sorted(there)))} was read before",
                job=self.work.job,
                hint="remove the job's state (anabranch drop JOB --execute), load again",
            )

    def size(self, table: TableId) -> float:
        """Return the size of one of a table's chunks, as the part of a task that it fills: chunks of a large table have
        one each.
        """
        planned = self.tables[table]
        return planned.estimate / ROWS_PER_TASK if len(planned.chunks) == 1 else 1.0

    def take(self, outcome: Outcome) -> None:
        done: LoadPiece | Knot = outcome.piece
        if outcome.failure is not None:
            self.take_failure(outcome.failure.error(), done.load.schema.id)
        elif outcome.value == ():
            raise _SnapshotGone(str(done.load.schema.id))
        elif outcome.value is not None:
            self.away_since, self.pause, self.tries = None, 0.5, 0
            for piece, rows in zip(pieces_of(done), outcome.value, strict=True):
                table = piece.load.schema.id
                self.open[table].pop(piece.number, None)
                if log.is_detailed():
                    log.get(table=str(table)).debug(
                        "piece_copied", number=piece.number, rows=rows, left=len(self.open[table])
                    )
                spans.past("chunk", outcome.began, outcome.ended, table=str(table), chunk=piece.number, rows=rows)
                self.rows[table] += rows
                self.report(table)
                if not self.open[table]:
                    self.done.append(table)
            if len(self.done) >= AT_ONCE:
                self.hand_over(self.done)

    def polled(self) -> bool:
        """Return whether the load has to stop. Called again and again: hands tables over that are done, so that they
        need not wait for a large one.
        """
        if self.done and time.monotonic() > self.handed_over_at + AT_ONCE_SECONDS:
            self.hand_over(self.done)
        return self.stop()

    def take_failure(self, error: AnabranchError, table: TableId) -> None:
        error.job, error.table = error.job or self.work.job, error.table or str(table)
        if not isinstance(error, UNAVAILABLE):
            raise error
        self.unavailable.append(error)
        if len(self.unavailable) >= FAILURES_PER_ROUND:
            raise _EndAway

    def hand_over(self, tables: Sequence[TableId]) -> None:
        """Hand over the tables of which every chunk is done. If an end is away it is tried again behind the next round."""
        tables, self.done, self.handed_over_at = list(tables), [], time.monotonic()
        for first in range(0, len(tables), AT_ONCE):
            some = tables[first : first + AT_ONCE]
            reach("load.handover")
            try:
                loads = [self.tables[table].load for table in some]
                hand_over_all(self.store, self.made, self.loader, self.work.job, loads, self.parked)
            except UNAVAILABLE as error:
                self.unavailable.append(error)
                self.close()
                return
            reach("load.handed.over")
            for table in some:
                del self.open[table]

    def close(self) -> None:
        """Close the connections that hand tables over; they are opened again when needed."""
        self.store.close()
        self.loader.close()
        self.made.close()

    def report(self, table: TableId) -> None:
        self.on_progress(table, self.rows[table], self.tables[table].estimate)

    def wait(self) -> None:
        """Wait between two rounds: for an end that is away, or for capture to pass a keyless table's snapshot (K4)."""
        bound = log.get(job=self.work.job)
        if self.unavailable:
            error = self.unavailable[-1]
            now = time.monotonic()
            self.away_since = None if error.retry is Retry.PATIENT else self.away_since or now
            self.tries += self.away_since is not None
            if self.away_since is not None and self.is_over(error, now - self.away_since):
                raise error
            bound.warning("load_waits_for_an_end", reason=error.message, seconds=self.pause, **error.named())
            self.on_wait(f"the load waits: {error}", error)
        elif why := self.work.room() if self.work.room else "":
            bound.warning("load_waits_for_room", reason=why)
            self.on_wait(why, Waiting.ROOM)
        else:
            tables = ", ".join(str(table) for table in self.open)
            bound.warning("load_waits_for_capture", tables=tables, reason="tables without a key need capture alive")
        until = time.monotonic() + self.pause
        while time.monotonic() < until and not self.stop():
            time.sleep(0.05)
        self.pause = min(self.pause * 2, self.limits(error).interval if self.unavailable else pace.current.load_pause)

    def limits(self, error: AnabranchError) -> EndLimits:
        if self.retry is None:
            return EndLimits(interval=pace.current.load_pause, away=GIVE_UP, lock=GIVE_UP)
        return self.retry[isinstance(error, TargetUnavailable)]

    def is_over(self, error: AnabranchError, seconds: float) -> bool:
        limits = self.limits(error)
        return (
            seconds > (limits.lock if isinstance(error, (SourceBusy, TargetBusy)) else limits.away)
            or self.tries > limits.tries
        )
