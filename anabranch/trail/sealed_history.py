"""Lines of the schema history in a trail that is encrypted: each is sealed for its place in the file, and names its data key.

A line stays a line with its checksum, so that replicas, pumps and parcels go on by lines without a key. What does not live
here: what lines say (`history.py`), from where on they have to be sealed (`keys.py`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from anabranch.trail import keys, sealed_files, sealing
from anabranch.trail.format import to_json
from anabranch.trail.sealing import Seal, Tampered
from anabranch.trail.storage import Storage, read_whole

FILE = "history"
SEALED, HEADER = "sealed", "header"


class LineSealer:
    """Seals lines that one writer adds; by another data key once the trail has another key. Not for several threads."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._stamp: tuple[object, ...] = ("not asked yet",)
        self._seal: Seal | None = None
        self._header: dict[str, Any] = {}

    def text(self, text: bytes, offset: int) -> bytes:
        """Return what a line says as it has to stand at this offset of the file. Raises TrailKeyMissing."""
        stamp = keys.stamp(self._storage)
        if stamp != self._stamp:
            self._seal, self._header = sealing.begin(self._storage, sealed_files.header_for(self._storage, FILE))
            self._stamp = stamp
        if self._seal is None:
            return text
        return to_json({SEALED: self._seal.text(text, str(offset).encode()), HEADER: self._header})


class LineOpener:
    """Opens lines of a trail's history, in any order."""

    def __init__(self, storage: Storage) -> None:
        self._storage, self._ring = storage, keys.ring(storage)
        self._seals: dict[str, Seal] = {}

    def opened(self, said: Mapping[str, Any], offset: int) -> dict[str, Any]:
        """Return what a sealed line at this offset says. Raises Tampered, TrailKeyMissing."""
        header, closed = said.get(HEADER), said.get(SEALED)
        if not isinstance(header, dict) or not isinstance(closed, str):
            raise Tampered("the line says nothing usable of its encryption")
        name = json.dumps(header, sort_keys=True)
        if name not in self._seals:
            self._seals[name] = sealed_files.opened(self._storage, FILE, header)
        found = json.loads(self._seals[name].open_text(closed, str(offset).encode()))
        if not isinstance(found, dict):
            raise Tampered("the line says nothing usable")
        return found

    def refuse_plain(self, offset: int) -> None:
        """Raise Tampered for a line that is not sealed and has to be."""
        if self._ring and any(start <= offset and (end is None or offset < end) for start, end in self._ring.history):
            raise Tampered("the line is not encrypted, and was to be")


def headers(storage: Storage) -> Iterator[Mapping[str, Any]]:
    """Yield the header of each data key by which lines are sealed."""
    found = set()
    for line in read_whole(storage, FILE).splitlines() if FILE in storage.names() else ():
        at = line.find(b'"header":')
        if (
            at >= 0
            and (text := line[at:]) not in found
            and isinstance(said := _json(line[9:]), dict)
            and SEALED in said
        ):
            found.add(text)
            yield said[HEADER]


def _json(text: bytes) -> Any:
    with suppress(ValueError):  # torn: who reads the history says so
        return json.loads(text)
    return None
