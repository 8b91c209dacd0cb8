"""Manifests of a load in a trail: which files have a table's rows, and at which places of the log they were read.

`load/<table>/manifest.json` comes when all chunks of a load of the table are there, in place of the one before;
`load/complete.json` when the first load of the job has ended. A file that a manifest names never changes. In a trail that is
encrypted the values in it, which are where chunks begin and end, are sealed together with all that it says, checksums of files
among it; who carries it without a key reads names and sizes. What does not live here: the files of rows (chunk_files.py), the
load that is under way (ledger.py).
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from anabranch.contracts import Bounds
from anabranch.errors import TrailCorrupt, TrailError
from anabranch.model.ids import TableId
from anabranch.trail import sealed_files, sealing
from anabranch.trail.failures import writing
from anabranch.trail.format import to_json
from anabranch.trail.replica_files import gone_of
from anabranch.trail.storage import LocalStorage, read_whole
from anabranch.trail.table_files import named

FOLDER = "load"
FILE = "manifest.json"
COMPLETE = f"{FOLDER}/complete.json"
FORMAT = 1
SEALED = 2  # of a manifest whose values are sealed
AGAIN = "load the table again at the source's site: anabranch load JOB --table T"


@dataclass(frozen=True, slots=True)
class ChunkFile:
    """A file that was written: its `name` in the trail, how many rows and bytes it has, and its SHA-256 in hexadecimal."""

    name: str
    rows: int
    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class RecordedChunk:
    """A chunk of a table: `low`, `high` are LogMark.resume texts of the snapshot in which its rows were read."""

    bounds: Bounds
    low: str
    high: str
    file: ChunkFile


@dataclass(frozen=True, slots=True)
class Manifest:
    """The rows of a table, of its load number `generation`, by its definition `version` of the trail's history."""

    table: TableId
    generation: int
    version: int
    columns: tuple[str, ...]
    chunks: tuple[RecordedChunk, ...] = field(repr=False)

    @property
    def rows(self) -> int:
        return sum(chunk.file.rows for chunk in self.chunks)


def folder(table: TableId) -> str:
    """Return the folder of a table's load, below the trail."""
    return f"{FOLDER}/{named(table)}"


def file_of(table: TableId) -> str:
    return f"{folder(table)}/{FILE}"


def save(trail: Path, manifest: Manifest) -> None:
    """Put a manifest in place. The files that it names are durable already. Raises TrailKeyMissing."""
    storage = LocalStorage(trail)
    data: dict[str, Any] = {
        "format": FORMAT,
        "table": str(manifest.table),
        "generation": manifest.generation,
        "version": manifest.version,
        "columns": list(manifest.columns),
        "chunks": [_chunk(chunk) for chunk in manifest.chunks],
    }
    seal, header = sealing.begin(storage, sealed_files.header_for(storage, file_of(manifest.table)))
    if seal is not None:
        bounds = [[chunk.pop("lower"), chunk.pop("upper")] for chunk in data["chunks"]]
        data["format"] = SEALED
        data["sealed"] = {"header": header, "bounds": seal.text(to_json(bounds), to_json(data))}
    with writing(f"the manifest of {manifest.table}"):
        storage.replace(file_of(manifest.table), to_json(data) + b"\n")


def load(trail: Path, table: TableId) -> Manifest | None:
    """Read a table's manifest; None where its load has not ended. Raises TrailError for a newer format, TrailCorrupt,
    TrailKeyMissing."""
    data = _read(trail, file_of(table), SEALED)
    if data is None:
        return None
    try:
        _open(LocalStorage(trail), file_of(table), data)
        chunks = tuple(_read_chunk(chunk) for chunk in data["chunks"])
        return Manifest(table, int(data["generation"]), int(data["version"]), tuple(data["columns"]), chunks)
    except (ValueError, KeyError, TypeError, sealing.Tampered) as error:
        raise TrailCorrupt(f"{trail / file_of(table)} cannot be read: {error}", hint=AGAIN) from None


def last_number(trail: Path, table: TableId) -> int:
    """Return the highest number of a load of the table that anything in the trail knows, 0 for none. What is damaged says
    nothing: a manifest, the note of what is gone and the folders of rows each say it."""
    place, found = folder(table), [0]
    with suppress(TrailCorrupt):
        found.append(gone_of(LocalStorage(trail), place))
    with suppress(TrailCorrupt):
        manifest = load(trail, table)
        found.append(manifest.generation if manifest else 0)
    with suppress(FileNotFoundError):
        found += [int(name) for name in os.listdir(trail / place) if name.isdecimal()]
    return max(found)


