"""Readers of the loads in a trail: which tables each of them has, and files of loads that nobody needs any more.

A reader notes in `loaded/` which load of a table it has, durably; a file of a load goes when every registered reader has said
so of its table, as a segment goes behind every reader. Before files go, `gone.json` in their table's folder says it: whoever
registers later is refused, and gets no part of a load. What does not live here: what a reader makes of the rows; who is
registered (retention.py); files while they come to a replica (replica_files.py).
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

from anabranch.errors import TrailCorrupt, TrailError
from anabranch.failpoints import reach
from anabranch.trail import retention
from anabranch.trail.failures import writing
from anabranch.trail.format import to_json
from anabranch.trail.lock import maintenance
from anabranch.trail.replica_files import FOLDER as LOAD
from anabranch.trail.replica_files import GONE, LAST, gone_of
from anabranch.trail.storage import LocalStorage, read_whole

FOLDER = "loaded"
FORMAT = 1
OWN = ("load", "apply", "leave")  # names of the job whose trail it is: what it holds is not read from files
MANIFEST = LAST[0]


@dataclass(frozen=True, slots=True)
class Taken:
    """`load`: the number of a table's load in the trail that a reader takes; `by`: the reader's own number for it. `is_done`:
    the rows are where they go, durably. `is_left`: it is left aside until something else comes, or somebody does something."""

    load: int
    by: int = 0
    is_done: bool = False
    is_left: bool = False


@dataclass(frozen=True, slots=True)
class Note:
    """`tables`: by the tables' names. `left_out`: tables that the reader never takes. `takes_none`: it takes no load at all.
    `is_through`: it has taken what it takes by itself; what comes later it takes when it is asked to."""

    tables: Mapping[str, Taken] = field(default_factory=dict)
    left_out: frozenset[str] = frozenset()
    takes_none: bool = False
    is_through: bool = False

    def has(self, table: str, load: int) -> bool:
        """Return whether the reader does not need the files of this load any more."""
        taken = self.tables.get(table)
        is_taken = taken is not None and taken.is_done and taken.load >= load
        return is_taken or self.takes_none or table in self.left_out

    def awaits_others(self, table: str, load: int) -> bool:
        """Return whether the reader does not take this load by itself."""
        taken = self.tables.get(table)
        return self.is_through or (taken is not None and taken.is_left and taken.load >= load)


@dataclass(frozen=True, slots=True)
class StoredLoad:
    """A load of which the trail has a manifest: its table, number and files, and the `folder` that they are in."""

    folder: str
    table: str
    number: int
    files: frozenset[str]


@dataclass(frozen=True, slots=True)
class Unread:
    """A load that not all readers have: the bytes of its files, readers that have yet to take it, and those that have left it
    aside. No reader at all: none is registered."""

    table: str
    bytes: int
    awaited: tuple[str, ...]
    left: tuple[str, ...]

    @property
    def is_stuck(self) -> bool:
        """Return whether nobody who is there takes it without help."""
        return bool(self.left) and not set(self.awaited) - {retention.LATER}


def read(trail: Path, reader: str) -> Note:
    """Return what a reader has noted. Raises TrailCorrupt, TrailError for a newer format."""
    storage, name = LocalStorage(trail), _file(reader)
    try:
        data = json.loads(read_whole(storage, name))
        if int(data["format"]) > FORMAT:
            hint = "use the release that wrote it, or a later one"
            raise TrailError(
                f"{storage.path(name)} has format {data['format']}, this release knows {FORMAT}", hint=hint
            )
        tables = {str(table): Taken(**one) for table, one in data["tables"].items()}
        said = bool(data["takes_none"]), bool(data.get("is_through"))
        return Note(tables, frozenset(map(str, data["left_out"])), *said)
    except FileNotFoundError:
        return Note()
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        hint = "remove it: files of loads stay then until the reader has loaded the tables again"
        raise TrailCorrupt(f"{storage.path(name)} cannot be read: {error}", hint=hint) from None


def save(trail: Path, reader: str, note: Note) -> None:
    """Note what a reader has, durably, in place of what it has noted before. It has registered already."""
    tables = {table: asdict(taken) for table, taken in sorted(note.tables.items())}
    data = {"format": FORMAT, **asdict(note), "tables": tables, "left_out": sorted(note.left_out)}
    with writing(f"what {reader} has loaded"):
        (trail / FOLDER).mkdir(exist_ok=True)
        LocalStorage(trail).replace(_file(reader), to_json(data) + b"\n")


def forget(trail: Path, reader: str) -> None:
    """Forget what a reader has, which is removed, or begins anew."""
    with suppress(FileNotFoundError):
        LocalStorage(trail).remove(_file(reader))


def note_copied(trail: Path, reader: str, loads: Mapping[str, int]) -> None:
    """Note that the files of these loads, by table, are durable elsewhere. `reader`: who has copied them."""
    known = read(trail, reader)
    new = {table: Taken(load, is_done=True) for table, load in loads.items() if not known.has(table, load)}
    if new:
        save(trail, reader, replace(known, tables={**known.tables, **new}))


def copied_load(data: bytes) -> tuple[str, int]:
    """Return the table and the number of the load that a manifest is of. Raises ValueError for what is none."""
    found = _parsed("", data)
    if found is None:
        raise ValueError("it is no manifest of a load")
    return found.table, found.number


def stored(trail: Path, folders: Iterable[str] | None = None) -> Iterator[StoredLoad]:
    """Yield the loads, in all folders or these, of which the trail has a manifest and some files. One that cannot be read is
    told by who reads it."""
    storage = LocalStorage(trail)
    for folder in _folders(trail) if folders is None else folders:
        if _numbered(trail / folder):
            with suppress(FileNotFoundError):
                found = _parsed(folder, read_whole(storage, f"{folder}/{MANIFEST}"))
                if found is not None:
                    yield found


def unread(trail: Path) -> list[Unread]:
    """Return the loads that not all readers have."""
    found, notes = [], _notes(trail)
    for load in stored(trail):
        lacking = {reader: note for reader, note in notes.items() if not note.has(load.table, load.number)}
        if lacking or not notes:
            left = [one for one, note in lacking.items() if note.awaits_others(load.table, load.number)]
            awaited = (one for one in lacking if one not in left)
            found.append(Unread(load.table, sum(sizes(trail, load.files)), tuple(awaited), tuple(left)))
    return found


def sweep(trail: Path, folders: Collection[str] | None = None) -> list[str]:
    """Remove files of loads, in all folders or these, that nobody needs: those that every registered reader has, those of
    former loads of a table, and what a chunk that was killed has left. Returns their names. As long as nobody is registered,
    loads stay."""
    if next(stored(trail, folders), None) is None:
        return []
    removed: list[str] = []
    with writing("files of a load"), maintenance(trail):
        notes = _notes(trail).values()
        for load in stored(trail, folders):
            storage = LocalStorage(trail)
            is_gone = _gone(storage, load.folder) >= load.number
            if not is_gone and notes and all(note.has(load.table, load.number) for note in notes):
                storage.replace(f"{load.folder}/{GONE}", to_json({"load": load.number}) + b"\n")
                reach("trail.load.gone")
                is_gone = True
            removed += _remove(trail, load, frozenset() if is_gone else load.files)
    return removed


def size(trail: Path) -> int:
    """Return the bytes of all files of loads."""
    rows = (one for folder in _folders(trail) for one in Path(trail, folder).glob("*/*.arrow"))
    return sum(sizes(trail, map(str, rows)))


def key_of(name: str) -> str:
    """Return under which name whoever is registered as `name` notes what it has; "" for what reads no files of loads."""
    word, _, target = name.partition(" ")[0].partition("@")
    if target:
        return retention.Names(target).apply
    return "" if word in OWN else name


def _notes(trail: Path) -> dict[str, Note]:
    """Return what all readers that are registered have noted; one that has noted nothing has nothing. Who stands in for later
    ones is nobody alone: what it let go while others were there stays once they are gone."""
    keys = {key_of(name) for name in retention.readers(trail)} - {""}
    return {key: noted(trail, key) for key in sorted(keys)} if keys != {retention.LATER} else {}


def noted(trail: Path, reader: str) -> Note:
    """Return what a reader has noted; nothing, which keeps its files, where that is damaged: the reader is told of it."""
    try:
        return read(trail, reader)
    except TrailError:
        return Note()


def _remove(trail: Path, load: StoredLoad, kept: Collection[str]) -> list[str]:
    """Remove files of a table's load and those before it, but `kept`. Files of a load that comes behind it stay."""
    removed = []
    for folder in _numbered(trail / load.folder):
        if int(folder.name) > load.number:
            continue
        for file in folder.iterdir():
            name = file.relative_to(trail).as_posix()
            if name not in kept:
                file.unlink(missing_ok=True)
                removed.append(name)
        with suppress(OSError):  # something is in it
            folder.rmdir()
    return removed


