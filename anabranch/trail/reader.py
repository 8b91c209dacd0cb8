"""Reading the trail: many readers at once, in any process, also while it is written. Nothing is ever written here.

A reader goes by the published end and by sequences. `ChunkRef` (chunk_refs.py) says where a chunk is; it stays good when its
segment is packed, because it can be found again by sequence. Open files stay open while they are in use: a segment that was
removed is freed by the system when its last reader lets go.
"""

from __future__ import annotations

import json
import time
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar
from zlib import crc32

from anabranch.errors import TrailCorrupt, TrailError
from anabranch.model.position import Position
from anabranch.rows.chunk import Chunk, Part
from anabranch.trail import identity as identities
from anabranch.trail import published
from anabranch.trail.chunk_refs import ChunkRef, ref_at
from anabranch.trail.format import FrameKind, SegmentName, ends_before, segment_names
from anabranch.trail.headers import check_segment
from anabranch.trail.history import FILE as HISTORY
from anabranch.trail.history import HistoryPlace, SchemaHistory, parse, read
from anabranch.trail.identity import Identity
from anabranch.trail.published import Record, TrailEnd
from anabranch.trail.recovery import end_at
from anabranch.trail.retention import refuse_before_start
from anabranch.trail.segment import SegmentReader
from anabranch.trail.storage import LocalStorage, Storage

if TYPE_CHECKING:
    import pyarrow as pa

    from anabranch.trail.check import CheckReport

__all__ = ["SegmentFacts", "TrailEnd", "TrailReader", "exists", "has_begun"]

OPEN_SEGMENTS = 8
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class SegmentFacts:
    """A line of `trail ls`. `first`..`last` are the sequences with something in it; `state` is open, sealed, packed or
    ended (its writer died, or its disk was full)."""

    name: str
    state: str
    bytes: int
    first: int
    last: int
    chunks: int
    rows: int
    created: float
    key: str = ""  # id of the key that wraps its data key; "" where it is not encrypted


def exists(directory: str | Path) -> bool:
    """Return whether a trail was begun in the directory."""
    return identities.load(LocalStorage(directory)) is not None


def has_begun(directory: str | Path) -> bool:
    """Return whether there is a trail that says from where its source's log is read on."""
    if not exists(directory):
        return False
    with TrailReader(directory) as trail:
        return bool(trail.end().resume)