def listed(trail: Path) -> frozenset[str]:
    """Return the files of all manifests that are there, as paths below the trail. Cheap: none of them is read."""
    try:
        folders = [one.name for one in os.scandir(trail / FOLDER) if one.is_dir()]
    except FileNotFoundError:
        return frozenset()
    files = (f"{FOLDER}/{name}/{FILE}" for name in folders)
    return frozenset(name for name in files if (trail / name).exists())


def complete(trail: Path, parked: Mapping[TableId, str]) -> None:
    """Note that the first load has ended. `parked`: tables that it left out, and why, which may have a value of a row in it and
    is sealed where the trail is encrypted. Raises TrailKeyMissing."""
    storage, reasons = LocalStorage(trail), {str(table): why for table, why in sorted(parked.items())}
    data: dict[str, Any] = {"format": FORMAT, "parked": reasons}
    seal, header = sealing.begin(storage, sealed_files.header_for(storage, COMPLETE)) if reasons else (None, {})
    if seal is not None:
        data = {"format": SEALED, "parked": dict.fromkeys(reasons, "")}
        data["sealed"] = {"header": header, "reasons": seal.text(to_json(list(reasons.values())), to_json(data))}
    with writing("the note that the load is complete"):
        storage.replace(COMPLETE, to_json(data) + b"\n")


def is_complete(trail: Path) -> bool:
    """Return whether the first load has ended. Needs no key. Raises TrailCorrupt, TrailError for a newer format."""
    return _read(trail, COMPLETE, SEALED) is not None


def parked(trail: Path) -> dict[TableId, str] | None:
    """Return the tables that the first load left out, and why; None where it has not ended. Raises TrailCorrupt,
    TrailError for a newer format, TrailKeyMissing."""
    data = _read(trail, COMPLETE, SEALED)
    if data is None:
        return None
    try:
        reasons, sealed = data["parked"], data.pop("sealed", None)
        if sealed is not None:
            seal = sealed_files.opened(LocalStorage(trail), COMPLETE, sealed["header"])
            opened = json.loads(seal.open_text(str(sealed["reasons"]), to_json(data)))
            reasons = dict(zip(reasons, opened, strict=True))
        return {TableId.parse(table): str(why) for table, why in reasons.items()}
    except (ValueError, KeyError, TypeError, AttributeError, sealing.Tampered) as error:
        raise TrailCorrupt(f"{trail / COMPLETE} cannot be read: {error}", hint=AGAIN) from None


def _open(storage: LocalStorage, name: str, data: dict[str, Any]) -> None:
    """Put the values of a sealed manifest where they stand in another one. Raises sealing.Tampered, TrailKeyMissing,
    ValueError, KeyError, TypeError."""
    sealed = data.pop("sealed", None)
    if sealed is None:
        sealing.refuse_plain_content(storage, name, read_whole(storage, name))
        return
    seal = sealed_files.opened(storage, name, sealed["header"])
    bounds = json.loads(seal.open_text(str(sealed["bounds"]), to_json(data)))
    for chunk, (lower, upper) in zip(data["chunks"], bounds, strict=True):
        chunk |= {"lower": lower, "upper": upper}


def _read(trail: Path, name: str, newest: int = FORMAT) -> dict[str, Any] | None:
    storage = LocalStorage(trail)
    try:
        data: dict[str, Any] = json.loads(read_whole(storage, name))
        version = int(data["format"])
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError) as error:
        raise TrailCorrupt(f"{storage.path(name)} cannot be read: {error}", hint=AGAIN) from None
    if version > newest:
        hint = "use the release that wrote it, or a later one"
        raise TrailError(f"{storage.path(name)} has format {version}, this release knows {newest}", hint=hint)
    return data


def _chunk(chunk: RecordedChunk) -> dict[str, Any]:
    file = chunk.file
    return {
        "lower": chunk.bounds.lower,
        "upper": chunk.bounds.upper,
        "low": chunk.low,
        "high": chunk.high,
        "file": file.name,
        "rows": file.rows,
        "bytes": file.bytes,
        "sha256": file.sha256,
    }


def _read_chunk(data: Mapping[str, Any]) -> RecordedChunk:
    name = str(data["file"])
    if ".." in name.split("/") or not name.startswith(f"{FOLDER}/"):
        raise ValueError(f"{name!r} is no file of a load")
    file = ChunkFile(name, int(data["rows"]), int(data["bytes"]), str(data["sha256"]))
    bounds = Bounds(_key(data["lower"]), _key(data["upper"]))
    return RecordedChunk(bounds, str(data["low"]), str(data["high"]), file)


def _key(values: Sequence[str] | None) -> tuple[str, ...] | None:
    return None if values is None else tuple(map(str, values))