def _folders(trail: Path) -> list[str]:
    """Return the folders of tables."""
    with suppress(FileNotFoundError), os.scandir(trail / LOAD) as found:
        return sorted(f"{LOAD}/{one.name}" for one in found if one.is_dir())
    return []


def sizes(trail: Path, names: Iterable[str]) -> Iterator[int]:
    """Yield the bytes of files that are there."""
    for name in names:
        with suppress(FileNotFoundError):
            yield (trail / name).stat().st_size


def _numbered(folder: Path) -> list[Path]:
    """Return the folders of a table's loads."""
    with suppress(FileNotFoundError):
        return [one for one in folder.iterdir() if one.name.isdecimal()]
    return []


def _gone(storage: LocalStorage, folder: str) -> int:
    """Return the same as `gone_of`; what is damaged is written anew."""
    with suppress(TrailCorrupt):
        return gone_of(storage, folder)
    return 0


def _parsed(folder: str, data: bytes) -> StoredLoad | None:
    try:
        found: dict[str, Any] = json.loads(data)
        files = frozenset(str(chunk["file"]) for chunk in found["chunks"])
        return StoredLoad(folder, str(found["table"]), int(found["generation"]), files)
    except (ValueError, KeyError, TypeError):
        return None


def _file(reader: str) -> str:
    return f"{FOLDER}/{quote(reader, safe='')}.json"
