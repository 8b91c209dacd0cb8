"""Rows of transactions that are open at the source, beside the segments until the log says how they end (K6).

A transaction has parts, numbered from 0: files of the same frames as a segment, header, definitions, chunks, then a KEPT
frame that says which stretch of the log it holds. A part counts when it has its name; it is never changed. Where the
transaction ended is noted in a small file of its own, before its rows enter the trail: a trail that ends behind that place
has them, and the files go. Where a transaction went back to a savepoint, parts behind it go, and the rest of the part that it
lies in is left out: that is known to this process only, whose logs give again what is open at a start.
What does not live here: prepared transactions (`staging.py`), what is kept when (capture).
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from anabranch.errors import TrailCorrupt
from anabranch.model.ids import TableId
from anabranch.model.position import LogMark
from anabranch.rows.chunk import Chunk, Part, TableRows
from anabranch.trail.codec import TableFrame
from anabranch.trail.failures import syncing, writing
from anabranch.trail.format import FrameKind, SegmentName, to_json
from anabranch.trail.headers import check_staged, staged_header
from anabranch.trail.regroup import before_ordinal, ordinals
from anabranch.trail.segment import SegmentReader, SegmentWriter
from anabranch.trail.storage import LocalStorage, Storage, read_whole

FOLDER = "staging"
WHAT = "an open transaction"
_OPEN = f"{FOLDER}/keeping"
_NAME = re.compile(r"([0-9a-f]{32})\.(\d{6})\.kept")
_DAMAGED = "restore it from a backup of the trail, or load again"
_NO_SEGMENT = SegmentName(0, 0, 0)


@dataclass(frozen=True, slots=True)
class Kept:
    """Parts of one transaction, or all of them: `rows` of the log behind `low` up to `upto` (LogMark.resume both), in
    `parts` files with so many rows each. `time`: microseconds, when the first of it was kept."""

    xid: str
    low: str
    upto: str
    time: int
    rows: tuple[int, ...]
    left_out: tuple[str, ...] = ()

    @property
    def parts(self) -> int:
        return len(self.rows)

    def and_then(self, other: Kept) -> Kept:
        """Join the part that follows."""
        left_out = tuple(sorted({*self.left_out, *other.left_out}))
        return replace(self, upto=other.upto, rows=(*self.rows, *other.rows), left_out=left_out)


class OpenStaging:
    """The open transactions of one trail that are on disk; used by its writer's process only.

    Delivery: what `keep` returned for stays until `remove`, whatever dies in between; a part is there as a whole or not."""

    def __init__(self, storage: Storage, table_frame: Callable[[TableRows], TableFrame]) -> None:
        self._storage, self._table_frame = storage, table_frame
        with suppress(FileNotFoundError):
            storage.remove(_OPEN)
        self._kept = {one.xid: one for one in kept(storage)}
        self._firsts: dict[str, dict[int, int]] = {}  # the first ordinal of each part that this process has kept
        self._ends: dict[str, dict[int, int]] = {}  # and where one ends of which the rest was taken back
        self.ended = _ended(storage)  # xid -> LogMark.resume, where it ended
        for xid in self.ended.keys() - self._kept.keys():  # its removal was cut short: the id may be used again
            storage.remove(_end_file(xid))
            del self.ended[xid]

    def __contains__(self, xid: str) -> bool:
        return xid in self._kept

    def __getitem__(self, xid: str) -> Kept:
        return self._kept[xid]

    def all(self) -> list[Kept]:
        return list(self._kept.values())

    def lacking(self, table: TableId) -> list[str]:
        """List transactions that have rows of `table` which were left out."""
        return [one.xid for one in self._kept.values() if str(table) in one.left_out]

    def keep(
        self,
        xid: str,
        chunks: Sequence[Chunk],
        low: LogMark,
        upto: LogMark,
        time: int,
        left_out: Iterable[TableId] = (),
    ) -> None:
        """Write the next part of a transaction; durable on return. After StorageFull nothing of the part counts."""
        rows = sum(chunk.row_count for chunk in chunks)
        first = min((found[0] for chunk in chunks if (found := ordinals(chunk))), default=0)
        part = Kept(xid, low.resume, upto.resume, time, (rows,), tuple(sorted(map(str, left_out))))
        before = self._kept.get(xid)
        name = _file(xid, before.parts if before else 0)
        with writing(WHAT):
            self._storage.make_folder(FOLDER)
            with suppress(FileNotFoundError):
                self._storage.remove(_OPEN)
            segment = SegmentWriter(self._storage, _OPEN, _NO_SEGMENT, staged_header(self._storage))
            try:
                for number, chunk in enumerate(chunks):
                    whole = replace(chunk, part=Part.FRAGMENT, first_sequence=0)
                    segment.chunk(whole, number, self._table_frame)
                segment.note(FrameKind.KEPT, asdict(part))
                with syncing(WHAT):
                    segment.sync()
            finally:
                segment.close()
            self._storage.rename(_OPEN, name)
        self._kept[xid] = before.and_then(part) if before else part
        self._firsts.setdefault(xid, {})[before.parts if before else 0] = first

    def take_back(self, xid: str, first: int) -> None:
        """Discard what this process kept from ordinal `first` on: the transaction rolled back to a savepoint."""
        found, firsts = self._kept[xid], self._firsts[xid]
        parts = found.parts
        while parts and firsts[parts - 1] >= first:
            parts -= 1
            with writing(WHAT):
                self._storage.remove(_file(xid, parts))
            del firsts[parts]
            self._ends.get(xid, {}).pop(parts, None)
        if parts:
            self._kept[xid] = replace(found, rows=found.rows[:parts])
            self._ends.setdefault(xid, {})[parts - 1] = min(first, self._ends.get(xid, {}).get(parts - 1, first))
        else:
            del self._kept[xid]

    def chunks(self, xid: str) -> Iterator[Chunk]:
        """Yield a transaction's rows, a fragment at a time, part after part. Raises TrailCorrupt."""
        ends = self._ends.get(xid, {})
        for number, rows in enumerate(self._kept[xid].rows):
            found = 0
            for chunk in _part_chunks(self._storage, _file(xid, number)):
                found += chunk.row_count
                yield before_ordinal(chunk, ends[number]) if number in ends else chunk
            if found != rows:
                raise _lacks(_file(xid, number), xid, found, rows)

    def end(self, xid: str, mark: LogMark) -> None:
        """Note that a transaction ended at `mark`: once the trail is behind that place, its files may go. Durable on return."""
        with writing(WHAT):
            self._storage.replace(_end_file(xid), to_json({"xid": xid, "ended": mark.resume}))
        self.ended[xid] = mark.resume

    def remove(self, xid: str) -> None:
        """Remove a transaction that was rolled back, or that is durable in the trail.

        The last part is removed first, so that after a crash what is left is a beginning of it.
        """
        with writing(WHAT):
            for file in [*(_file(xid, n) for n in reversed(range(self._kept[xid].parts))), _end_file(xid)]:
                with suppress(FileNotFoundError):  # of a removal that was cut short
                    self._storage.remove(file)
        del self._kept[xid]
        self._firsts.pop(xid, None)
        self._ends.pop(xid, None)
        self.ended.pop(xid, None)


