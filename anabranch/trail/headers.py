"""Facts in the first frame of a file: its job, its segment, its source, its format.

Every reader compares them when it opens the file, so that a file that was damaged, renamed or put in from another trail
is refused before anything in it is believed. What does not live here: frames and their checksums (`segment.py`).
"""

from __future__ import annotations

from typing import Any

from anabranch.errors import TrailError
from anabranch.trail import history as histories
from anabranch.trail import identity as identities
from anabranch.trail import sealing
from anabranch.trail.format import FORMAT, NEWEST, SegmentName, segment_names
from anabranch.trail.history import SchemaHistory
from anabranch.trail.identity import Identity
from anabranch.trail.segment import SegmentReader
from anabranch.trail.storage import Storage

NAMED = ("number", "epoch", "next", "fragments")  # what a segment's name says, too
KINDS: dict[str, type | tuple[type, ...]] = {
    "format": int,
    "job": str,
    "job_uuid": str,
    "source_identity": str,
    "native": str,
    "resume": str,
    "created": (int, float),
    **dict.fromkeys(NAMED, int),
}
MIXED = "put the file of this job back from a backup of the trail, or load again"


def check_segment(
    storage: Storage, segment: SegmentReader, name: SegmentName, *, is_opened: bool = True
) -> dict[str, Any]:
    """Return the header of a segment that belongs to this trail. `is_opened`: its frames will be read, for which the key of an
    encrypted one has to be there. Raises TrailCorrupt, TrailKeyMissing, TrailError for a newer format."""
    header = segment.header()
    _check_format(segment, header)
    if is_opened:
        _check_encryption(storage, segment, header)
    for key, kind in KINDS.items():
        if not isinstance(header.get(key), kind):
            raise segment.damage(0, f"the header says nothing usable of {key!r}")
    for key in NAMED:
        if header[key] != getattr(name, key):
            message = f"the file's name says {key} {getattr(name, key)}, its header {header[key]}"
            raise segment.damage(
                0, message, "give the file its own name again, or restore it from a backup of the trail"
            )
    ours = _identity(storage, segment)
    _check_job(segment, header, ours)
    source = header["source_identity"]
    if source != ours.source_identity and source not in _former_sources(storage, ours):
        message = f"it was captured from source {source}, the trail from {ours.source_identity} ({identities.FILE})"
        raise segment.damage(0, message, MIXED)
    return header


def other_sources(storage: Storage, ours: Identity) -> set[str]:
    """Return the servers from which segments of the trail were captured before the one that is followed now. The history says
    of which ones that is right; here it is not read. Raises TrailCorrupt for a header that cannot be read."""
    found = set()
    for name in segment_names(storage.names()):
        segment = SegmentReader(storage, str(name))
        try:
            found.add(str(segment.header().get("source_identity")))
        finally:
            segment.close()
    return found - {ours.source_identity}


def check_staged(storage: Storage, segment: SegmentReader) -> None:
    """Check the header of staged rows of an open or prepared transaction. Files of an earlier release do not name their job."""
    header = segment.header()
    _check_format(segment, header)
    _check_encryption(storage, segment, header)
    if "job_uuid" in header:
        _check_job(segment, header, _identity(storage, segment))


def staged_header(storage: Storage) -> dict[str, Any]:
    """Return the facts that `check_staged` compares."""
    found = identities.load(storage)
    whose = {"job": found.job, "job_uuid": found.job_uuid} if found else {}
    return {"format": FORMAT} | whose


def _check_format(segment: SegmentReader, header: dict[str, Any]) -> None:
    version = header.get("format")
    if type(version) is not int or version < 1:
        raise segment.damage(0, f"the header has no usable format: {version!r}")
    if version > NEWEST:
        raise TrailError(
            f"segment {segment.file} has format {version}, this release knows {NEWEST} ({segment.path})",
            hint=identities.NEWER,
        )


def _check_encryption(storage: Storage, segment: SegmentReader, header: dict[str, Any]) -> None:
    """Refuse a file whose key is not there before anything of it is read, and one that is not encrypted and has to be."""
    try:
        sealing.refuse_plain(storage, segment.file, header)
    except sealing.Tampered as error:
        raise segment.damage(0, str(error)) from None
    segment.seal()


def _identity(storage: Storage, segment: SegmentReader) -> Identity:
    found = identities.load(storage)
    if found is None:
        raise segment.damage(0, f"there is no {storage.path(identities.FILE)}", MIXED)
    return found


def _check_job(segment: SegmentReader, header: dict[str, Any], ours: Identity) -> None:
    if header["job_uuid"] != ours.job_uuid:
        theirs = f"job {header.get('job')} ({header['job_uuid']})"
        message = f"it belongs to {theirs}, the trail to job {ours.job} ({ours.job_uuid}, {identities.FILE})"
        raise segment.damage(0, message, MIXED)


def _former_sources(storage: Storage, ours: Identity) -> set[str]:
    """Return the servers that the trail was captured from before another one took over."""
    history = SchemaHistory()
    data = histories.read(storage)
    histories.parse(data, 0, history, histories.HistoryPlace(storage.path(histories.FILE), ours.job_uuid, storage))
    return {source for entry in history.entries if entry.kind == "source" for source in (entry.reason, entry.statement)}
