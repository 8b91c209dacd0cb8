"""Recovery when a writer opens a trail: find the published end, and what an earlier writer left behind it.

Nothing that a reader may have seen is touched. Whole frames behind the published end are adopted: after a power failure
the record of the end may be older than the data. Fragments without their last one were never seen by anybody; segments
that hold nothing else are removed.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from anabranch.errors import TrailCorrupt
from anabranch.failpoints import reach
from anabranch.model.position import Position
from anabranch.rows.chunk import Part
from anabranch.trail import history as histories
from anabranch.trail import identity as identities
from anabranch.trail import published
from anabranch.trail.failures import syncing, writing
from anabranch.trail.format import Frame, FrameKind, SegmentName, segment_names
from anabranch.trail.headers import check_segment
from anabranch.trail.history import Entry, HistoryPlace, SchemaHistory
from anabranch.trail.lock import maintenance
from anabranch.trail.published import Record, TrailEnd
from anabranch.trail.sealed_history import LineSealer
from anabranch.trail.segment import SegmentReader
from anabranch.trail.storage import Storage

_RESTORE = "restore the trail from a backup, or load again"


@dataclass(frozen=True, slots=True)
class Recovered:
    """`epoch` is the new writer's, `next_number` its first segment's."""

    record: Record
    end: TrailEnd
    epoch: int
    next_number: int
    history: SchemaHistory
    history_length: int


def recover(directory: Path, storage: Storage, epoch: int | None = None) -> Recovered:
    """Find the end, and settle what is behind it. `epoch`: the one that was claimed; None: the next one."""
    names = [name for name in map(SegmentName.parse, storage.names()) if name]
    epoch = epoch or max((name.epoch for name in names), default=0) + 1
    number = max((name.number for name in names), default=0) + 1
    _tidy(directory, storage)
    _make_published(storage, bool(names))
    cell = published.opened(storage)
    try:
        recorded = published.read(cell)
    finally:
        cell.close()
    record = _adopt(storage, recorded)
    reach("trail.recovery.adopted")
    _remove_unpublished(storage, record, epoch)
    reach("trail.recovery.removed")
    history, length = _history(storage, recorded.history, record.sequence)
    return Recovered(record, read_end(storage, record), epoch, number, history, length)


def _make_published(storage: Storage, has_segments: bool) -> None:
    """Write an empty file where somebody took it away: the end is then looked for in the segments. Without any, refuse."""
    if published.FILE not in storage.names():
        if not has_segments:
            raise TrailCorrupt(f"{storage.path(published.FILE)} is missing, and so are all segments", hint=_RESTORE)
        with writing("the published end"):
            storage.replace(published.FILE, bytes(published.SIZE))


def read_end(storage: Storage, record: Record) -> TrailEnd:
    """Return the end that a record points at. FileNotFoundError never: that segment is neither packed nor dropped."""
    if not record.number:
        return TrailEnd(Position(0), "", 0, record.version)
    segment = SegmentReader(storage, str(record.segment))
    try:
        check_segment(storage, segment, record.segment)
        return end_at(segment, record)
    finally:
        segment.close()


def end_at(segment: SegmentReader, record: Record) -> TrailEnd:
    frame, head = segment.frame(record.frame)
    if frame.kind not in (FrameKind.CHUNK, FrameKind.HEARTBEAT) or (
        frame.kind == FrameKind.CHUNK and frame.last != record.sequence
    ):
        raise segment.damage(record.frame, "the published end is not here")
    place = json.loads(head)
    return TrailEnd(Position(record.sequence, place["native"]), place["resume"], place["time"], record.version)


def _tidy(directory: Path, storage: Storage) -> None:
    """Remove what an interrupted packing left."""
    with maintenance(directory):
        kept = set(map(str, segment_names(storage.names())))
        for name in storage.names():
            if name.endswith(".tmp") or (SegmentName.parse(name) and name not in kept):
                storage.remove(name)


def _adopt(storage: Storage, recorded: Record) -> Record:
    """Return the record of the last whole frame of a whole transaction, with everything up to it durable."""
    names = segment_names(storage.names())
    record = _start(names, recorded)
    open_fragments = 0 if record.number or not names else names[0].fragments
    epoch = record.epoch
    for name in names:
        if name.number < record.number:
            continue
        open_fragments = open_fragments if name.epoch == epoch or not epoch else 0
        epoch = name.epoch
        segment = SegmentReader(storage, str(name))
        try:
            if name.number == recorded.number or _has_header(segment):
                check_segment(storage, segment, name)
            start = record.end if name.number == record.number else 0
            record, open_fragments = _adopt_segment(segment, name, start, record, open_fragments)
        finally:
            segment.close()
        _sync(storage, str(name))
    if record.sequence < recorded.sequence:
        raise TrailCorrupt(f"the trail ends at {record.sequence}, {recorded.sequence} was published", hint=_RESTORE)
    return record


def _start(names: list[SegmentName], recorded: Record) -> Record:
    """Find where looking for whole frames begins: the recorded end, or the trail's start where the record was lost."""
    if recorded.segment in names:
        return recorded
    if names and names[-1].number > recorded.number:
        return Record(version=recorded.version, history=recorded.history, sequence=names[0].next - 1)
    if recorded.number:
        raise TrailCorrupt(f"segment {recorded.segment} is missing", hint=_RESTORE)
    return recorded