class TrailReader:
    """A reader of a trail. Not for several threads; make one each.

    Delivery: every published transaction, once, in order of its sequence; damage and gaps raise TrailCorrupt.
    """

    def __init__(self, directory: str | Path, *, name: str = "reader", storage: Storage | None = None) -> None:
        """Open the trail. Raises TrailError when there is none, or one of a newer format."""
        self.directory, self.name = Path(directory), name
        self._storage = storage or LocalStorage(directory)
        if identities.load(self._storage) is None:
            raise TrailError(f"there is no trail in {directory}", hint="start capture first")
        self._cell = published.opened(self._storage)
        self._end: TrailEnd | None = None
        self._newest = Record()
        self._history, self._history_length, self._history_sum = SchemaHistory(), 0, 0  # and the checksum of its lines
        self._names: list[SegmentName] = []
        self._open: OrderedDict[str, SegmentReader] = OrderedDict()
        self._last_packed: tuple[str, int, Chunk] | None = None

    @property
    def identity(self) -> Identity:
        found = identities.load(self._storage)
        assert found is not None
        return found

    # --- where the trail ends ---------------------------------------------------------------------------------------

    def end(self) -> TrailEnd:
        """Return the published end; a read of 256 bytes when nothing has changed."""
        return self._end_of(self._record())

    def wait(self, after: int | TrailEnd, timeout: float, pause: float = 0.0) -> TrailEnd:
        """Wait for a transaction behind sequence `after` (or, for a TrailEnd, any later publication) and return the
        end.

        Returns after `timeout` seconds at the latest. `pause`: seconds between looks; 0: short, then longer.
        """
        begin = time.monotonic()
        while True:
            record = self._record()
            is_past = record.sequence > after if isinstance(after, int) else record.version > after.version
            waited = time.monotonic() - begin
            if is_past or waited >= timeout:
                return self._end_of(record)
            time.sleep(min(pause or (0.001 if waited < 0.1 else 0.004), timeout - waited))

    def first(self) -> int:
        """Return the first sequence that is still held (or will be)."""
        names = self._refresh()
        return names[0].first_whole if names else self._record().sequence + 1

    def starts(self) -> list[int]:
        """Return for each segment, in order, the first sequence that can be read from it on; several may have the same."""
        return [name.first_whole for name in self._refresh()]

    def begun(self) -> str:
        """Return the `resume` of the place in the source's log behind which the trail has every transaction; "" where that is
        not known any more: it is in the middle of a transaction, or nothing is published."""
        record = self._record()
        names = self._refresh()
        if not names or names[0].first_whole != names[0].next:
            return ""
        return self._again(lambda: self._place_before(names[0], record, "resume"))

    @property
    def history(self) -> SchemaHistory:
        """Definitions and parked tables as published. When the file has grown its new lines are added to what is known; one
        that is not the former file with more lines is read from its beginning."""
        length, known = self._record().history, self._history_length
        if length != known:
            place = HistoryPlace(self._storage.path(HISTORY), self.identity.job_uuid, self._storage)
            data, history = read(self._storage)[:length], self._history.copy()
            if crc32(memoryview(data)[:known]) != self._history_sum:
                known, history = 0, SchemaHistory()
            self._history_length = parse(data, length, history, place, known)
            self._history, self._history_sum = history, crc32(data)
        return self._history

    # --- finding chunks ---------------------------------------------------------------------------------------------

    def descriptors(self, after: int, upto: int | None = None, limit_rows: int | None = None) -> list[ChunkRef]:
        """Return the chunks with transactions behind `after` up to `upto` (default: all that is published), in order; with
        `limit_rows` so many that they reach it, at least one, each counted by its `cost`. A large transaction comes with all
        its fragments or not at all. TrailError when `after` lies before the trail's start."""
        record = self._record()
        upto = record.sequence if upto is None else min(upto, record.sequence)
        return self._again(lambda: self._collect(record, after, upto, limit_rows))

    def load(self, ref: ChunkRef) -> Chunk:
        """Load a chunk without what lies outside the ref's window.

        Raises TrailCorrupt when checksum, counts or sequences are not what the ref says, TrailError when it was
        dropped.
        """
        try:
            with self._missing_is_moved(ref.segment):
                chunk = self._segment(ref.segment).chunk(ref.offset)
        except _Moved:
            chunk = self._again(lambda: self._find_moved(ref))
        found = chunk.first_sequence, chunk.last_sequence, chunk.row_count, chunk.part
        if found != (ref.first_sequence, ref.last_sequence, ref.rows, ref.part):
            raise TrailCorrupt(
                f"segment {ref.segment}, offset {ref.offset}: sequences or counts are not the announced ones"
            )
        return _window(chunk, ref.after, ref.upto)

    def transactions(self, ref: ChunkRef) -> pa.RecordBatch:
        """Return the chunk's transactions without their rows, whatever the ref's window (rows/chunk_schema.py,
        TRANSACTION_SCHEMA).
        """
        try:
            with self._missing_is_moved(ref.segment):
                return self._segment(ref.segment).transactions(ref.offset)
        except _Moved:
            return self._again(lambda: self._find_moved(ref)).transactions

    def position_at(self, sequence: int) -> Position:
        """Return the position just after a transaction that the trail holds, or just before its first one."""
        record = self._record()
        return self._again(lambda: Position(sequence, self._native_at(record, sequence)))

    # --- for people -------------------------------------------------------------------------------------------------

    def segments(self) -> list[SegmentFacts]:
        """Return the segments as `trail ls` shows them."""
        record = self._record()
        return self._again(lambda: [f for name in self._refresh() if (f := self._facts(record, name))])

    def check(self) -> CheckReport:
        """Read everything and compare every checksum, count and sequence; problems are listed, not raised."""
        from anabranch.trail.check import check

        record = self._record()
        return self._again(lambda: check(self._storage, record, self._refresh(), self.identity))

    def close(self) -> None:
        self._cell.close()
        self._last_packed = None
        self._close_segments()

    def __enter__(self) -> TrailReader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- inside -----------------------------------------------------------------------------------------------------

    def _record(self) -> Record:
        """Return the published end, which never goes back for a reader."""
        told = self._told()
        if told > self._newest:
            if told.writer != self._newest.writer:  # files that we have open may be a former writer's alone by now
                self._close_segments()
            self._newest = told
        return self._newest

    def _told(self) -> Record:
        record = published.read_whole(self._cell, self._storage.path(published.FILE))
        if not record.version and segment_names(self._storage.names()):  # a writer publishes before it makes a segment
            record = published.read_whole(self._cell, self._storage.path(published.FILE))
            if not record.version:
                raise published.damage(self._storage.path(published.FILE), "it says nothing, and there are segments")
        return record

    def _close_segments(self) -> None:
        while self._open:
            self._open.popitem()[1].close()

    def _end_of(self, record: Record) -> TrailEnd:
        if self._end is None or self._end.version != record.version:
            if record.number:
                self._end = self._again(lambda: end_at(self._segment(str(record.segment)), record))
            else:
                self._end = TrailEnd(Position(0), "", 0, record.version)
        return self._end

    def _refresh(self) -> list[SegmentName]:
        self._names = segment_names(self._storage.names())
        return self._names

    def _segment(self, name: str) -> SegmentReader:
        if name not in self._open:
            self._open[name] = self._opened(name)
            if len(self._open) > OPEN_SEGMENTS:
                self._open.popitem(last=False)[1].close()
        self._open.move_to_end(name)
        return self._open[name]

    def _opened(self, name: str) -> SegmentReader:
        segment = SegmentReader(self._storage, name)
        try:
            if parsed := SegmentName.parse(name):
                check_segment(self._storage, segment, parsed)
        except BaseException:  # whatever it was: let go, and passed on
            segment.close()
            raise
        return segment

    def _again(self, look: Callable[[], T]) -> T:
        """Repeat a look whose files were replaced between listing and opening."""
        for _ in range(5):
            try:
                return look()
            except FileNotFoundError:
                self._close_segments()
                self._refresh()
        return look()

    @contextmanager
    def _missing_is_moved(self, name: str) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError:
            if stale := self._open.pop(name, None):
                stale.close()
            raise _Moved from None

    def _indexed(self, record: Record, name: SegmentName) -> SegmentReader:
        """Return the segment with its index as far as it is published."""
        segment = self._segment(str(name))
        if name.number == record.number:
            segment.index.grow(record.end)
        else:
            segment.index.complete(ends_before(self._names, name))
        return segment

    def _from(self, record: Record, sequence: int) -> list[SegmentName]:
        """Return the published segments from the one on in which `sequence` begins."""
        last = self._names[-1] if self._names else None
        if last is None or last.number < record.number or (last.number == record.number and last != record.segment):
            self._refresh()
        names = [name for name in self._names if name.number <= record.number]
        at = max(0, bisect_right(names, sequence, key=lambda name: name.next) - 1)
        while at and names[at].fragments and names[at].next == sequence:
            at -= 1
        return names[at:]

    def _collect(self, record: Record, after: int, upto: int, limit_rows: int | None) -> list[ChunkRef]:
        names = self._from(record, after + 1)
        if names:
            refuse_before_start(self.name, after, self._names[0].first_whole)
        found: list[ChunkRef] = []
        rows = 0
        for transactions in self._units(record, names, after, upto):
            self._refuse_gap(found[-1].last_sequence if found else None, after, transactions)
            found += transactions
            rows += sum(ref.cost for ref in transactions)
            if limit_rows is not None and rows >= limit_rows:
                return found
        if (found[-1].last_sequence if found else after) < upto:
            raise TrailCorrupt(f"transactions up to {upto} were published and are not there", hint="restore the trail")
        return found

    def _units(self, record: Record, names: list[SegmentName], after: int, upto: int) -> Iterator[list[ChunkRef]]:
        """Yield whole chunks alone, and fragments together with their last one."""
        pieces: list[ChunkRef] = []
        for name in names:
            segment = self._indexed(record, name)
            for offset in segment.index.offsets[segment.index.after(after) :]:
                ref = ref_at(segment, offset, after, upto)
                if ref.first_sequence > upto:
                    return
                if not ref.fragment:
                    pieces = []
                pieces.append(ref)
                if ref.part is Part.FRAGMENT:
                    continue
                if ref.part is Part.LAST and ref.fragment != len(pieces) - 1:
                    raise segment.damage(offset, f"{len(pieces) - 1} of {ref.fragment} fragments found before the last")
                yield pieces
                pieces = []

    def _refuse_gap(self, last: int | None, after: int, unit: list[ChunkRef]) -> None:
        ref, former = unit[0], after if last is None else last
        if ref.first_sequence > former + 1 or (last is not None and ref.first_sequence <= last):
            raise TrailCorrupt(
                f"segment {ref.segment}, offset {ref.offset}: sequence {ref.first_sequence} follows {former}",
                hint="restore the segment from a backup, or load again",
            )

    def _find_moved(self, ref: ChunkRef) -> Chunk:
        """Return the chunk's transactions in the packed segment that took the place of its own."""
        number = (SegmentName.parse(ref.segment) or SegmentName(0, 0, 0)).number
        name = next((n for n in self._refresh() if n.number == number), None)
        if name is None:
            raise TrailError(f"segment {ref.segment} was dropped", hint="register readers before they read")
        segment = self._segment(str(name))
        segment.index.complete(ends_before(self._names, name))
        chunks = []
        for offset in segment.index.offsets[segment.index.after(ref.first_sequence - 1) :]:
            frame, _ = segment.frame(offset)
            if frame.first > ref.last_sequence:
                break
            if frame.part is ref.part and frame.fragment == ref.fragment:
                chunks.append(_window(self._packed(segment, offset), ref.first_sequence - 1, ref.last_sequence))
        if not chunks:
            raise TrailCorrupt(f"segment {name}: transactions {ref.first_sequence} to {ref.last_sequence} are missing")
        return replace(_joined(chunks), part=ref.part)

    def _packed(self, segment: SegmentReader, offset: int) -> Chunk:
        """Load a packed chunk, kept in memory: hundreds of former chunks may be one now, read one after another."""
        if self._last_packed is None or self._last_packed[:2] != (segment.file, offset):
            self._last_packed = segment.file, offset, segment.chunk(offset)
        return self._last_packed[2]

    def _native_at(self, record: Record, sequence: int) -> str:
        names = self._from(record, sequence)
        for name in names:
            segment = self._indexed(record, name)
            at = segment.index.after(sequence - 1)
            for offset in segment.index.offsets[at:]:
                frame, _ = segment.frame(offset)
                if frame.first > sequence:
                    break
                if frame.part is not Part.FRAGMENT:
                    transactions = segment.transactions(offset)
                    return str(transactions.column(0)[sequence - frame.first].as_py())
        if names and sequence == self._names[0].next - 1:
            return self._place_before(names[0], record, "native")
        raise TrailError(
            f"sequence {sequence} is not in the trail, which has {self.first()} to {record.sequence}",
            hint="ask for a position inside it",
        )

    def _place_before(self, name: SegmentName, record: Record, fact: str) -> str:
        """Find where the trail's first segment begins, its `native` or `resume`; a new trail starts at its first heartbeat."""
        segment = self._segment(str(name))
        known = str(segment.header()[fact])
        limit = record.end if name.number == record.number else segment.size()
        for _, frame, head in segment.frames(0, limit):
            if known or frame.kind == FrameKind.CHUNK:
                break
            if frame.kind == FrameKind.HEARTBEAT:
                known = str(json.loads(head)[fact])
        return known

    def _facts(self, record: Record, name: SegmentName) -> SegmentFacts | None:
        """Return a segment's facts. None for a file of which nothing is published yet and whose header is not complete."""
        try:
            segment = self._segment(str(name))
        except TrailCorrupt:
            if name.number > record.number:
                return None
            raise
        if name.number <= record.number:
            self._indexed(record, name)
        index = segment.index
        state = "packed" if name.packed else "sealed" if index.is_sealed else "ended"
        if name.number >= record.number:
            state = "open"
        last = index.lasts[-1] if index.lasts else name.next - 1
        created, seal = float(segment.header()["created"]), segment.seal()
        counts = segment.size(), name.next, last, len(index.offsets), index.rows
        return SegmentFacts(str(name), state, *counts, created, seal.key if seal else "")


class _Moved(Exception):
    """The file of a ref is gone."""


def _window(chunk: Chunk, after: int, upto: int) -> Chunk:
    from anabranch.trail.regroup import rows_after, rows_until  # with numpy, which only who loads chunks needs

    return rows_until(rows_after(chunk, after), upto)


def _joined(chunks: list[Chunk]) -> Chunk:
    from anabranch.trail.regroup import join

    return join(chunks)


def chunks(reader: TrailReader, after: int, upto: int | None = None) -> Iterator[Chunk]:
    """Load one chunk after the other."""
    for ref in reader.descriptors(after, upto):
        yield reader.load(ref)
