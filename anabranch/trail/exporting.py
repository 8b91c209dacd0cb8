"""Export of a trail into parcels: transactions, the schema history, files of an initial load.

A parcel has a segment of its own, with the sequences of the trail that it comes from: so it does not matter whether the
trail was packed in between. What does not live here: where an export has come to (`exports.py`), the form of a manifest
(`parcel.py`).
"""

from __future__ import annotations

import datetime
import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from anabranch.errors import ConfigError, StorageFull, TrailError
from anabranch.failpoints import reach
from anabranch.model.position import Position
from anabranch.rows.chunk import Part
from anabranch.trail import history as histories
from anabranch.trail import parcel, parcel_seals, published
from anabranch.trail import parcel_contents as contents
from anabranch.trail.chunk_refs import ChunkRef
from anabranch.trail.exports import ExportState, Reached, clear, parcel_hint, sync_folder
from anabranch.trail.failures import syncing, writing
from anabranch.trail.format import FORMAT, SegmentName
from anabranch.trail.parcel import HistoryPiece, Manifest, ParcelFile, SegmentPlace
from anabranch.trail.parcel_contents import LoadFile, ParcelSegment, ParcelStorage
from anabranch.trail.published import TrailEnd
from anabranch.trail.reader import TrailReader
from anabranch.trail.segment import SegmentWriter
from anabranch.trail.signing import Signer
from anabranch.trail.storage import LocalStorage

SIZE = 64 << 20
PAGE_ROWS = 200_000  # of so many the places are looked up at once
RESERVE = 1 << 20  # bytes: manifest, folders
EPOCH = 1  # of every segment of an export: all are of one writer
Told = Callable[[int, int], None]
"""Told bytes that are done, and the bytes of the parcel."""


@dataclass(frozen=True, slots=True)
class _Plan:
    """The contents of the next parcel. `ends`: the trail's end, where its last place is to be noted."""

    files: list[LoadFile]
    refs: list[ChunkRef]
    last: int
    ends: TrailEnd | None
    history: HistoryPiece | None
    lines: bytes
    history_sha256: str

    @property
    def is_empty(self) -> bool:
        return not (self.files or self.refs or self.ends or self.history)

    @property
    def bytes(self) -> int:
        return sum(found.st_size for _, found in self.files) + sum(ref.length for ref in self.refs) + len(self.lines)