def _has_header(segment: SegmentReader) -> bool:
    """Return whether the first frame is whole. A crash may tear it in a segment that no reader was told about."""
    return any(segment.frames(0, segment.size()))


def _sync(storage: Storage, name: str) -> None:
    file = storage.reopen(name)
    try:
        with syncing(name):
            file.sync()
    finally:
        file.close()


def _adopt_segment(
    segment: SegmentReader, name: SegmentName, start: int, record: Record, open_fragments: int
) -> tuple[Record, int]:
    for offset, frame, _ in segment.frames(start, segment.size()):
        if frame.kind == FrameKind.HEARTBEAT:
            record = _record(record, name, offset, frame, record.sequence)
        elif frame.kind == FrameKind.CHUNK:
            try:
                segment.body(offset, frame)
            except TrailCorrupt:  # torn: nobody was told about it
                break
            if frame.part is not Part.WHOLE and frame.fragment == 0:
                open_fragments = 0
            if frame.part is Part.FRAGMENT:
                open_fragments += 1
                continue
            if frame.part is Part.LAST and frame.fragment != open_fragments:
                break
            if frame.first != record.sequence + 1:
                raise segment.damage(offset, f"sequence {frame.first} follows {record.sequence}")
            record, open_fragments = _record(record, name, offset, frame, frame.last), 0
    return record, open_fragments


def _record(former: Record, name: SegmentName, offset: int, frame: Frame, sequence: int) -> Record:
    end = offset + frame.length
    return Record(
        former.version, name.number, name.epoch, name.next, name.fragments, offset, end, sequence, former.history
    )


def _remove_unpublished(storage: Storage, record: Record, epoch: int) -> None:
    for name in segment_names(storage.names()):
        if name.number > record.number and name.epoch < epoch:
            storage.remove(str(name))


def _history(storage: Storage, recorded: int, end: int) -> tuple[SchemaHistory, int]:
    """Return the history up to the trail's end, and its length. Lines about transactions that never came are taken back."""
    history = SchemaHistory()
    who = identities.load(storage)
    place = HistoryPlace(storage.path(histories.FILE), who.job_uuid if who else "", storage)
    length = histories.parse(histories.read(storage), recorded, history, place)
    added = [Entry("recovered", end)] if history.has_void(end) else []
    if who and not history.names_its_job:  # of an earlier release
        added.append(Entry("job", 0, reason=who.job_uuid))
    for entry in added:
        history.add(entry)
    lines, sealer = b"", LineSealer(storage)
    for entry in added:
        lines += histories.line_of(sealer.text(entry.to_text(), length + len(lines)))
    file = storage.reopen(histories.FILE)
    try:
        with writing("the schema history"):
            file.write_at(length, [lines])
        with syncing("the schema history"):
            file.sync()
    finally:
        file.close()
    return history, length + len(lines)
