"""Files below `load/` of a trail, which a replica gets, too: the rows of an initial load that travels with its trail.

Each is written whole under another name. Files of rows (`.arrow`) are never changed; a folder's `manifest.json` names its
files and comes behind them, `complete.json` and `answers.json` come last of all; these and other facts (`.json`) may be
replaced. What is in them is not looked at here, and whatever else lies there is of the job that loads.
"""

from __future__ import annotations

import json
import os
import re
import zlib
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from anabranch.errors import TrailCorrupt, TrailError
from anabranch.failpoints import reach
from anabranch.trail.failures import syncing, writing
from anabranch.trail.storage import LocalStorage, Storage, Writable, read_whole

FOLDER = "load"
LAST = ("manifest.json", "complete.json", "answers.json")  # in this order, behind everything else
ANSWERS = f"{FOLDER}/answers.json"  # about loads that were asked for at replicas (load_answers.py)
CHECKS = f"{FOLDER}/checks.json"  # answers to those who verify at replicas (checks.py)
KEYS = f"{FOLDER}/keys.json"  # data keys that were wrapped anew (keys.py), with a number that rises
FACTS = ".json"
COPIED = (".arrow", FACTS)
GONE = "gone.json"  # beside a manifest: the number of the last load whose files this trail needs no more
PART = ".part"
UNFINISHED = ".tmp"  # behind the name of a file of rows and the id of the process that writes it
NAME = re.compile(r"load(?:/[\w%@+=,~ -][\w%@+=,~ .-]{0,250}){1,4}")


@dataclass(frozen=True, slots=True)
class LoadFile:
    """A file as both sides name it. `sum`: CRC-32 of facts, which may be others later; 0 for files of rows."""

    name: str
    size: int
    sum: int = 0


def load_files(storage: LocalStorage) -> list[LoadFile]:
    """Return the files below `load/` that are whole, in the order of copying: a manifest behind its files.

    They are looked for in the opposite order: what a manifest of this list names was there before it, so it is in the list,
    too. Of facts that are replaced meanwhile either the former or the later ones are meant."""
    found = []
    for turn in range(len(LAST), -1, -1):
        for folder, _, names in os.walk(storage.directory / FOLDER):
            for name in names:
                if name.endswith(COPIED) and name != GONE and turn_of(name) == turn:
                    with suppress(FileNotFoundError):  # a load that is begun anew removes the former one's
                        found.append(_named(storage, Path(folder, name)))
    return sorted(found, key=lambda one: (turn_of(one.name), one.name))


def encrypted_names(trail: Path) -> list[str]:
    """Return the files below `load/` that are encrypted where the trail is, also those that are being written (UNFINISHED):
    these are looked for first, so that one that is finished meanwhile is among the others."""
    kinds = (f"*/*/*.arrow.*{UNFINISHED}", "*/*/*.arrow", f"*/{LAST[0]}", LAST[1], os.path.basename(CHECKS))
    return [str(one.relative_to(trail)) for kind in kinds for one in sorted((trail / FOLDER).glob(kind))]


def turn_of(name: str) -> int:
    """Return 0 for a file that may be copied at once, a higher number for one that comes behind those with lower ones."""
    base = os.path.basename(name)
    return LAST.index(base) + 1 if base in LAST else 0


def gone_of(storage: LocalStorage, folder: str) -> int:
    """Return the number of the last load in a table's folder whose files were removed because all readers had them; 0 for none.
    Raises TrailCorrupt."""
    name = f"{folder}/{GONE}"
    try:
        return int(json.loads(read_whole(storage, name))["load"])
    except FileNotFoundError:
        return 0
    except (ValueError, KeyError, TypeError) as error:
        hint = "load the table again at the source's site: anabranch load JOB --table T; then remove the file"
        raise TrailCorrupt(f"{storage.path(name)} cannot be read: {error}", hint=hint) from None


def number_of(storage: Storage, name: str) -> int:
    """Return the number of a file of facts that has one; 0 where there is none, or one that cannot be read."""
    with suppress(FileNotFoundError, ValueError, KeyError, TypeError):
        return int(json.loads(read_whole(storage, name))["number"])
    return 0


def facts_of(storage: LocalStorage, file: LoadFile) -> bytes | None:
    """Return what facts say, None if they are not those that are meant any more."""
    try:
        data = read_whole(storage, file.name)
    except FileNotFoundError:
        return None
    return data if (len(data), zlib.crc32(data)) == (file.size, file.sum) else None


def _named(storage: LocalStorage, path: Path) -> LoadFile:
    name = str(path.relative_to(storage.directory))
    if not name.endswith(FACTS):
        return LoadFile(name, path.stat().st_size)
    data = read_whole(storage, name)
    return LoadFile(name, len(data), zlib.crc32(data))


class LoadFilesCopy:
    """The files of a replica while they come. Not for several threads.

    Delivery: a file that has its name is whole and durable; until then it comes again from its first byte."""

    def __init__(self, directory: str | Path) -> None:
        self._storage = LocalStorage(directory)
        self._file: Writable | None = None
        self._name, self._length = "", 0

    def is_wanted(self, offered: LoadFile) -> bool:
        """Return whether the replica has not got the file yet, and may need it. Raises TrailError for a name that is none."""
        path = self._path(offered.name)
        folder, number, _ = ("/".join(offered.name.split("/")[:2]), *f"{offered.name}//".split("/")[2:4])
        if number.isdecimal() and int(number) <= gone_of(self._storage, folder):
            return False  # whoever reads this replica has loaded it
        try:
            if path.stat().st_size != offered.size:
                return True
            return bool(offered.sum) and zlib.crc32(read_whole(self._storage, offered.name)) != offered.sum
        except FileNotFoundError:
            return True

    def add(self, name: str, size: int, offset: int, data: bytes | memoryview) -> bool:
        """Add bytes of a file; return whether it is whole now. Raises TrailError for a name that is none or a gap, StorageFull:
        nothing counts, add them again."""
        path = self._path(name)
        with writing(name):
            if not offset:
                self._begin(path, name)
            if self._file is None or (name, offset) != (self._name, self._length) or offset + len(data) > size:
                raise TrailError(f"{name} has {self._length} bytes, others begin at {offset}", hint="connect again")
            reach("trail.replica.file")
            self._file.write_at(offset, [data])
        self._length += len(data)
        if self._length < size:
            return False
        with syncing(name):
            self._file.sync()
        self.close()
        with writing(name):
            if name == KEYS and number_of(self._storage, name + PART) < number_of(self._storage, name):
                self._storage.remove(name + PART)  # of an older copy of the other trail: what is here opens more
            else:
                self._storage.rename(name + PART, name)
        return True

    def close(self) -> None:
        if self._file:
            self._file.close()
        self._file, self._name, self._length = None, "", 0

    def _begin(self, path: Path, name: str) -> None:
        self.close()
        self._storage.make_folder(os.path.dirname(name))
        path.with_name(path.name + PART).unlink(missing_ok=True)
        self._file, self._name = self._storage.create(name + PART), name

    def _path(self, name: str) -> Path:
        if not NAME.fullmatch(name) or not name.endswith(COPIED):
            raise TrailError(f"{name!r} is no file of a load", hint="look at who sends it")
        return self._storage.directory / name