def kept(place: Storage | Path) -> list[Kept]:
    """Return the open transactions on disk, the oldest first. Raises TrailCorrupt where a part is damaged or missing."""
    storage = LocalStorage(place) if isinstance(place, Path) else place
    found: dict[str, Kept] = {}
    for name in sorted(filter(_NAME.fullmatch, storage.names(FOLDER))):
        with suppress(FileNotFoundError):  # ended meanwhile
            part = _read(storage, f"{FOLDER}/{name}")
            before = found.get(part.xid)
            if name != _file(part.xid, before.parts if before else 0).removeprefix(f"{FOLDER}/"):
                raise TrailCorrupt(f"a part of the open transaction {part.xid} before {name} is missing", hint=_DAMAGED)
            found[part.xid] = before.and_then(part) if before else part
    return sorted(found.values(), key=lambda one: (one.time, one.xid))


def problems(storage: Storage) -> list[str]:
    """Check the files, every checksum and every count, and return what is wrong."""
    try:
        every = kept(storage)
    except TrailCorrupt as error:
        return [error.message]
    found = []
    for one in every:
        for number, rows in enumerate(one.rows):
            try:
                there = sum(chunk.row_count for chunk in _part_chunks(storage, _file(one.xid, number)))
                if there != rows:
                    raise _lacks(_file(one.xid, number), one.xid, there, rows)
            except FileNotFoundError:  # ended meanwhile
                break
            except TrailCorrupt as error:
                found.append(error.message)
    return found


def _part_chunks(storage: Storage, name: str) -> Iterator[Chunk]:
    segment = SegmentReader(storage, name)
    try:
        check_staged(storage, segment)
        for offset, frame, _ in segment.frames(0, segment.size()):
            if frame.kind == FrameKind.CHUNK:
                yield segment.chunk(offset)
    finally:
        segment.close()


def _read(storage: Storage, name: str) -> Kept:
    segment = SegmentReader(storage, name)
    try:
        check_staged(storage, segment)
        for _, frame, head in segment.frames(0, segment.size()):
            if frame.kind == FrameKind.KEPT:
                facts = json.loads(head)
                return Kept(**{**facts, "rows": tuple(facts["rows"]), "left_out": tuple(facts["left_out"])})
    finally:
        segment.close()
    raise TrailCorrupt(f"{storage.path(name)} is damaged: its last frame is missing", hint=_DAMAGED)


def _ended(storage: Storage) -> dict[str, str]:
    names = [f"{FOLDER}/{name}" for name in storage.names(FOLDER) if name.endswith(".ended")]
    facts = [json.loads(read_whole(storage, name)) for name in names]
    return {one["xid"]: one["ended"] for one in facts}


def _lacks(file: str, xid: str, found: int, rows: int) -> TrailCorrupt:
    return TrailCorrupt(f"{file} has {found} rows of the open transaction {xid}, not {rows}", hint=_DAMAGED)


def _file(xid: str, number: int) -> str:
    return f"{FOLDER}/{_digest(xid)}.{number:06}.kept"


def _end_file(xid: str) -> str:
    return f"{FOLDER}/{_digest(xid)}.ended"


def _digest(xid: str) -> str:
    """Return a name of bounded length for any id."""
    return hashlib.sha256(xid.encode()).hexdigest()[:32]
