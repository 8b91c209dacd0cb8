"""Copying inside a Spark task, one chunk or tables that belong together: open a snapshot, note its marks, pass the
lines on.

A chunk may be done again at any time: its rows and its ledger row commit together, and a loader leaves a chunk alone
that is done. What does not live here: which chunks there are (plan.py), what happens after a failure (run.py).
"""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial

from anabranch import log
from anabranch.contracts import (
    LabelTables,
    Loader,
    RawLoader,
    RawReader,
    RecordedReader,
    RowTarget,
    SharingReader,
    SnapshotReader,
    SourceConnector,
    ValueRules,
    WaryReader,
)
from anabranch.errors import RowRefused, SourceError
from anabranch.failpoints import reach
from anabranch.load.asides import PieceAsides
from anabranch.load.plan import Knot, LoadPiece, pieces_of
from anabranch.model.ids import TableId
from anabranch.model.position import LogMark
from anabranch.rows.left_out import apart
from anabranch.spark.where import read_columns

Quiet = Callable[[frozenset[TableId], LogMark, LogMark], bool | None]
"""Does the trail hold no transaction on the tables that `high` includes and `low` does not? None: capture is not there
yet. Picklable: it is asked in the task, while the snapshot stays open."""

TRIES = 10  # openings of a keyless table's snapshot
PATIENCE = 15.0  # seconds that an open snapshot waits for capture; then the chunk is put back
POLL = 0.1
WAITING, GONE = "waiting", "gone"
TOGETHER_HINT = '[load] lock = "global" holds writes back at the moment of opening'
LOCK_HINT = '[load] lock = "table" locks the table for reading at the moment of opening'


@dataclass(frozen=True)
class Ends:
    """A connection to each end, which the pieces of a task share: to open two takes longer than to load a small table. Each
    opens on first use, and again after it was closed."""

    snapshot: SnapshotReader
    loader: Loader


