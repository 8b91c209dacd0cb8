"""A small durable mailbox: `verify --repair` asks apply to put rows that differ to what they are at the source.

One file per table in a folder of its own beside the trail's segments, always replaced whole: asked, then answered by apply;
encrypted, where the trail is.
Keys are by target names, in text form.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from anabranch.errors import TrailCorrupt
from anabranch.model.ids import TableId
from anabranch.trail import sealed_files, sealing
from anabranch.trail.failures import writing
from anabranch.trail.format import to_json
from anabranch.trail.storage import LocalStorage, read_whole
from anabranch.trail.table_files import ASKED, named

Key = Mapping[str, str | None]


@dataclass(frozen=True, slots=True)
class Repair:
    """`present`: keys that the source had when it was compared; `extra`: keys that only the target had. `is_done`: then
    `refused` says which of them the target did not take, and why, the others are as at the source."""

    table: TableId
    present: tuple[Key, ...]
    extra: tuple[Key, ...]
    id: str = ""
    is_done: bool = False
    refused: tuple[tuple[Key, str], ...] = ()

    @property
    def keys(self) -> int:
        return len(self.present) + len(self.extra)


def ask(directory: str | Path, table: TableId, present: Sequence[Key], extra: Sequence[Key]) -> Repair:
    """Ask for a table's repair. A former request for the table is forgotten."""
    asked = Repair(table, tuple(present), tuple(extra), uuid.uuid4().hex)
    _save(directory, asked)
    return asked


def asked(directory: str | Path) -> list[Repair]:
    """Return the repairs that apply has to carry out. Cheap enough for its loop."""
    storage = LocalStorage(directory)
    found = (_load(storage, name) for name in storage.names() if name.endswith(".json"))
    return [one for one in found if one and not one.is_done]


def answer(directory: str | Path, repair: Repair, refused: Sequence[tuple[Key, str]]) -> None:
    """Note that a repair is done except for `refused`. One that was withdrawn, or asked anew, is left as it is."""
    known = found(directory, repair.table)
    if known is not None and known.id == repair.id:
        _save(directory, replace(repair, present=(), extra=(), is_done=True, refused=tuple(refused)))


def found(directory: str | Path, table: TableId) -> Repair | None:
    """Return the request for a table with its result; None if nobody asked."""
    return _load(LocalStorage(directory), _file(table))


def withdraw(directory: str | Path, repair: Repair) -> None:
    """Ask for it no more; what somebody else has asked for since stays."""
    known = found(directory, repair.table)
    if known is not None and known.id == repair.id:
        with suppress(FileNotFoundError):
            LocalStorage(directory).remove(_file(repair.table))


def _save(directory: str | Path, repair: Repair) -> None:
    data = asdict(repair) | {"table": str(repair.table)}
    trail, name = LocalStorage(Path(directory).parent), f"{Path(directory).name}/{_file(repair.table)}"
    seal, header = sealing.begin(trail, sealed_files.header_for(trail, name), is_readers=True)
    if seal is not None:
        data = {"sealed": {"header": header, "text": seal.text(to_json(data), name.encode())}}
    with writing(f"the repair of {repair.table}"):
        LocalStorage(directory).replace(_file(repair.table), to_json(data))


def _load(storage: LocalStorage, name: str) -> Repair | None:
    try:
        data = _opened(storage, name, json.loads(read_whole(storage, name)))
        refused = tuple((key, why) for key, why in data["refused"])
        keys = {kind: tuple(data[kind]) for kind in ("present", "extra")}
        return Repair(**{**data, **keys, "refused": refused, "table": TableId.parse(data["table"])})
    except FileNotFoundError:
        return None
    except (ValueError, TypeError, KeyError, sealing.Tampered) as error:
        raise TrailCorrupt(f"{name} cannot be read: {error}", hint="remove it, then verify again") from error


def _opened(storage: LocalStorage, file: str, data: dict[str, Any]) -> dict[str, Any]:
    """Return what a request says. Raises sealing.Tampered, TrailKeyMissing, ValueError, KeyError, TypeError."""
    if "sealed" not in data:
        return data
    trail, name = LocalStorage(storage.directory.parent), f"{storage.directory.name}/{file}"
    seal = sealed_files.opened(trail, name, data["sealed"]["header"])
    found: dict[str, Any] = json.loads(seal.open_text(str(data["sealed"]["text"]), name.encode()))
    return found


def _file(table: TableId) -> str:
    return f"{named(table, ASKED)}.json"
