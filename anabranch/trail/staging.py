"""Transactions that are prepared and undecided: their rows wait here, beside the segments, until the log says (K6).

A file per transaction, of the same frames as a segment: header, definitions, chunks; then a PREPARED frame that makes it
count, and a DECIDED frame with the place in the log where it ended. The trail's position passes a prepare only when its file
is durable. A trail that ends at such a place has what was decided there: the file goes when the trail is opened, if it was
not removed before. A file without PREPARED is nobody's.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from anabranch.errors import TrailCorrupt
from anabranch.failpoints import reach
from anabranch.model.ids import TableId
from anabranch.model.position import LogMark
from anabranch.rows.chunk import Chunk, Part, TableRows
from anabranch.trail.failures import syncing, writing
from anabranch.trail.format import FrameKind, SegmentName, encode_prefix, to_json
from anabranch.trail.headers import check_staged, staged_header
from anabranch.trail.segment import SegmentReader, SegmentWriter
from anabranch.trail.storage import Data, LocalStorage, Storage

if TYPE_CHECKING:
    from anabranch.trail.codec import TableFrame

FOLDER = "staging"
_OPEN = f"{FOLDER}/open"
_SUFFIX = ".staged"
_DAMAGED = "restore it from a backup of the trail, or load again"
_NO_SEGMENT = SegmentName(0, 0, 0)


@dataclass(frozen=True, slots=True)
class Staged:
    """A prepared transaction. `native`, `time`: where and when it was prepared. `left_out`: tables whose rows in it are not
    here, or not all of them. `is_older`: prepared before the trail began, ended before anything was loaded. `place`: where
    its PREPARED frame ends."""

    xid: str
    native: str
    time: int
    rows: int = 0
    left_out: tuple[str, ...] = ()
    is_older: bool = False
    place: int = 0
    decided: str = ""  # LogMark.resume just after its end


class Staging:
    """The prepared transactions of one trail; used by its writer's process only.

    Delivery: what `prepare` returned for stays until `remove`, or until the trail has it, whatever dies in between."""

    def __init__(self, storage: Storage, table_frame: Callable[[TableRows], TableFrame], end: str) -> None:
        """Open the staging of a trail. `end`: LogMark.resume of the trail's end; transactions decided there are removed."""
        self._storage, self._table_frame = storage, table_frame
        self._open: SegmentWriter | None = None
        self._count = self._rows = 0
        self._staged = {one.xid: one for one in staged(storage)}
        for one in list(self._staged.values()):
            if one.decided and one.decided == end:
                self.remove(one.xid)
        self.abandon()

    def __contains__(self, xid: str) -> bool:
        return xid in self._staged

    def __getitem__(self, xid: str) -> Staged:
        return self._staged[xid]

    def all(self) -> list[Staged]:
        return list(self._staged.values())

    @property
    def waits(self) -> bool:
        """Return whether any of them has, or may have, rows of the job's tables: others are of databases of somebody else."""
        return any(one.rows or one.left_out or one.is_older for one in self._staged.values())

    def lacking(self, table: TableId) -> list[str]:
        """Open transactions that have rows of `table` which are not here."""
        return [one.xid for one in self._staged.values() if str(table) in one.left_out]

    def add(self, chunk: Chunk) -> None:
        """Write rows of the transaction that is being read. They count once it is prepared. Raises StorageFull."""
        with writing("a prepared transaction"):
            if self._open is None:
                self._open = self._create()
            self._open.chunk(replace(chunk, part=Part.FRAGMENT, first_sequence=0), self._count, self._table_frame)
        self._count += 1
        self._rows += chunk.row_count

    def prepare(self, xid: str, mark: LogMark, left_out: Iterable[TableId] = (), *, is_older: bool = False) -> None:
        """Make the rows added so far the transaction `xid`; durable on return. Replaces a former one of that name."""
        names = tuple(sorted(map(str, left_out)))
        found = Staged(xid, mark.native, mark.commit_time, self._rows, names, is_older)
        with writing("a prepared transaction"):
            reach("trail.staging.written")
            if self._open is None:
                self._open = self._create()
            self._open.note(
                FrameKind.PREPARED, {n: v for n, v in asdict(found).items() if n not in ("place", "decided")}
            )
            with syncing("a prepared transaction"):
                self._open.sync()
            self._open.close()
            self._storage.rename(_OPEN, _file(xid))
            reach("trail.staging.renamed")
        self._staged[xid] = replace(found, place=self._open.offset)
        self._open, self._count, self._rows = None, 0, 0

    def chunks(self, xid: str) -> Iterator[Chunk]:
        """Yield a transaction's rows, a fragment at a time."""
        segment, rows = SegmentReader(self._storage, _file(xid)), 0
        try:
            for offset, frame, _ in segment.frames(0, segment.size()):
                if frame.kind == FrameKind.CHUNK:
                    chunk = segment.chunk(offset)
                    rows += chunk.row_count
                    yield chunk
        finally:
            segment.close()
        _require_all(self._staged[xid], rows)

    def decide(self, xid: str, mark: LogMark) -> None:
        """Note that a transaction ended at `mark`; a start whose trail ends there removes it. Durable on return."""
        head = to_json({"decided": mark.resume})
        frame = _sealed(self._storage, _file(xid), [encode_prefix(FrameKind.DECIDED, head), head])
        file = self._storage.reopen(_file(xid))
        try:
            with writing("a prepared transaction"):
                file.write_at(self._staged[xid].place, frame)
            with syncing("a prepared transaction"):
                file.sync()
        finally:
            file.close()
        self._staged[xid] = replace(self._staged[xid], decided=mark.resume)

    def remove(self, xid: str) -> None:
        """Remove a transaction that was rolled back, or that is durable in the trail."""
        with writing("a prepared transaction"):
            self._storage.remove(_file(xid))
        del self._staged[xid]

    def abandon(self) -> None:
        """Begin again at the trail's end: rows that were added since the last `prepare` count for nothing."""
        if self._open is not None:
            self._open.close()
        self._open, self._count, self._rows = None, 0, 0
        with suppress(FileNotFoundError):
            self._storage.remove(_OPEN)

    def _create(self) -> SegmentWriter:
        self._storage.make_folder(FOLDER)
        return SegmentWriter(self._storage, _OPEN, _NO_SEGMENT, staged_header(self._storage))


