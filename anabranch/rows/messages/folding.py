"""All messages of a table in one partition, folded by key to its rows; what memory does not hold goes through files.

A key is in one partition, so partitions are folded one by one, and so are parts of one, by a checksum of the key.
"""

from __future__ import annotations

import marshal
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from tempfile import TemporaryFile
from typing import IO, Any
from zlib import crc32

from anabranch.rows.messages.told import Cells, Told

MESSAGES = 200_000  # that are folded in memory at once
FILES = 128  # at most: so many are open at once

Rows = dict[bytes, Cells | None]


def folded(told: Iterable[Told], messages: int) -> Iterator[Rows]:
    """Yield the last rows by key in parts, None for keys that are gone. `messages`: how many there may be."""
    for part in _parts(told, messages):
        found: Rows = {}
        for one in part:
            if one is None:
                found = dict.fromkeys(found)
                continue
            key, cells = one
            assert not isinstance(cells, int), "the table has a key"
            before = found.get(key)
            found[key] = cells if cells is None or before is None or None not in cells else _filled(cells, before)
        yield found


def counted(told: Iterable[Told], messages: int) -> Iterator[Counter[bytes]]:
    """Yield the lines of a table without a key in parts, each with how many rows it is."""
    for part in _parts(told, messages):
        found = Counter[bytes]()
        for one in part:
            if one is None:
                found.clear()
                continue
            line, weight = one
            assert isinstance(weight, int), "the table has no key"
            found[line] += weight
        yield found


def _filled(cells: Cells, before: Cells) -> Cells:
    """Return a row with what it leaves out as it was before."""
    return tuple(was if cell is None else cell for cell, was in zip(cells, before, strict=True))


def _parts(told: Iterable[Told], messages: int) -> Iterator[Iterable[Told]]:
    """Yield disjoint parts by key, each in the order of its messages."""
    count = min(FILES, messages // MESSAGES + 1)
    if count == 1:
        yield told
        return
    with ExitStack() as open_:
        files = [open_.enter_context(TemporaryFile(prefix="anabranch-verify-")) for _ in range(count)]
        for one in told:
            for file in files if one is None else (files[crc32(one[0]) % count],):
                marshal.dump(one, file)
        for file in files:
            file.seek(0)
            yield _read(file)


def _read(file: IO[bytes]) -> Iterator[Told]:
    while True:
        try:
            found: Any = marshal.load(file)  # what this process has written
        except EOFError:
            return
        yield found
