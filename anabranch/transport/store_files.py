"""Send the files of a load, as they were offered: those that a store has not got, a manifest behind the files that it names.

What does not live here: which files there are (`trail/replica_files.py`), a line on which the other side says what it wants
(`pump.py`).
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path

from anabranch.errors import TrailError
from anabranch.trail.replica_files import LoadFile, facts_of, load_files, turn_of
from anabranch.trail.storage import LocalStorage

LOOK = 1.0  # seconds between two looks for files
PIECE = 256 * 1024


class FilesToSend:
    """`known`: files that were sent. Not for several threads.

    Delivery: each file whole, from its first byte; one that was begun and not finished is begun again by the next object."""

    def __init__(self, directory: Path, known: dict[str, LoadFile]) -> None:
        self._storage, self._known = LocalStorage(directory), dict(known)
        self._waiting: deque[LoadFile] = deque()
        self._torn = set[str]()  # folders of which something is not as it was found
        self._looked = 0.0
        self._bytes: Iterator[tuple[LoadFile, int, bytes]] = iter(())
        self._is_under_way = False  # a file of which bytes are still to come

    @property
    def left(self) -> int:
        return len(self._waiting) + self._is_under_way

    def look(self, *, now: bool = False) -> bool:
        """Look for files that are new, or others than they were, from time to time. Returns whether any are left, the one
        that was begun among them."""
        if not self.left and (now or time.monotonic() - self._looked > LOOK):
            self._looked = time.monotonic()
            self._torn.clear()
            self._waiting.extend(one for one in load_files(self._storage) if self._known.get(one.name) != one)
        return self.left > 0

    def next(self) -> tuple[LoadFile, int, bytes] | None:
        """Return bytes of a file, and where they begin; None if nothing is waiting. Raises TrailError."""
        while (found := next(self._bytes, None)) is None:
            self._is_under_way = False
            if not self._waiting:
                return None
            self._bytes = self._opened(self._waiting.popleft())
        file, at, data = found
        self._is_under_way = at + len(data) < file.size
        return found

    def _opened(self, file: LoadFile) -> Iterator[tuple[LoadFile, int, bytes]]:
        """Yield the bytes of a file. What is not as it was found any more is not sent: the next look finds it as it is then,
        with the files that it names. A manifest is not sent either where a file before it is gone."""
        self._known[file.name] = file
        if file.sum:
            folder = os.path.dirname(file.name) + "/"
            is_torn = turn_of(file.name) > 0 and any(one.startswith(folder) for one in self._torn)
            facts = None if is_torn else facts_of(self._storage, file)
            if facts is None:
                self._forget(file)
                return
            yield from _cut(file, lambda at, length: facts[at : at + length])
            return
        try:
            readable = self._storage.open(file.name)
        except FileNotFoundError:  # the load was begun anew
            self._forget(file)
            return
        try:
            yield from _cut(file, readable.read)
        finally:
            readable.close()

    def _forget(self, file: LoadFile) -> None:
        """Send it after the next look, if it is there then."""
        self._torn.add(os.path.dirname(file.name) + "/")
        self._known.pop(file.name, None)


def _cut(file: LoadFile, read: Callable[[int, int], bytes]) -> Iterator[tuple[LoadFile, int, bytes]]:
    at = 0
    while at < file.size or not at:
        data = read(at, min(PIECE, file.size - at))
        if not data and file.size:
            raise TrailError(f"{file.name} has become shorter", hint="load the table again")
        yield file, at, data
        at += max(len(data), 1)
