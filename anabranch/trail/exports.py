"""Exports that a trail knows: where each has come to, kept beside the segments, so that a medium may be taken away.

What does not live here: what a parcel has in it (`exporting.py`).
"""

from __future__ import annotations

import json
import os
import re
import shutil
import uuid
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path

from anabranch.errors import ConfigError, ParcelMissing, ParcelRefused, TrailCorrupt, TrailLocked
from anabranch.failpoints import reach
from anabranch.trail import load_readers, parcel, retention
from anabranch.trail.failures import syncing, writing
from anabranch.trail.format import to_json
from anabranch.trail.lock import LockHeld, OsLock, maintenance
from anabranch.trail.storage import LocalStorage, read_whole

FOLDER = "exports"
SEGMENTS = f"{FOLDER}/segments"  # the number of the last segment of all exports of the trail, also of those forgotten
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}")


@dataclass(frozen=True, slots=True)
class Reached:
    """The place that an export has come to: the last parcel with the digest of its manifest, the last sequence in it with the
    place behind it, the number of its segment, the bytes of the schema history, and size and time of each file of a load."""

    chain: str
    sequence: int
    number: int = 0
    manifest: str = ""
    native: str = ""
    resume: str = ""
    commit_time: int = 0
    segment: int = 0
    history: int = 0
    history_sha256: str = ""
    load: dict[str, list[int]] = field(default_factory=dict)

    @property
    def position(self) -> str:
        return f"{self.sequence}@{self.native}"


def parcel_hint(directory: Path) -> str:
    """Return what is to be looked at where parcels cannot be written."""
    return f"check the rights and the disk of {directory}: the export goes on where it was"


class ExportState:
    """The state of one export, held by one process at a time. It is noted before a parcel gets its name what will be reached
    with it, so that a kill in between leaves no second parcel of that number."""

    def __init__(self, trail: Path, name: str, directory: Path) -> None:
        """Take the lock of an export. Raises TrailLocked while another process exports under this name, ConfigError for a name
        that is none."""
        if not NAME.fullmatch(name):
            raise ConfigError(f"{name!r} is no name of an export", hint="name it with --name: letters, digits, - and _")
        self.name, self.directory = name, directory
        self._storage = LocalStorage(trail)
        self._trail = trail
        self._file = f"{FOLDER}/{name}.json"
        with writing(f"export {name}"):
            self._storage.make_folder(FOLDER)
        try:
            self._lock = OsLock(trail / FOLDER / f"{name}.lock")
        except LockHeld as held:
            message = f"export {name} is being written by {held}"
            raise TrailLocked(message, hint="stop that one first, or give this one another --name") from None
        self.reached, self._next, self.former_directory = self._load()
        self._told: dict[str, list[int]] = {}  # manifests of which the trail knows that they were exported

    @property
    def reader(self) -> str:
        """The reader that the export is at the trail."""
        return reader_of(self.name)

    def begin(self, sequence: int, native: str, resume: str) -> None:
        """Begin a new export behind a sequence. Raises TrailError where the trail does not reach back so far."""
        retention.register(self._trail, self.reader, sequence)
        self._save(Reached(uuid.uuid4().hex, sequence, native=native, resume=resume), None)

    def go_on(self) -> None:
        """Be the trail's reader again, if somebody has removed it. Raises TrailError where the trail was dropped meanwhile."""
        assert self.reached
        known = retention.readers(self._trail).get(self.reader)
        if known is None or known.sequence > self.reached.sequence:
            retention.register(self._trail, self.reader, self.reached.sequence)
        self._note_loads(self.reached)

    def take_loads(self, is_wanted: bool) -> None:
        """Say to the trail whether the export has rows of loads in it: else no file of a load stays for it."""
        known = load_readers.read(self._trail, self.reader)
        if known.takes_none == is_wanted:
            load_readers.save(self._trail, self.reader, load_readers.Note(takes_none=not is_wanted))

    def settle(self, again: bool) -> None:
        """End what a killed export was about. `again`: a parcel that is nowhere is written anew. Raises ParcelMissing if it is
        nowhere, ParcelRefused for a directory with parcels of somebody else."""
        if self._next is not None:
            self._finish(self._next, again)
        self._check_directory()

    def rename_in(self, reached: Reached) -> None:
        """Give a whole parcel its name, and note it; then the trail need not keep what is in it."""
        self._save(self.reached, reached)
        reach("parcel.export.noted")
        self._put(reached)

    def next_segment(self) -> int:
        """Take the number of another segment. It grows over all exports of a trail: a replica may go on with another export."""
        with writing(f"export {self.name}"), maintenance(self._trail):
            try:
                last = int(read_whole(self._storage, SEGMENTS))
            except (FileNotFoundError, ValueError):
                last = 0
            number = max(last, self.reached.segment if self.reached else 0) + 1
            self._storage.replace(SEGMENTS, f"{number}\n".encode())
        return number

    def temporary(self, number: int) -> Path:
        return self.directory / f".{parcel.name_of(number)}.partial"

    def close(self) -> None:
        self._lock.close()

    def _put(self, reached: Reached) -> None:
        with writing(f"parcel {reached.number} in {self.directory}", parcel_hint(self.directory)):
            os.rename(self.temporary(reached.number), parcel.folder_of(self.directory, reached.number))
        sync_folder(self.directory)
        reach("parcel.export.renamed")
        self._save(reached, None)
        reach("parcel.export.reached")
        retention.advance(self._trail, self.reader, reached.sequence)
        self._note_loads(reached)

    def _note_loads(self, reached: Reached) -> None:
        """Note which loads are in parcels: their manifests come behind their files, and are those of now."""
        found = {}
        for name, stamp in reached.load.items():
            if name.endswith(f"/{load_readers.MANIFEST}") and self._told.get(name) != stamp:
                with suppress(FileNotFoundError, ValueError):
                    facts, data = os.stat(self._trail / name), read_whole(self._storage, name)
                    if [facts.st_size, facts.st_mtime_ns] == stamp:
                        table, load = load_readers.copied_load(data)
                        found[table], self._told[name] = load, stamp
        load_readers.note_copied(self._trail, self.reader, found)

    def _finish(self, coming: Reached, again: bool) -> None:
        if _has(parcel.folder_of(self.directory, coming.number), coming):
            self._save(coming, None)
        elif _has(self.temporary(coming.number), coming):
            self._put(coming)
        elif again:
            self._save(self.reached, None)
        else:
            raise ParcelMissing(
                f"parcel {coming.number} was about to be put into {self.former_directory} when export {self.name} was"
                f" interrupted, and it is not in {self.directory}",
                hint="put that medium back; if it is certain that nobody has the parcel, --again writes another one",
            )

    def _check_directory(self) -> None:
        """Refuse a directory of another export: its parcels would be taken for ours."""
        present = parcel.numbers(self.directory)
        if not present:
            return
        found, _ = parcel.read_manifest(parcel.folder_of(self.directory, present[-1]))
        ours = self.reached
        if ours is None or found.chain != ours.chain or present[-1] > ours.number:
            message = f"{self.directory} has parcel {found.number} of another export, of job {found.job}"
            raise ParcelRefused(message, hint="export into a directory of its own")

    def _load(self) -> tuple[Reached | None, Reached | None, str]:
        try:
            found = json.loads(read_whole(self._storage, self._file))
            pair = [Reached(**one) if one else None for one in (found["reached"], found["next"])]
            return pair[0], pair[1], str(found["directory"])
        except FileNotFoundError:
            return None, None, str(self.directory)
        except (ValueError, KeyError, TypeError) as error:
            path = self._storage.path(self._file)
            hint = f"restore it from a backup, or begin anew in another directory: --forget --name {self.name}"
            raise TrailCorrupt(f"{path} cannot be read: {error}", hint=hint) from None

    def _save(self, reached: Reached | None, coming: Reached | None) -> None:
        pair = {"reached": asdict(reached) if reached else None, "next": asdict(coming) if coming else None}
        with writing(f"export {self.name}"):
            self._storage.replace(self._file, to_json({"version": 1, "directory": str(self.directory)} | pair))
        self.reached, self._next = reached, coming


