"""Parcels: numbered directories that carry a trail to where no line leads. Their manifests, names and digests.

    000001/manifest.json    whose it is, what is in it, the digest of each file and of the manifest of the parcel before
    000001/manifest.sig     64 bytes: the signature over the bytes of manifest.json, where a key was given
    000001/<name>.segment   transactions; sequences as in the trail that they come from
    000001/history          lines of the schema history that no parcel before has
    000001/load/…           files of an initial load

A parcel is written under another name, and gets its own when it is whole: it is never changed. What does not live here:
making parcels (`exporting.py`), taking them in (`importing.py`).
"""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

from anabranch.errors import ParcelDamaged, ParcelMissing, ParcelRefused
from anabranch.trail.format import SegmentName, to_json
from anabranch.trail.signing import LENGTH, Verifier

KIND = "parcel of a trail"
FORMAT, SEALED = 1, 2  # SEALED: of one whose files are encrypted, and whose manifest has a seal
MANIFEST, SIGNATURE, HISTORY, LOAD = "manifest.json", "manifest.sig", "history", "load"
COMPLETE = f"{LOAD}/complete.json"  # of a whole job's first load
LARGEST = 64 << 20  # bytes of a manifest: one of a hundred thousand files has less
BLOCK = 1 << 20
_NUMBER = re.compile(r"\d{6,18}")
_TEXTS = ("job", "job_uuid", "source_identity", "chain", "previous", "created", "start", "end", "key")
_NUMBERS = ("trail_format", "number", "first", "last")


@dataclass(frozen=True, slots=True)
class ParcelFile:
    """`name`: its place in the parcel, and in the trail; `sha256` in hexadecimal digits."""

    name: str
    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class SegmentPlace:
    """A parcel's segment: the offsets of its last frame that counts, and behind it."""

    file: str
    frame: int
    end: int


@dataclass(frozen=True, slots=True)
class HistoryPiece:
    """A parcel's lines of the schema history: they stand behind `after` bytes with the digest `before`. 0: it is the whole."""

    after: int
    length: int
    before: str


@dataclass(frozen=True, slots=True)
class Manifest:
    """The facts of a parcel. `chain`: which export it is of; `previous`: the digest of the manifest of number - 1, "" for the
    first. `first`..`last`: its sequences; last = first - 1 where it has none. `start`, `end`: positions before and behind
    them. `key`: the name of the key that has signed it, "" for none. `seal`: of an encrypted trail, what shows that
    somebody with the trail's key has written the manifest as it is (parcel_seals.py)."""

    job: str
    job_uuid: str
    source_identity: str
    logs_cascades: bool | None
    trail_format: int
    chain: str
    number: int
    previous: str
    created: str
    first: int
    last: int
    start: str
    end: str
    key: str
    segment: SegmentPlace | None
    history: HistoryPiece | None
    files: tuple[ParcelFile, ...] = field(default=())
    seal: dict[str, Any] | None = None

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(file.size for file in self.files)

    def to_bytes(self) -> bytes:
        found = {"kind": KIND, "format": SEALED if self.seal else FORMAT} | asdict(self)
        if not self.seal:
            del found["seal"]  # releases before seals read it
        return to_json(found) + b"\n"


def load_order(name: str) -> tuple[int, str]:
    """Return the order in which files of a load come: what names others behind them, that all have come last."""
    return (2 if name == COMPLETE else 1 if name.endswith(f"/{MANIFEST}") else 0), name


def name_of(number: int) -> str:
    return f"{number:06d}"


def digest(data: bytes) -> str:
    return sha256(data).hexdigest()


def numbers(directory: Path) -> list[int]:
    """Return the numbers of the parcels in a directory, in order. Raises ParcelRefused where two have the same."""
    found: dict[int, str] = {}
    for entry in _entries(directory):
        if _NUMBER.fullmatch(entry.name) and entry.is_dir(follow_symlinks=False):
            if (number := int(entry.name)) in found:
                message = f"{directory} has parcel {number} twice: {found[number]} and {entry.name}"
                raise ParcelRefused(message, hint="leave the one in place that the export has written")
            found[number] = entry.name
    return sorted(number for number in found if number)


def folder_of(directory: Path, number: int) -> Path:
    return directory / name_of(number)


