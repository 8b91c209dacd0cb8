"""The schema history as a file to keep elsewhere: written from a trail, and put back where a trail's own is lost or damaged.

It is one JSON text a line, so that it can be read; each becomes the line of the history that it was. The first says whose it
is and what the lines are together. What does not live here: what the lines mean (`history.py`), whether a target agrees
(`lifecycle/restoring_history.py`).
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Sequence
from contextlib import suppress
from hashlib import sha256
from typing import Any

from anabranch.errors import StateError, TrailCorrupt, TrailError
from anabranch.failpoints import reach
from anabranch.trail import identity as identities
from anabranch.trail import keys, published
from anabranch.trail.format import FrameKind, segment_names, to_json
from anabranch.trail.history import FILE, Entry, HistoryPlace, SchemaHistory, parse, read
from anabranch.trail.identity import Identity
from anabranch.trail.published import Record
from anabranch.trail.segment import SegmentReader
from anabranch.trail.storage import Storage, read_whole

FORMAT = 1
KIND = "anabranch schema history"
DAMAGED = "history.damaged"  # what was in its place before one was put back
_ADOPTED = (FrameKind.CHUNK, FrameKind.HEARTBEAT)
_CRC = 9  # bytes of a line before its JSON text
_OLDER = "the trail is an older copy: use the home that was used last, or load again"
_BACKUP = "restore the file from a backup of the trail; without one, load again"
_AGAIN = "export the history whenever it has grown (anabranch schema export JOB); without a later one, load again"


def exported(storage: Storage) -> str:
    """Return the history of a trail as far as it is published. Raises TrailCorrupt where it is damaged."""
    who, record = _whose(storage)
    data = read(storage)[: record.history]
    parse(data, record.history, SchemaHistory(), HistoryPlace(storage.path(FILE), who.job_uuid, storage))
    head = {
        "kind": KIND,
        "format": FORMAT,
        "job": who.job,
        "job_uuid": who.job_uuid,
        "source": who.source_identity,
        "sequence": record.sequence,
        "bytes": len(data),
        "sha256": sha256(data).hexdigest(),
    }
    lines = [to_json(head), *(line[_CRC:] for line in data.splitlines())]
    return b"".join(line + b"\n" for line in lines).decode()


def lines_of(storage: Storage, text: str, file: str) -> bytes:
    """Return the lines of a history that was exported from this trail. Raises TrailError for a file that is none, or of a later
    release, TrailCorrupt for a damaged one or a trail that is older than it, StateError for one of another job."""
    who, record = _whose(storage)
    first, *texts = text.encode().split(b"\n")
    head: dict[str, Any] = {}
    with suppress(ValueError):  # told below as damage
        head = json.loads(first)
    if not isinstance(head, dict) or head.get("kind") != KIND:
        raise TrailError(f"{file} is no schema history", hint="anabranch schema export JOB -o FILE writes one")
    if head.get("format") != FORMAT:
        why = f"{file} has format {head.get('format')}, this release knows {FORMAT}"
        raise TrailError(why, hint="use the release that wrote it")
    data = b"".join(b"%08x %s\n" % (zlib.crc32(line), line) for line in texts if line)
    if (len(data), sha256(data).hexdigest()) != (head.get("bytes"), head.get("sha256")):
        raise TrailCorrupt(f"{file} is not what was exported (its checksum is wrong)", hint="take another one")
    if head.get("job_uuid") != who.job_uuid:
        theirs = f"job {head.get('job')} ({head.get('job_uuid')})"
        raise StateError(
            f"{file} is the history of {theirs}, the trail is of job {who.job} ({who.job_uuid})",
            hint="a job is moved with its whole home; a history fits the trail that it was exported from",
        )
    if isinstance(head.get("sequence"), int) and head["sequence"] > record.sequence:
        message = f"{file} was exported at sequence {head['sequence']}, the trail has come to {record.sequence}"
        raise TrailCorrupt(message, hint=_OLDER)
    return data


def is_whole(storage: Storage) -> bool:
    """Return whether a trail has its history, undamaged."""
    who, record = _whose(storage)
    try:
        parse(read(storage), record.history, SchemaHistory(), HistoryPlace(storage.path(FILE), who.job_uuid, storage))
    except TrailCorrupt:
        return False
    return True


def restored(storage: Storage, came: bytes, file: str) -> tuple[bytes, SchemaHistory]:
    """Return what the history of a trail was: the lines that `came`, and what the damaged file has behind them. Raises
    TrailCorrupt where nobody can say that this is all of it."""
    who, record = _whose(storage)
    data = came + _behind(storage, came)
    if len(data) < record.history:
        message = f"{file} has {len(came)} bytes of the history, the trail went on to {record.history}"
        raise TrailCorrupt(f"{message}: what was altered or parked since is not known", hint=_AGAIN)
    if len(came) > record.history:
        message = f"{file} has {len(came)} bytes of the history, more than this trail was told of ({record.history})"
        raise TrailCorrupt(message, hint=_OLDER)
    if len(data) == record.history and _is_more_than_published(storage, record):
        message = "the trail has more than was published, and the history may have had lines about that"
        raise TrailCorrupt(message, hint=_BACKUP)
    history = SchemaHistory()
    parse(data, record.history, history, HistoryPlace(file, who.job_uuid, storage))
    return data, history


def made_anew(storage: Storage, entries: Sequence[Entry]) -> bytes:
    """Return a history of these entries for a trail whose own is lost, which hold behind its published end: one of its lines
    ends where readers were told that the history does. Raises TrailCorrupt where the trail has more than was published."""
    who, record = _whose(storage)
    if _is_more_than_published(storage, record):
        message = "the trail has more than was published, and the history may have had lines about that"
        raise TrailCorrupt(message, hint=_BACKUP)
    lines = [one.to_line() for one in (Entry("job", 0, reason=who.job_uuid), *entries)]
    least = len(_filler(record, 0))
    data = b""
    while lines and len(data) + len(lines[0]) + least <= record.history:
        data += lines.pop(0)
    if len(data) + least > record.history:
        raise TrailCorrupt(f"the trail was told of {record.history} bytes of a history, too few for one", hint=_BACKUP)
    return data + _filler(record, record.history - len(data) - least) + b"".join(lines)


def _filler(record: Record, more: int) -> bytes:
    """Return a line that says nothing but that the trail ended where it ends, with so many bytes more."""
    return Entry("recovered", record.sequence, reason="." * (more + 1)).to_line()


def put_back(storage: Storage, data: bytes) -> None:
    """Make this the history of a trail, whose lock the caller has. What stood in its place is kept as DAMAGED."""
    with suppress(FileNotFoundError):  # it is lost: that is what this is for
        storage.replace(DAMAGED, read_whole(storage, FILE))
    reach("trail.history.restored")
    storage.replace(FILE, data)
    keys.history_begins(storage, len(data))


def _whose(storage: Storage) -> tuple[Identity, Record]:
    who = identities.load(storage)
    if who is None:
        hint = "a job is moved with its whole home, a history alone begins none"
        raise TrailError(f"there is no trail in {storage.path('')}", hint=hint)
    cell = published.opened(storage)
    try:
        return who, published.read(cell)
    finally:
        cell.close()


def _behind(storage: Storage, came: bytes) -> bytes:
    """Return what the damaged file has behind the lines that came. Nothing where it is missing, or where they do not stand in
    it at the same places, as far as they are whole: then something is missing in the middle."""
    try:
        there = read_whole(storage, FILE)
    except FileNotFoundError:
        return b""
    if len(there) <= len(came):
        return b""
    at = 0
    for line in came.splitlines(keepends=True):
        found = there[at : at + len(line)]
        if found != line and (_is_line(found) or b"\n" in found[:-1] or found[-1:] != b"\n"):
            return b""
        at += len(line)
    return there[at:]


def _is_line(line: bytes) -> bool:
    return line[:8] == b"%08x" % zlib.crc32(line[_CRC:-1])


def _is_more_than_published(storage: Storage, record: Record) -> bool:
    """Return whether the next writer would adopt something behind the published end."""
    names = [name for name in segment_names(storage.names()) if name.number >= record.number]
    return any(_has_frames(storage, str(name), record.end if name.number == record.number else 0) for name in names)


def _has_frames(storage: Storage, file: str, start: int) -> bool:
    segment = SegmentReader(storage, file)
    try:
        return any(frame.kind in _ADOPTED for _, frame, _ in segment.frames(start, segment.size()))
    finally:
        segment.close()