def reader_of(name: str) -> str:
    return f"export {name}"


def name_for(trail: Path, directory: Path) -> str:
    """Return the name of the export that writes into this directory; for a new one the directory's own. Raises ConfigError
    where that is the name of one that writes elsewhere."""
    known = directories(trail)
    for name, where in known.items():
        if where == str(directory):
            return name
    name = directory.name
    if name in known:
        message = f"export {name} writes into {known[name]}"
        hint = f"--name {name} goes on with it in {directory}; another --name begins a new one"
        raise ConfigError(message, hint=hint)
    return name


def directories(trail: Path) -> dict[str, str]:
    """Return the exports of a trail, with the directories into which they wrote last."""
    found = {}
    storage = LocalStorage(trail)
    for file in storage.names(FOLDER):
        if file.endswith(".json"):
            with suppress(ValueError, KeyError, TypeError, FileNotFoundError):  # told when it is exported
                found[file.removesuffix(".json")] = str(
                    json.loads(read_whole(storage, f"{FOLDER}/{file}"))["directory"]
                )
    return found


def forget(trail: Path, name: str, directory: Path) -> bool:
    """Remove an export: the trail keeps nothing for it any more. Returns whether there was one."""
    state = ExportState(trail, name, directory)
    try:
        storage = LocalStorage(trail)
        was = state.reached is not None
        retention.unregister(trail, state.reader)
        load_readers.forget(trail, state.reader)
        with suppress(FileNotFoundError):
            storage.remove(f"{FOLDER}/{name}.json")
        with suppress(FileNotFoundError):
            storage.remove(f"{FOLDER}/{name}.lock")
    finally:
        state.close()
    return was


def sync_folder(folder: Path) -> None:
    with syncing(str(folder)):
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)


def clear(folder: Path) -> None:
    """Remove what a killed process has left."""
    shutil.rmtree(folder, ignore_errors=True)


def _has(folder: Path, coming: Reached) -> bool:
    try:
        return parcel.digest((folder / parcel.MANIFEST).read_bytes()) == coming.manifest
    except OSError:
        return False