class Exporter:
    """Writes parcels of a trail into a directory, one after another. Not for several threads.

    Delivery: each transaction is in one parcel, in order; a parcel is there whole or not at all."""

    def __init__(
        self,
        trail: Path,
        directory: Path,
        name: str,
        *,
        start: int | None = None,
        size: int = SIZE,
        signer: Signer | None = None,
        with_load: bool = True,
        again: bool = False,
    ) -> None:
        """Begin an export, behind `start` - 1 or where the trail begins, or go on with it. `size`: bytes of a parcel, unless
        one transaction, or a file of a load, has more. Raises TrailError, ConfigError where `start` is not where it goes on,
        TrailKeyMissing for an encrypted trail whose key is not known here."""
        self._trail, self._directory = trail, directory
        self._size, self._signer, self._with_load = size, signer, with_load
        self._reader = TrailReader(trail, name=f"export {name}")
        self._storage = LocalStorage(trail)
        try:
            self._look_for_key()
        except BaseException:  # whatever it was: let go, and passed on
            self._reader.close()
            raise
        self._counted_for, self._counted, self._waiting = -1, 0, 0
        with writing(f"the directory {directory}", parcel_hint(directory)):
            directory.mkdir(parents=True, exist_ok=True)
        self._state = ExportState(trail, name, directory)
        try:
            self._state.settle(again)
            self._begin(start)
            self._state.take_loads(with_load)
        except BaseException:  # whatever it was: let go, and passed on
            self.close()
            raise

    @property
    def reached(self) -> Reached:
        assert self._state.reached
        return self._state.reached

    @property
    def reader(self) -> TrailReader:
        return self._reader

    @property
    def size(self) -> int:
        return self._size

    def waiting(self) -> int:
        """Return how many bytes of transactions are published behind what was exported; counted once."""
        if self._counted_for != self.reached.number:
            self._counted_for, self._counted, self._waiting = self.reached.number, self.reached.sequence, 0
        end = self._reader.end().position.sequence
        while self._counted < end:
            refs = self._reader.descriptors(self._counted, end, PAGE_ROWS)
            self._counted, self._waiting = refs[-1].last_sequence, self._waiting + sum(ref.length for ref in refs)
        return self._waiting

    def next(self, upto: int | None = None, *, idle: bool = False, told: Told | None = None) -> Manifest | None:
        """Write the next parcel, of transactions up to `upto`; return None where there is nothing new. `idle`: that the trail's
        place has moved on without transactions is new. Raises StorageFull before anything is written, TrailCorrupt,
        TrailKeyMissing."""
        plan = self._plan(upto, idle)
        if plan.is_empty:
            return None
        self._look_for_key()
        self._refuse_full(plan)
        folder = self._state.temporary(self.reached.number + 1)
        clear(folder)
        try:
            manifest, reached = self._written(folder, plan, told or (lambda done, total: None))
        except BaseException:  # whatever it was: nothing is left, and it is passed on
            clear(folder)
            raise
        reach("parcel.export.written")
        self._state.rename_in(reached)
        return manifest

    def close(self) -> None:
        self._reader.close()
        self._state.close()

    def __enter__(self) -> Exporter:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- what comes into a parcel -----------------------------------------------------------------------------------

    def _look_for_key(self) -> None:
        """Take the key that the trail has now, which may be turned on or replaced while an export goes on. Behind a plan: what
        is encrypted in it was published after the trail's identity and its key were noted."""
        self._who = self._reader.identity
        self._key = parcel_seals.exporting_key(self._storage, self._who)

    def _begin(self, start: int | None) -> None:
        if self._state.reached is None:
            first = max(1, self._reader.first()) if start is None else start
            end = self._reader.end().position.sequence
            if not 1 <= first <= end + 1:
                raise ConfigError(f"sequence {first} is not in the trail, which ends at {end}", hint="leave --from out")
            self._state.begin(first - 1, self._native(first), self._resume(first))
        elif start not in (None, self._state.reached.sequence + 1):
            message = (
                f"export {self._state.name} goes on at sequence {self._state.reached.sequence + 1}, not at {start}"
            )
            raise ConfigError(message, hint="leave --from out, or begin another one in a directory of its own")
        else:
            self._state.go_on()

    def _native(self, first: int) -> str:
        """Return the place before the first transaction; "" where the trail begins in the middle of another, or has nothing."""
        with suppress(TrailError):
            return self._reader.position_at(first - 1).native
        return ""

    def _resume(self, first: int) -> str:
        """Return where the source's log is read on before the trail's first transaction; of others nobody knows it."""
        return self._reader.begun() if first == self._reader.first() else ""

    def _plan(self, upto: int | None, idle: bool) -> _Plan:
        end, reached = self._reader.end(), self.reached
        last = end.position.sequence if upto is None else min(upto, end.position.sequence)
        listed = contents.load_files if self._with_load else contents.rewrapped_keys
        files = listed(self._trail, self.reached.load)
        taken = contents.fitting(files, self._size)
        budget = self._size - sum(found.st_size for _, found in taken)
        refs = self._refs(last, budget, not taken) if len(taken) == len(files) else []
        last = min(refs[-1].last_sequence, last) if refs else reached.sequence
        at_end = last == end.position.sequence and len(taken) == len(files)
        moved = (end.position.native, end.resume) != (reached.native, reached.resume)
        is_new = not reached.number or (moved and (refs or idle))
        ends = end if at_end and end.resume and is_new else None
        return _Plan(taken, refs, last, ends, *self._history(last))

    def _refs(self, last: int, budget: int, is_first: bool) -> list[ChunkRef]:
        """Return the places of transactions that fit into the budget, at least one where nothing else is in the parcel."""
        found: list[ChunkRef] = []
        used, after = 0, self.reached.sequence
        while after < last:
            unit: list[ChunkRef] = []
            for ref in self._reader.descriptors(after, last, PAGE_ROWS):
                unit.append(ref)
                if ref.part is Part.FRAGMENT:
                    continue
                used += sum(one.length for one in unit)
                if used > budget and (found or not is_first):
                    return found
                found += unit
                unit = []
            after = min(found[-1].last_sequence, last)
        return found

    def _history(self, last: int) -> tuple[HistoryPiece | None, bytes, str]:
        """Return the lines of the schema history that a trail has which ends there, behind those that were exported."""
        data = histories.read(self._storage)[: self._published_history()]
        data = contents.history_until(data, last, self._storage)
        after = self.reached.history
        if parcel.digest(data[:after]) != self.reached.history_sha256 or len(data) < after:
            after = 0  # the first one, or another was put back in its place
        if after == len(data):
            return None, b"", self.reached.history_sha256
        piece = HistoryPiece(after, len(data), parcel.digest(data[:after]))
        return piece, data[after:], parcel.digest(data)

    def _published_history(self) -> int:
        cell = published.opened(self._storage)
        try:
            return published.read_whole(cell, self._storage.path(published.FILE)).history
        finally:
            cell.close()

    def _refuse_full(self, plan: _Plan) -> None:
        free = shutil.disk_usage(self._directory).free
        if free < plan.bytes + RESERVE:
            message = (
                f"parcel {self.reached.number + 1} needs about {plan.bytes:,} bytes, {self._directory} has {free:,}"
            )
            raise StorageFull(message, hint="make room there, or let parcels be smaller: --size")

    # --- writing it -------------------------------------------------------------------------------------------------

    def _written(self, folder: Path, plan: _Plan, told: Told) -> tuple[Manifest, Reached]:
        """Write a parcel under its temporary name, durably. Returns what it has, and what is reached with it."""
        with writing(f"parcel {self.reached.number + 1} in {folder.parent}", parcel_hint(folder.parent)):
            reach("parcel.export.writing")
            folder.mkdir()
            done, files, load = 0, [], dict(self.reached.load)
            for file in plan.files:
                if came := contents.copied(self._trail, file, folder):
                    files.append(came)
                    load[came.name] = contents.stamp(file[1])
                done += file[1].st_size
                told(done, plan.bytes)
            if plan.history:
                files.append(contents.put(folder / parcel.HISTORY, plan.lines))
            segment, end = self._segment(folder, plan, lambda more: told(done + more, plan.bytes))
            files += [contents.hashed(folder / segment.file)] if segment else []
            manifest = self._manifest(plan, segment, end, tuple(files))
            if self._key:
                manifest = parcel_seals.sealed(manifest, self._key)
            data = manifest.to_bytes()
            contents.put(folder / parcel.MANIFEST, data)
            if self._signer:
                contents.put(folder / parcel.SIGNATURE, self._signer.sign(data))
        for place in [*(path for path in folder.rglob("*") if path.is_dir()), folder]:
            sync_folder(place)
        number = _number(segment.file) if segment else self.reached.segment
        length = plan.history.length if plan.history else self.reached.history
        return manifest, replace(
            self.reached, number=manifest.number, manifest=parcel.digest(data), sequence=manifest.last, segment=number,
            history=length, history_sha256=plan.history_sha256, load=load,
            native=end.position.native, resume=end.resume, commit_time=end.commit_time,
        )  # fmt: skip

    def _segment(self, folder: Path, plan: _Plan, told: Callable[[int], None]) -> tuple[SegmentPlace | None, TrailEnd]:
        reached = self.reached
        end = replace(_end_of(reached), version=0)
        if not plan.refs and not plan.ends:
            return None, end
        name = SegmentName(self._state.next_segment(), EPOCH, reached.sequence + 1)
        storage = ParcelStorage(folder, self._trail)
        writer = SegmentWriter(storage, str(name), name, self._header(name), service=self._key)
        try:
            made = ParcelSegment(writer, self._reader, end)
            for ref in plan.refs:
                made.take(ref)
                told(writer.offset)
            made.flush()
            if plan.ends:
                made.stand_at(plan.ends)
            place = SegmentPlace(str(name), made.frame, writer.offset)
            writer.seal()
            with syncing(str(name)):
                writer.sync()
        finally:
            writer.close()
        return place, made.end

    def _header(self, name: SegmentName) -> dict[str, object]:
        who = self._who
        return {
            "job": who.job,
            "job_uuid": who.job_uuid,
            "source_identity": who.source_identity,
            "format": FORMAT,
            "number": name.number,
            "epoch": name.epoch,
            "next": name.next,
            "fragments": name.fragments,
            "native": self.reached.native,
            "resume": self.reached.resume,
            "created": time.time(),
        }

    def _manifest(
        self, plan: _Plan, segment: SegmentPlace | None, end: TrailEnd, files: tuple[ParcelFile, ...]
    ) -> Manifest:
        who, reached = self._who, self.reached
        return Manifest(
            job=who.job,
            job_uuid=who.job_uuid,
            source_identity=who.source_identity,
            logs_cascades=who.logs_cascades,
            trail_format=max(FORMAT, who.format),
            chain=reached.chain,
            number=reached.number + 1,
            previous=reached.manifest,
            created=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds").replace("+00:00", "Z"),
            first=reached.sequence + 1,
            last=plan.last,
            start=reached.position,
            end=str(end.position),
            key=self._signer.name if self._signer else "",
            segment=segment,
            history=plan.history,
            files=files,
        )


def follow(
    exporter: Exporter,
    every: float,
    wait: Callable[[float], bool],
    told: Callable[[Manifest], None],
) -> None:
    """Go on exporting: whatever there is each `every` seconds, and a parcel as soon as one is full, until `wait` (seconds) says
    that it was asked to stop."""
    due = time.monotonic()
    while not wait(0):
        is_due = time.monotonic() >= due
        while (is_due or exporter.waiting() >= exporter.size) and not wait(0):
            made = exporter.next(idle=is_due)
            if made is None:
                break
            told(made)
        due = time.monotonic() + every if is_due else due
        wait(max(0.0, min(1.0, due - time.monotonic())))


def _end_of(reached: Reached) -> TrailEnd:
    return TrailEnd(Position(reached.sequence, reached.native), reached.resume, reached.commit_time)


def _number(file: str) -> int:
    name = SegmentName.parse(file)
    assert name
    return name.number
