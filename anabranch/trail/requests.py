"""Small durable mailboxes: `load --table T` asks the capture that runs, or the next one, to bring a table in; in LOADS, where a
trail is applied, it asks the job that captures to load one.

One file per table, always replaced whole: asked, then answered by capture with the sequence at which the table joins,
or with the reason why it cannot.
"""

from __future__ import annotations

import json
import time
import uuid
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from anabranch.errors import TrailCorrupt, TrailError
from anabranch.model.ids import TableId
from anabranch.trail.failures import writing
from anabranch.trail.format import to_json
from anabranch.trail.storage import LocalStorage, read_whole
from anabranch.trail.table_files import ASKED, named

FOLDER, LOADS = "requests", "load_requests"


@dataclass(frozen=True, slots=True)
class Request:
    """`sequence` is set when it was granted (in LOADS: the number of the load), `refusal` when it was not; neither: nobody has
    seen to it yet."""

    table: TableId
    id: str
    asked: float
    sequence: int | None = None
    refusal: str = ""

    @property
    def is_pending(self) -> bool:
        return self.sequence is None and not self.refusal


class Asking:
    """A request of this process for a table. While another one's is pending, that one is shared; where its owner withdraws it,
    this one asks for itself."""

    def __init__(self, directory: str | Path, table: TableId, folder: str = FOLDER) -> None:
        self._of = directory, table, folder
        self._own = ""
        self._request = self._ask()

    def answer(self) -> Request | None:
        """Return the answered request, None as long as there is no answer."""
        found = answer(*self._of)
        if found is None or found.id != self._request.id:
            self._request = found = self._ask()
        return None if found.is_pending else found

    def withdraw(self) -> None:
        """Forget the request, unless it is another one's."""
        found = answer(*self._of)
        if found is not None and found.id == self._own:
            withdraw(*self._of)

    def _ask(self) -> Request:
        self._own = uuid.uuid4().hex
        return request_table(*self._of, self._own)


def request_table(directory: str | Path, table: TableId, folder: str = FOLDER, id: str = "") -> Request:
    """Ask for a table. A pending request for it is returned as it is; an answered one is asked anew, as `id`."""
    known = answer(directory, table, folder)
    if known and known.is_pending:
        return known
    request = Request(table, id or uuid.uuid4().hex, time.time())
    _save(directory, request, folder)
    return request


def put(directory: str | Path, request: Request, folder: str = FOLDER) -> None:
    """Put a request in place that was made elsewhere."""
    _save(directory, request, folder)


def pending(directory: str | Path, folder: str = FOLDER) -> list[Request]:
    """Return the requests that capture has to carry out, oldest first. Cheap enough for its loop."""
    storage = LocalStorage(directory)
    found = (_load(storage, name, folder) for name in storage.names(folder) if name.endswith(".json"))
    return sorted((r for r in found if r and r.is_pending), key=lambda r: r.asked)


def done(directory: str | Path, table: TableId, sequence: int, folder: str = FOLDER) -> None:
    """Note that the table joins with transaction `sequence`, which is published: call it after the flush."""
    _save(directory, replace(_known(directory, table, folder), sequence=sequence), folder)


def refuse(directory: str | Path, table: TableId, reason: str, folder: str = FOLDER) -> None:
    """Note that the table cannot be brought in."""
    _save(directory, replace(_known(directory, table, folder), refusal=reason), folder)


def answer(directory: str | Path, table: TableId, folder: str = FOLDER) -> Request | None:
    """Return the request for a table with its result; None if nobody asked."""
    return _load(LocalStorage(directory), _file(table), folder)


def withdraw(directory: str | Path, table: TableId, folder: str = FOLDER) -> None:
    """Forget the request."""
    with suppress(FileNotFoundError):  # another process that asked for the same may withdraw it at this moment
        LocalStorage(directory).remove(f"{folder}/{_file(table)}")


def _known(directory: str | Path, table: TableId, folder: str) -> Request:
    known = answer(directory, table, folder)
    if known is None:
        raise TrailError("nobody asked for this table", table=str(table))
    return known


def _save(directory: str | Path, request: Request, folder: str) -> None:
    data = asdict(request) | {"table": str(request.table)}
    with writing(f"the request for {request.table}"):
        LocalStorage(directory).replace(f"{folder}/{_file(request.table)}", to_json(data))


def _load(storage: LocalStorage, name: str, folder: str) -> Request | None:
    try:
        data = json.loads(read_whole(storage, f"{folder}/{name}"))
        return Request(**{**data, "table": TableId.parse(data["table"])})
    except FileNotFoundError:
        return None
    except (ValueError, TypeError, KeyError) as error:
        raise TrailCorrupt(f"request {name} cannot be read", hint=f"remove {folder}/{name} and ask again") from error


def _file(table: TableId) -> str:
    return f"{named(table, ASKED)}.json"