@dataclass(frozen=True)
class ChunkWork:
    """Work over pieces (spark/pieces.py). The outcome is the rows of each table, None for a chunk that waits for capture, ()
    for one that cannot be had any more: the snapshot that its table is read in is gone."""

    job: str
    source: SourceConnector
    target: RowTarget
    rules: ValueRules
    lock: str = "none"
    expected_identity: str = ""
    quiet: Quiet | None = None
    shared: str = ""  # a snapshot for all pieces (SharingReader), "" where each has its own
    forms: Mapping[TableId, str] = field(default_factory=dict)  # as LoadPiece.form, for pieces that do not have it
    kept: Ends | None = None  # in a task of several pieces
    room: Callable[[], str] | None = None  # why no further piece may begin now, "" where it may; picklable
    is_again: bool = False  # read for a second time, for labels that the target lacked

    @contextmanager
    def lasting(self) -> Iterator[ChunkWork]:
        with closing(self._snapshot()) as snapshot, closing(self._loader()) as loader:
            yield replace(self, kept=Ends(snapshot, loader))

    @contextmanager
    def read(self, piece: LoadPiece | Knot) -> Iterator[tuple[bytes, Iterator[bytes]]]:
        """Yield a piece's header and its lines. The connection stays open for the next piece if all rows of this one
        were read.
        """
        if self.room is not None and self.room():
            yield json.dumps(WAITING).encode(), iter(())
            return
        snapshot, is_over = self._snapshot(), False

        def whole(blocks: Generator[bytes, None, int | None]) -> Generator[bytes, None, int | None]:
            nonlocal is_over
            told = yield from blocks
            is_over = True
            return told

        try:
            marks = self.marks(snapshot, piece)
            reach("load.snapshot")
            if marks is None:
                yield json.dumps(GONE if _is_placed(piece) else WAITING).encode(), iter(())
            else:
                form = self.form(snapshot, piece)
                yield json.dumps([*marks, form]).encode(), whole(self.blocks(snapshot, pieces_of(piece), form))
        except BaseException:  # whatever it was: the connection is not used again, and it goes on
            is_over = False
            raise
        finally:
            if self.kept is None or not is_over:
                snapshot.close()

    def _snapshot(self) -> SnapshotReader:
        return self.kept.snapshot if self.kept else self.source.snapshot(self.expected_identity)

    def _loader(self) -> Loader:
        return self.kept.loader if self.kept else self.target.loader(self.rules)

    def form(self, snapshot: SnapshotReader, piece: LoadPiece | Knot) -> str:
        """Return the form in which both ends have the piece's rows, "" for lines."""
        load = piece.load
        if isinstance(piece, Knot) or load.filter is not None:
            return ""
        wanted = piece.form or self.forms.get(load.schema.id, "")
        if not wanted or not isinstance(snapshot, RawReader):
            return ""
        return wanted if snapshot.raw_form(load.schema, load.table.source_columns) == wanted else ""

    def blocks(
        self, snapshot: SnapshotReader, pieces: Sequence[LoadPiece], form: str = ""
    ) -> Generator[bytes, None, int | None]:
        """Yield the lines of pieces, an empty block between two. Returns the source's own count of rows, where it gives one."""
        for number, piece in enumerate(pieces):
            if number:
                yield b""
            schema, columns = piece.load.schema, read_columns(piece.load.table, piece.load.filter)
            if isinstance(snapshot, WaryReader):
                snapshot.refuse_loose_ends(schema, columns, piece.bounds, self.rules)
            if form and isinstance(snapshot, RawReader):
                return (yield from snapshot.raw(schema, columns, piece.bounds))  # of one piece: no empty block in it
            yield from filter(None, snapshot.lines(schema, columns, piece.bounds, self._rules_of(piece)))
        return None

    def _rules_of(self, piece: LoadPiece) -> ValueRules:
        """Return the rules for values: rows are left out, instead of refused, only where they can be set aside."""
        return replace(self.rules, carries=self.rules.carries and bool(piece.load.may_lack))

    def finish(self, piece: LoadPiece | Knot, header: bytes, blocks: Iterator[bytes]) -> tuple[int, ...] | None:
        if (told := json.loads(header)) == WAITING:
            return None
        if told == GONE:
            return ()
        low, high, form = told
        try:
            return self._finish(piece, (low, high), form, blocks)
        except RowRefused as refusal:
            if not form and not self._may_be_taken_now(piece, refusal):
                raise
            bound = log.get(job=self.job, table=str(piece.load.schema.id))
            bound.warning("chunk_read_again", reason=refusal.message)
        lines = replace(self, forms={}, kept=None, is_again=not form)  # they tell which row it is, or are taken
        unread = piece if isinstance(piece, Knot) else replace(piece, form="")
        with lines.read(unread) as (header, blocks):
            return lines.finish(unread, header, blocks)

    def _may_be_taken_now(self, piece: LoadPiece | Knot, refusal: RowRefused) -> bool:
        """Add labels that the source's types got since the load began. Returns whether the target may take the rows
        now: once also where nothing lacks, since another chunk may have had the same label. Else the refusal says what
        cannot be added, and what to do.

        The source is asked for what the tables need now, because no log tells.
        """
        tables = {one.load.schema.id: one.load.table for one in pieces_of(piece) if one.load.schema.needs}
        if not tables:
            return False
        with closing(self.target.tables(self.rules)) as target, closing(self.source.catalog()) as catalog:
            if not isinstance(target, LabelTables):
                return False
            found = [(schema, tables[name]) for name, schema in catalog.tables(lambda one: one in tables).items()]
            if target.add_labels(found) or not self.is_again:
                return True
            if why := target.why_not_added(refusal.message, found):
                refusal.message, refusal.hint = "; ".join((refusal.message, *why)), ""
            return False

    def _finish(
        self, piece: LoadPiece | Knot, marks: tuple[str, str], form: str, blocks: Iterator[bytes]
    ) -> tuple[int, ...]:
        loader, is_done = self._loader(), False
        try:
            with loader.together() if isinstance(piece, Knot) else nullcontext():
                rows = tuple(self._load(loader, one, marks, form, blocks) for one in pieces_of(piece))
            reach("load.committed")
            is_done = True
            return rows
        finally:
            if self.kept is None or not is_done:
                loader.close()

    def _load(
        self, loader: Loader, piece: LoadPiece, marks: tuple[str, str], form: str, blocks: Iterator[bytes]
    ) -> int:
        load, (low, high) = piece.load, marks
        if form and isinstance(loader, RawLoader):
            return loader.load_raw(self.job, load.table, load.generation, piece.number, marks, form, blocks)
        aside = PieceAsides(load, piece.number)
        its = apart(iter(partial(next, blocks, b""), b""), aside.take)  # up to an empty one
        rows = loader.load_chunk(self.job, load.table, load.generation, piece.number, (low, high), its, aside.changes)
        if load.together:  # of a chunk that is done nothing was taken, and another table's rows come behind
            deque(its, maxlen=0)
        return rows

    def marks(self, snapshot: SnapshotReader, piece: LoadPiece | Knot) -> tuple[str, str] | None:
        """Open the snapshot. A keyless table has no idempotent window: its marks are one, proven by capture where the
        source cannot say it (K4). None: capture has not come far enough yet, or the piece is none in another snapshot."""
        load = piece.load
        # A lock on one of several tables proves nothing of the others.
        lock = "none" if isinstance(piece, Knot) and self.lock == "table" else self.lock
        if self.shared and isinstance(piece, LoadPiece) and isinstance(snapshot, SharingReader):
            mark = snapshot.open_shared(load.schema, self.shared)
            if mark is not None:
                return mark.resume, mark.resume
        if _is_placed(piece):
            return None
        changing = frozenset().union(*(p.load.changed_with | {p.load.schema.id} for p in pieces_of(piece)))
        for _ in range(TRIES):
            low, high = _opened(snapshot, pieces_of(piece), lock)
            if low == high or (load.table.key and not load.exact):
                return low.resume, high.resume
            if self.quiet is None:
                break
            verdict = self._ask(self.quiet, changing, low, high)
            if verdict is None:
                return None
            if verdict:  # nothing touched the table in between: its rows are those of `high`, a place in the log
                return high.resume, high.resume
        raise SourceError(
            "the table has to be loaded as of one moment, and none was found at which nothing changed it",
            table=str(load.schema.id),
            hint=TOGETHER_HINT if isinstance(piece, Knot) else LOCK_HINT,
        )

    def _ask(self, quiet: Quiet, tables: frozenset[TableId], low: LogMark, high: LogMark) -> bool | None:
        until = time.monotonic() + PATIENCE
        verdict = quiet(tables, low, high)
        while verdict is None and time.monotonic() < until:
            time.sleep(POLL)
            verdict = quiet(tables, low, high)
        return verdict


def _opened(snapshot: SnapshotReader, pieces: Sequence[LoadPiece], lock: str) -> tuple[LogMark, LogMark]:
    """Open a snapshot for pieces, or find the one in which they were read before. Raises SourceError where there is no such
    one for all of them."""
    if not isinstance(snapshot, RecordedReader):
        return snapshot.open(pieces[0].load.schema, lock)
    found = [snapshot.open_piece(piece.load.schema, piece.bounds) for piece in pieces]
    if any(one != found[0] for one in found):
        names = ", ".join(str(piece.load.schema.id) for piece in pieces)
        hint = "load them again together where they are read: anabranch load JOB --table T --with-children"
        raise SourceError(f"{names} have to be of one moment, and were read at several", hint=hint)
    return found[0]


def _is_placed(piece: LoadPiece | Knot) -> bool:
    return isinstance(piece, LoadPiece) and piece.is_placed
