"""Shutting a former writer of a shared trail out, which may be asleep in the middle of anything, and may wake up.

It has files open: the segment it was writing, the schema history, the record of the published end. Each of them is replaced by
a copy under its name, before anything of it is believed. What the former writer puts into the files that it has open is in no
file of the trail from then on. Readers that have one open as well open the copy once the holder has published
(`Record.writer`), and believe only what is before the holder's first segment. Whatever the former writer would make, replace,
rename or remove by name it asks the lease for first (`Fenced`); so this does not depend on any lock. One that fell asleep
between that question and what it asked for has one such step to do when it wakes up: a segment of its number is there
already, and what is replaced under the holder is put back where that is the record of the end or the history.

Two small files are replaced by name and not put back: who the trail is of (`identity.py`), and where its keys are (`keys.py`),
which other processes write, too. One such step of a sleeper leaves what was there when it fell asleep: the next start of
capture, which compares both with its job and its source, writes them anew, and `anabranch trail rekey` the second one.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from contextlib import suppress

from anabranch.failpoints import reach
from anabranch.trail import published
from anabranch.trail.failures import writing
from anabranch.trail.format import SegmentName
from anabranch.trail.history import FILE as HISTORY
from anabranch.trail.lease import Lease
from anabranch.trail.storage import Data, Readable, Storage, Writable, read_whole

PIECE = 8 << 20
TAKEN = ".taken.tmp"
IN_PLACE = (published.FILE, HISTORY)


class Fenced:
    """A trail's storage for the holder of its lease: each change of a name asks first whether it still is that.

    Delivery: that of the storage behind it."""

    def __init__(self, storage: Storage, lease: Lease) -> None:
        self._storage, self._lease = storage, lease
        self._kept: list[_Kept] = []

    def put_back(self) -> None:
        """Put the files that are written in place back where something else has their names. The caller has asked the lease."""
        self._kept = [one for one in self._kept if not one.is_closed]
        for one in self._kept:
            one.put_back()

    def path(self, name: str) -> str:
        return self._storage.path(name)

    def names(self, folder: str = "") -> list[str]:
        return self._storage.names(folder)

    def create(self, name: str) -> Writable:
        self._lease.refuse_overtaken()
        return self._storage.create(name)

    def make_folder(self, name: str) -> None:
        self._lease.refuse_overtaken()
        self._storage.make_folder(name)

    def reopen(self, name: str) -> Writable:
        """Open it, and ask behind that: a file that was opened before the claim went is one that was replaced."""
        found = _Kept(self._storage, name) if name in IN_PLACE else self._storage.reopen(name)
        try:
            self._lease.refuse_overtaken()
        except BaseException:  # whatever it was: let go, and passed on
            found.close()
            raise
        if isinstance(found, _Kept):
            self._kept.append(found)
        return found

    def open(self, name: str) -> Readable:
        return self._storage.open(name)

    def replace(self, name: str, content: bytes, *, is_durable: bool = True) -> None:
        self._lease.refuse_overtaken()
        self._storage.replace(name, content, is_durable=is_durable)

    def rename(self, old: str, new: str) -> None:
        self._lease.refuse_overtaken()
        self._storage.rename(old, new)

    def remove(self, name: str) -> None:
        self._lease.refuse_overtaken()
        self._storage.remove(name)


class _Kept:
    """A file that its writer goes on with in place, for as long as it has the lease."""

    def __init__(self, storage: Storage, name: str) -> None:
        self._storage, self._name = storage, name
        self._open()
        self.is_closed = False

    def _open(self) -> None:
        self._file, self._seen = self._storage.reopen(self._name), self._storage.open(self._name)

    def write_at(self, offset: int, parts: Sequence[Data]) -> None:
        self._file.write_at(offset, parts)

    def sync(self) -> None:
        self._file.sync()

    def close(self) -> None:
        self.is_closed = True
        self._let_go()

    def _let_go(self) -> None:
        self._file.close()
        self._seen.close()

    def put_back(self) -> None:
        if self._seen.is_replaced():
            content = self._seen.read(0, self._seen.size())
            self._let_go()
            self._storage.replace(self._name, content)
            self._open()


def shut_out(storage: Storage) -> None:
    """Put copies in the place of all that a former writer may have open. The caller has the lease, and opens the trail behind
    this. A kill in between leaves a trail as it was, for the next one to begin with.

    The record of the end comes first: behind that the former writer can tell readers of nothing, so what it has told them of
    is in the other files by then."""
    if published.FILE not in storage.names():  # a new trail; or a damaged one, of which the recovery tells
        return
    with writing("a trail that is taken over"):
        number = _published(storage)
        for name in storage.names():
            if name.endswith(TAKEN):  # of one that was killed or overtaken here, and may be about to rename it
                with suppress(FileNotFoundError):
                    storage.remove(name)
        for name in storage.names():
            segment = SegmentName.parse(name)
            if segment and segment.number >= number and not segment.packed:
                _copied(storage, name)
        with suppress(FileNotFoundError):  # of which the recovery tells
            storage.replace(HISTORY, read_whole(storage, HISTORY))
    reach("lease.fenced")


def _published(storage: Storage) -> int:
    """Replace the record of the end by what it says, also what was told while that was done. Returns its segment's number."""
    former = storage.open(published.FILE)
    try:
        storage.replace(published.FILE, former.read(0, published.SIZE))
        last = published.read(former)
    finally:
        former.close()
    cell = storage.open(published.FILE)
    try:
        known = published.read(cell)
    finally:
        cell.close()
    if last.version > known.version:
        file = storage.reopen(published.FILE)
        try:
            published.write(file, last)
        finally:
            file.close()
    return max(last, known).number


def _copied(storage: Storage, name: str) -> None:
    temporary = f"{name}.{secrets.token_hex(8)}{TAKEN}"  # ours alone: who sleeps here renames its own copy, or none
    former, copy = storage.open(name), storage.create(temporary)
    try:
        offset = 0
        while data := former.read(offset, PIECE):
            copy.write_at(offset, [data])
            offset += len(data)
        copy.sync()
    finally:
        former.close()
        copy.close()
    storage.rename(temporary, name)