def _entries(directory: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(directory) as entries:
            return list(entries)
    except (FileNotFoundError, NotADirectoryError):
        raise ParcelRefused(
            f"there is no directory {directory}", hint="name the one that the export has written"
        ) from None


def read_manifest(folder: Path, keys: Verifier | None = None) -> tuple[Manifest, str]:
    """Return a parcel's manifest, checked against its signature if keys are given, and its digest. Raises ParcelMissing while
    it is not there, ParcelRefused for a signature or a form that is not accepted, ParcelDamaged for one that cannot be read."""
    data = _small(folder, MANIFEST, LARGEST)
    if keys is not None:
        _check_signature(folder, data, keys)
    manifest = _parsed(folder, data)
    if manifest.number != int(folder.name):
        raise ParcelRefused(
            f"{folder} says that it is parcel {manifest.number}",
            hint=f"give it the name {name_of(manifest.number)} again",
        )
    return manifest, digest(data)


def check_file(folder: Path, file: ParcelFile) -> None:
    """Read a file of a parcel. Raises ParcelDamaged where it is not what the manifest says."""
    for _ in blocks(folder, file):
        pass


def blocks(folder: Path, file: ParcelFile) -> Iterator[bytes]:
    """Yield the bytes of a file of a parcel, and raise behind the last ones, which nobody may believe before, if they are not
    those of the manifest: ParcelMissing for too few, ParcelDamaged for others."""
    found, size = sha256(), 0
    with os.fdopen(_opened(folder, file.name), "rb", buffering=0) as stream:
        while size <= file.size and (block := stream.read(BLOCK)):
            found.update(block)
            size += len(block)
            yield block
    where = f"parcel {int(folder.name)}: {file.name}"
    if size < file.size:
        raise ParcelMissing(f"{where} has {size} of {file.size} bytes ({folder / file.name})", hint=_COPY)
    if size > file.size or found.hexdigest() != file.sha256:
        raise ParcelDamaged(f"{where} is not the file that was exported ({folder / file.name})", hint=_AGAIN)


_COPY = "copy the whole parcel"
_AGAIN = "copy the parcel again from where it was exported"


def _opened(folder: Path, name: str) -> int:
    """Open a file of a parcel, which is a file and nothing that leads elsewhere."""
    place = folder
    for part in Path(name).parts:
        place = place / part
        try:
            mode = os.lstat(place).st_mode
        except FileNotFoundError:
            raise ParcelMissing(f"parcel {int(folder.name)}: {name} is not there ({place})", hint=_COPY) from None
        if not (stat.S_ISREG(mode) if place == folder / name else stat.S_ISDIR(mode)):
            raise ParcelRefused(f"parcel {int(folder.name)}: {place} is neither file nor directory", hint=_AGAIN)
    return os.open(folder / name, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)


def _small(folder: Path, name: str, most: int) -> bytes:
    with os.fdopen(_opened(folder, name), "rb") as stream:
        data = stream.read(most + 1)
    if len(data) > most:
        raise ParcelDamaged(
            f"parcel {int(folder.name)}: {name} has more than {most} bytes ({folder / name})", hint=_AGAIN
        )
    return data


def _check_signature(folder: Path, data: bytes, keys: Verifier) -> None:
    number, named = int(folder.name), ", ".join(keys.names)
    try:
        signature = _small(folder, SIGNATURE, LENGTH)
    except ParcelMissing:
        if _key_of(data):
            raise  # it is on its way
        message = f"parcel {number} is not signed, and key {named} was given ({folder})"
        raise ParcelRefused(message, hint="export with --sign-key") from None
    if not keys.accepts(data, signature):
        told = f", it says with key {_key_of(data)}" if _key_of(data) else ""
        message = f"parcel {number}: {SIGNATURE} is none of {MANIFEST} by key {named}{told} ({folder})"
        raise ParcelRefused(message, hint="one of the two was changed, or another key has signed: do not use it")


def _key_of(data: bytes) -> str:
    """Return the key that a manifest names, which is not believed."""
    try:
        return str(json.loads(data)["key"])[:64]
    except (ValueError, KeyError, TypeError):
        return ""


def _parsed(folder: Path, data: bytes) -> Manifest:
    where = f"parcel {int(folder.name)}: {MANIFEST}"
    if not data.endswith(b"\n"):
        raise ParcelMissing(f"{where} ends in its middle ({folder / MANIFEST})", hint=_COPY)
    try:
        found = json.loads(data)
        if found.pop("kind") != KIND:
            raise ValueError("it is of no parcel")
        if (version := found.pop("format")) not in (FORMAT, SEALED) or (version == SEALED) != bool(found.get("seal")):
            message = f"{where} has format {version}, this release knows {FORMAT} and, sealed, {SEALED}"
            raise ParcelRefused(message, hint="use the release that has exported it, or a newer one")
        return _typed(found)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ParcelDamaged(f"{where} cannot be read: {error} ({folder / MANIFEST})", hint=_AGAIN) from None


def _typed(found: dict[str, Any]) -> Manifest:
    """Return the manifest of what is written. Raises ValueError, KeyError or TypeError: nothing of it is believed before."""
    files = tuple(ParcelFile(**one) for one in found.pop("files"))
    segment, history = found.pop("segment"), found.pop("history")
    made = Manifest(
        **found,
        segment=SegmentPlace(**segment) if segment else None,
        history=HistoryPiece(**history) if history else None,
        files=files,
    )
    _check_types(made)
    _check_names(made)
    return made


def _check_types(made: Manifest) -> None:
    if not all(isinstance(getattr(made, name), str) for name in _TEXTS):
        raise ValueError(f"{', '.join(_TEXTS)} have to be texts")
    counts = [getattr(made, name) for name in _NUMBERS] + [file.size for file in made.files]
    counts += [made.segment.frame, made.segment.end] if made.segment else []
    counts += [made.history.after, made.history.length] if made.history else []
    if not all(type(count) is int and 0 <= count < 1 << 63 for count in counts):
        raise ValueError("a number is none")
    if made.seal is not None and not isinstance(made.seal, dict):
        raise ValueError("its seal is none")
    if made.logs_cascades not in (True, False, None) or made.last < made.first - 1 or not made.number:
        raise ValueError("its facts contradict each other")


def _check_names(made: Manifest) -> None:
    names = [file.name for file in made.files]
    if len(set(names)) != len(names) or not all(isinstance(name, str) and _is_ours(name) for name in names):
        raise ValueError("it names files that no parcel has")
    segments = [name for name in names if SegmentName.parse(name)]
    if segments != ([made.segment.file] if made.segment else []):
        raise ValueError("it has other segments than it says")
    if (HISTORY in names) != (made.history is not None):
        raise ValueError("it has another history than it says")
    if made.last >= made.first and not made.segment:
        raise ValueError("it has no segment")


def _is_ours(name: str) -> bool:
    if name == HISTORY:
        return True
    if (segment := SegmentName.parse(name)) is not None:
        return not segment.packed
    first, *parts = name.split("/")
    return first == LOAD and bool(parts) and all(part and part[0] != "." and part.isprintable() for part in parts)
