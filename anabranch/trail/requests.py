"""A small durable mailbox: `load --table T` asks the capture that runs, or the next one, to bring a table in.

One file per table, always replaced whole: asked, then answered by capture with the sequence at which the table joins,
or with the reason why it cannot.
"""

from __future__ import annotations

import json
import time
import uuid
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from urllib.parse import quote

from anabranch.errors import TrailCorrupt, TrailError
from anabranch.model.ids import TableId
from anabranch.trail.failures import writing
from anabranch.trail.format import to_json
from anabranch.trail.storage import LocalStorage, read_whole

FOLDER = "requests"


@dataclass(frozen=True, slots=True)
class Request:
    """`sequence` is set when it was granted, `refusal` when it was not; neither: capture has not seen to it yet."""

    table: TableId
    id: str
    asked: float
    sequence: int | None = None
    refusal: str = ""

    @property
    def is_pending(self) -> bool:
        return self.sequence is None and not self.refusal


def request_table(directory: str | Path, table: TableId) -> Request:
    """Ask for a table. A pending request for it is returned as it is; an answered one is asked anew."""
    known = answer(directory, table)
    if known and known.is_pending:
        return known
    request = Request(table, uuid.uuid4().hex, time.time())
    _save(directory, request)
    return request


def pending(directory: str | Path) -> list[Request]:
    """Return the requests that capture has to carry out, oldest first. Cheap enough for its loop."""
    storage = LocalStorage(directory)
    found = (_load(storage, name) for name in storage.names(FOLDER) if name.endswith(".json"))
    return sorted((r for r in found if r and r.is_pending), key=lambda r: r.asked)


def done(directory: str | Path, table: TableId, sequence: int) -> None:
    """Note that the table joins with transaction `sequence`, which is published: call it after the flush."""
    _save(directory, replace(_known(directory, table), sequence=sequence))


def refuse(directory: str | Path, table: TableId, reason: str) -> None:
    """Note that the table cannot be brought in."""
    _save(directory, replace(_known(directory, table), refusal=reason))


def answer(directory: str | Path, table: TableId) -> Request | None:
    """Return the request for a table with its result; None if nobody asked."""
    return _load(LocalStorage(directory), _file(table))


def withdraw(directory: str | Path, table: TableId) -> None:
    """Forget the request."""
    storage = LocalStorage(directory)
    if _file(table) in storage.names(FOLDER):
        storage.remove(f"{FOLDER}/{_file(table)}")


def _known(directory: str | Path, table: TableId) -> Request:
    known = answer(directory, table)
    if known is None:
        raise TrailError("nobody asked for this table", table=str(table))
    return known


def _save(directory: str | Path, request: Request) -> None:
    data = asdict(request) | {"table": str(request.table)}
    with writing(f"the request for {request.table}"):
        LocalStorage(directory).replace(f"{FOLDER}/{_file(request.table)}", to_json(data))


def _load(storage: LocalStorage, name: str) -> Request | None:
    try:
        data = json.loads(read_whole(storage, f"{FOLDER}/{name}"))
        return Request(**{**data, "table": TableId.parse(data["table"])})
    except FileNotFoundError:
        return None
    except (ValueError, TypeError, KeyError) as error:
        raise TrailCorrupt(f"request {name} cannot be read", hint=f"remove {FOLDER}/{name} and ask again") from error


def _file(table: TableId) -> str:
    return quote(str(table), safe="") + ".json"
