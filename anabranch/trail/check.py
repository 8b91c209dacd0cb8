"""`trail check`: every checksum, every count, every sequence."""

from __future__ import annotations

from dataclasses import dataclass, field

from anabranch.errors import TrailCorrupt, TrailError, TrailKeyMissing
from anabranch.rows.chunk import Part
from anabranch.trail import open_staging, staging
from anabranch.trail.format import Frame, FrameKind, SegmentName, ends_before
from anabranch.trail.headers import check_segment
from anabranch.trail.history import FILE as HISTORY
from anabranch.trail.history import HistoryPlace, SchemaHistory, parse, read
from anabranch.trail.identity import Identity
from anabranch.trail.published import Record
from anabranch.trail.segment import SegmentReader
from anabranch.trail.storage import Storage


@dataclass
class CheckReport:
    """Counts of everything that was read, and the problems found (empty: none)."""

    segments: int = 0
    frames: int = 0
    transactions: int = 0
    rows: int = 0
    first: int = 0
    last: int = 0
    problems: list[str] = field(default_factory=list)

    @property
    def is_good(self) -> bool:
        return not self.problems


def check(storage: Storage, record: Record, names: list[SegmentName], identity: Identity) -> CheckReport:
    report = CheckReport()
    names = [name for name in names if name.number <= record.number]
    report.first = names[0].first_whole if names else record.sequence + 1
    report.last = names[0].next - 1 if names else record.sequence
    history = _check_history(storage, record, identity, report)
    for name in names:
        segment = SegmentReader(storage, str(name))
        try:
            check_segment(storage, segment, name)
            _check_segment(segment, name, names, record, history, report)
        except TrailError as error:
            report.problems.append(error.message)
        finally:
            segment.close()
        report.segments += 1
    report.problems += staging.problems(storage)
    report.problems += open_staging.problems(storage)
    if report.last != record.sequence and report.is_good:
        report.problems.append(f"the trail ends at {report.last}, {record.sequence} was published")
    return report


def _check_history(storage: Storage, record: Record, identity: Identity, report: CheckReport) -> SchemaHistory:
    history = SchemaHistory()
    try:
        place = HistoryPlace(storage.path(HISTORY), identity.job_uuid, storage)
        parse(read(storage)[: record.history], record.history, history, place)
    except (TrailCorrupt, TrailKeyMissing) as error:
        report.problems.append(error.message)
    return history


def _check_segment(
    segment: SegmentReader, name: SegmentName, names: list[SegmentName], record: Record,
    history: SchemaHistory, report: CheckReport,
) -> None:  # fmt: skip
    is_last = name.number == record.number
    if is_last:
        segment.index.grow(record.end)
    else:
        segment.index.complete(ends_before(names, name))
    limit = segment.size() if segment.index.is_sealed else segment.index.end
    for offset, frame, _ in segment.frames(0, limit):
        _check_frame(segment, offset, frame, history, report)


def _check_frame(
    segment: SegmentReader, offset: int, frame: Frame, history: SchemaHistory, report: CheckReport
) -> None:
    report.frames += 1
    if frame.kind != FrameKind.CHUNK:
        segment.body(offset, frame)
        return
    chunk = segment.chunk(offset)
    for rows in chunk.tables:
        try:
            history.at(rows.table, rows.version)
        except KeyError:
            report.problems.append(
                f"segment {segment.file}, offset {offset}: no definition {rows.version} of {rows.table}"
            )
    report.rows += frame.rows
    if frame.part is not Part.FRAGMENT:
        if frame.first != report.last + 1:
            report.problems.append(
                f"segment {segment.file}, offset {offset}: sequence {frame.first} follows {report.last}"
            )
        report.last = frame.last
        report.transactions += frame.transactions