def _sealed(storage: Storage, name: str, frame: list[Data]) -> list[Data]:
    """Return a frame that comes to a finished file as it has to stand there: encrypted, where the file is."""
    segment = SegmentReader(storage, name)
    try:
        seal = segment.seal()
    finally:
        segment.close()
    return seal.later_frame(frame) if seal else frame


def staged(place: Storage | Path) -> list[Staged]:
    """Return the prepared transactions of a trail, the oldest first. Raises TrailCorrupt."""
    storage = LocalStorage(place) if isinstance(place, Path) else place
    names = [name for name in storage.names(FOLDER) if name.endswith(_SUFFIX)]
    found = []
    for name in names:
        with suppress(FileNotFoundError):  # decided meanwhile
            found.append(_read(storage, f"{FOLDER}/{name}"))
    return sorted(found, key=lambda one: (one.time, one.xid))


def waiting(directory: Path) -> list[Staged]:
    """List prepared transactions whose rows wait for a commit, without those older than the trail that have ended."""
    return [one for one in staged(directory) if not one.is_older]


def problems(storage: Storage) -> list[str]:
    """Check the files, every checksum and every count, and return what is wrong."""
    found = []
    for name in (name for name in storage.names(FOLDER) if name.endswith(_SUFFIX)):
        try:
            _check(storage, f"{FOLDER}/{name}")
        except FileNotFoundError:  # decided meanwhile
            continue
        except TrailCorrupt as error:
            found.append(error.message)
    return found


def _check(storage: Storage, name: str) -> None:
    facts, rows = _read(storage, name), 0
    segment = SegmentReader(storage, name)
    try:
        check_staged(storage, segment)
        for offset, frame, _ in segment.frames(0, facts.place):
            if frame.kind == FrameKind.CHUNK:
                rows += segment.chunk(offset).row_count
    finally:
        segment.close()
    _require_all(facts, rows)


def _require_all(facts: Staged, rows: int) -> None:
    if rows != facts.rows:
        raise TrailCorrupt(
            f"{_file(facts.xid)} has {rows} rows of the prepared transaction {facts.xid}, not {facts.rows}",
            hint=_DAMAGED,
        )


def _read(storage: Storage, name: str) -> Staged:
    segment = SegmentReader(storage, name)
    found: Staged | None = None
    try:
        check_staged(storage, segment)
        for offset, frame, head in segment.frames(0, segment.size()):
            if frame.kind == FrameKind.PREPARED:
                facts = json.loads(head)
                found = Staged(**{**facts, "left_out": tuple(facts["left_out"])}, place=offset + frame.length)
            elif frame.kind == FrameKind.DECIDED and found:
                found = replace(found, decided=json.loads(head)["decided"])
    finally:
        segment.close()
    if found is None:
        raise TrailCorrupt(f"{storage.path(name)} is damaged: its last frame is missing", hint=_DAMAGED)
    if name != _file(found.xid):
        raise TrailCorrupt(f"{storage.path(name)} has another transaction's name: it is {found.xid}", hint=_DAMAGED)
    return found


def _file(xid: str) -> str:
    """Return a name of bounded length: an xid has up to 128 bytes."""
    return f"{FOLDER}/{hashlib.sha256(xid.encode()).hexdigest()[:32]}{_SUFFIX}"
