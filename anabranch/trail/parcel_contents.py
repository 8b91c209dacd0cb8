"""Contents of a parcel, as they are taken out of a trail: files of a load, lines of the schema history, a segment.

What does not live here: what comes into which parcel (`exporting.py`).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

from anabranch.rows.chunk import Chunk, Part, TableRows
from anabranch.trail import history as histories
from anabranch.trail import parcel
from anabranch.trail.chunk_refs import ChunkRef
from anabranch.trail.codec import TableFrame, last_place
from anabranch.trail.pack import CHUNK_BYTES, CHUNK_ROWS, CHUNK_TRANSACTIONS
from anabranch.trail.parcel import ParcelFile
from anabranch.trail.published import TrailEnd
from anabranch.trail.reader import TrailReader
from anabranch.trail.regroup import ChunkGroup, join
from anabranch.trail.replica_files import GONE, KEYS
from anabranch.trail.segment import SegmentWriter
from anabranch.trail.storage import LocalStorage, Storage


class ParcelStorage(LocalStorage):
    """The folder of a parcel, whose files are at the trail's place for whoever asks: what is beside a trail holds for them."""

    def __init__(self, folder: Path, trail: Path) -> None:
        super().__init__(folder)
        self.beside = trail

    def path(self, name: str) -> str:
        return str(self.beside / name)


LoadFile = tuple[str, os.stat_result]
"""A file of a load: its place in the trail, and what the file system says of it."""


def load_files(trail: Path, known: Mapping[str, list[int]]) -> list[LoadFile]:
    """Return the files of loads that are not known by their size and time, those that name others behind them. What names
    others is looked for first: what it names was there before it."""
    naming = [one for one in _listed(trail) if parcel.load_order(one[0])[0]]
    found = [one for one in _listed(trail) if not parcel.load_order(one[0])[0]] + naming
    new = [one for one in found if known.get(one[0]) != stamp(one[1])]
    return sorted(new, key=lambda one: parcel.load_order(one[0]))


def rewrapped_keys(trail: Path, known: Mapping[str, list[int]]) -> list[LoadFile]:
    """Return the file of data keys that were wrapped anew, which goes along where no load does, too; nothing if it is known."""
    return [one for one in load_files(trail, known) if one[0] == KEYS]


def stamp(facts: os.stat_result) -> list[int]:
    """Return what tells a file from a later one of its name."""
    return [facts.st_size, facts.st_mtime_ns]


def _listed(trail: Path) -> list[LoadFile]:
    root = trail / parcel.LOAD
    found: list[LoadFile] = []
    for path in root.rglob("*") if root.is_dir() else ():
        name = path.relative_to(trail)
        with suppress(FileNotFoundError):
            if not _is_of_the_load_alone(name) and path.is_file() and not path.is_symlink():
                found.append((name.as_posix(), path.stat()))
    return found


class ParcelSegment:
    """Copies chunks into a segment, small ones joined. `end`: the place behind what it has; `frame`: its last frame that
    counts."""

    def __init__(self, writer: SegmentWriter, reader: TrailReader, end: TrailEnd) -> None:
        self._writer, self._reader, self._history = writer, reader, reader.history
        self._group = ChunkGroup()
        self.end, self.frame = end, 0

    def take(self, ref: ChunkRef) -> None:
        chunk = self._reader.load(ref)
        if self._group.chunks and (self._is_large() or not self._group.accepts(chunk)):
            self.flush()
        if chunk.part is Part.WHOLE:
            self._group.add(chunk)
        else:
            self._write(chunk, ref.fragment)

    def flush(self) -> None:
        if self._group.chunks:
            self._write(join(self._group.chunks), 0)
            self._group = ChunkGroup()

    def stand_at(self, end: TrailEnd) -> None:
        """Note that the trail ends there."""
        if not self.frame or (end.position.native, end.resume) != (self.end.position.native, self.end.resume):
            self.frame = self._writer.heartbeat(end.position.native, end.resume, end.commit_time)
            self.end = end

    def _is_large(self) -> bool:
        group = self._group
        return group.rows >= CHUNK_ROWS or group.transactions >= CHUNK_TRANSACTIONS or group.bytes >= CHUNK_BYTES

    def _write(self, chunk: Chunk, fragment: int) -> None:
        resume = (
            chunk.resume or self.end.resume
        )  # of one that was cut nobody knows it: the place before is early enough
        frame = self._writer.chunk(replace(chunk, resume=resume), fragment, self._table_frame)
        if chunk.part is not Part.FRAGMENT:
            native, committed = last_place(chunk)
            position = replace(self.end.position, sequence=chunk.last_sequence, native=native)
            self.end, self.frame = TrailEnd(position, resume, committed), frame

    def _table_frame(self, rows: TableRows) -> TableFrame:
        return TableFrame(self._history.at(rows.table, rows.version), rows.batch.schema)


def history_until(data: bytes, last: int, storage: Storage) -> bytes:
    """Return the lines that a trail which ends at `last` may have. `storage`: of the trail, by whose key they are opened.
    Raises TrailCorrupt, TrailKeyMissing."""
    place = histories.HistoryPlace(storage.path(histories.FILE), "", storage)
    begins = (at for at, entry in histories.lines(data, place) if entry is not None and entry.is_void_after(last))
    return data[: next(begins, len(data))]


def fitting(files: list[LoadFile], size: int) -> list[LoadFile]:
    """Return the first of the files that fit, at least one."""
    used = 0
    for count, (_, facts) in enumerate(files):
        used += facts.st_size
        if used > size and count:
            return files[:count]
    return files


def _is_of_the_load_alone(name: Path) -> bool:
    """Return whether a file is of the load that is under way, and of no use elsewhere."""
    is_database = name.suffix == ".db" or ".db-" in name.name
    is_database = is_database or name.name == GONE
    return is_database or name.suffix == ".tmp" or any(part.startswith(".") for part in name.parts)


def copied(trail: Path, file: LoadFile, folder: Path) -> ParcelFile | None:
    """Copy a file of a load, durably; None where another one has taken its place since it was listed: that one comes later."""
    name, facts = file
    target, found = folder / name, sha256()
    try:
        read = (trail / name).open("rb", buffering=0)
    except FileNotFoundError:
        return None
    with read:
        if stamp(os.fstat(read.fileno())) != stamp(facts):
            return None
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("wb") as written:
            while block := read.read(parcel.BLOCK):
                found.update(block)
                written.write(block)
            written.flush()
            os.fsync(written.fileno())
    return ParcelFile(name, facts.st_size, found.hexdigest())


def put(path: Path, data: bytes) -> ParcelFile:
    with path.open("wb") as written:
        written.write(data)
        written.flush()
        os.fsync(written.fileno())
    return ParcelFile(path.name, len(data), parcel.digest(data))


def hashed(path: Path) -> ParcelFile:
    with path.open("rb") as read:
        found = sha256()
        while block := read.read(parcel.BLOCK):
            found.update(block)
        return ParcelFile(path.name, read.tell(), found.hexdigest())
