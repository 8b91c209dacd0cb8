"""Identity of a trail: job, job uuid, source, format version. Whoever does not match is refused."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from anabranch.errors import StateError, TrailCorrupt, TrailError
from anabranch.trail.format import FORMAT, NEWEST, segment_names, to_json
from anabranch.trail.storage import Storage, read_whole

FILE = "trail.json"
REPLICA = "replica.json"  # the mark of a trail that is a copy of another (`replica.py`)
IMPORTS = "imports.json"  # of a replica that takes in parcels (`importing.py`)
STORED = "stored.json"  # of a replica that a pump brings out of a store of objects
NEWER = "use the newer release again"
RESTORE = "restore the file from a backup of the trail"


@dataclass(frozen=True, slots=True)
class Identity:
    """`logs_cascades`: what the source said of its log when it was opened last (K1); None: it was not asked yet."""

    job: str
    job_uuid: str
    source_identity: str
    format: int = FORMAT
    logs_cascades: bool | None = None


def load(storage: Storage) -> Identity | None:
    """Read the trail's identity. Returns None where no trail was begun.

    Raises TrailError for a newer format, TrailCorrupt for an unreadable file.
    """
    content = _content(storage)
    if content is None and segment_names(storage.names()):
        content = _content(storage)  # capture may begin between two looks: the file first, then a segment
        if content is None:
            raise TrailCorrupt(f"segments without {FILE} ({storage.path(FILE)})", hint=RESTORE)
    if content is None:
        return None
    try:
        data = json.loads(content)
        version = int(data["format"])
        if version > NEWEST:
            raise TrailError(
                f"the trail has format {version}, this release knows {NEWEST} ({storage.path(FILE)})", hint=NEWER
            )
        return _checked(Identity(**data))
    except (ValueError, KeyError, TypeError) as error:
        raise TrailCorrupt(f"{storage.path(FILE)} cannot be read: {error}", hint=RESTORE) from None


def _checked(found: Identity) -> Identity:
    """Return the identity unless a value has a wrong type. Raises ValueError."""
    if type(found.format) is not int or found.format < 1:
        raise ValueError(f"format {found.format!r} is none")
    if not all(isinstance(text, str) and text for text in (found.job, found.job_uuid, found.source_identity)):
        raise ValueError("job, job_uuid and source_identity have to be texts")
    if found.logs_cascades not in (True, False, None):
        raise ValueError("logs_cascades has to be true, false or null")
    return found


def _content(storage: Storage) -> bytes | None:
    try:
        return read_whole(storage, FILE)
    except NotADirectoryError as error:
        raise TrailError(f"the trail is no directory: {error.filename}", hint="move what is there away") from None
    except FileNotFoundError:
        return None


def save(storage: Storage, identity: Identity) -> None:
    storage.replace(FILE, to_json(asdict(identity)) + b"\n")


def is_replica(storage: Storage) -> bool:
    """Return whether the trail is a copy of another."""
    return REPLICA in storage.names()


def refuse_replica(storage: Storage) -> None:
    """Raise a StateError where the trail is a copy of another, which only its sender may go on with."""
    if is_replica(storage):
        raise StateError(
            f"the trail {storage.path('')} is a replica: what is in it comes from another trail, no capture may write it",
            hint="give the capture a directory of its own",
        )


def refuse_mismatch(found: Identity, ours: Identity) -> None:
    """Raise a StateError that names both values, if job or source differ."""
    if found.job_uuid != ours.job_uuid:
        raise StateError(
            f"the trail belongs to job {found.job} ({found.job_uuid}), not to {ours.job} ({ours.job_uuid})",
            hint="give each job a home of its own",
            job=ours.job,
        )
    if found.source_identity != ours.source_identity:
        raise StateError(
            f"the trail was captured from source {found.source_identity}, this is {ours.source_identity}",
            hint="connect to the former source, or load again",
            job=ours.job,
        )
