"""Change tables as a program reads them that copies changes (targets.Snapshots): it remembers how far it has read, and asks by
the access functions from behind that to what is there now.

Each look shows what was told up to the end of one more transaction of the source, so that every one of them is seen by itself.
What contradicts in the answers themselves is told as such. What does not live here: the statements (change_readers.py), the
rows that changes make (change_fold.py), which states are right (check.py).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Protocol

from anabranch.testing.torture.change_fold import (
    AFTER,
    BEFORE,
    DELETED,
    INSERTED,
    change,
    end_of_range,
    net_change,
    wrong,
)
from anabranch.testing.torture.tables import Column
from anabranch.testing.torture.targets import Snapshot


@dataclass(frozen=True, slots=True)
class Changed:
    """A row that an access function gave: places and the mask as digits, the table's columns as a line of COPY."""

    lsn: str
    seqval: str
    operation: int
    mask: str
    row: bytes


@dataclass(frozen=True, slots=True)
class Range:
    """The answers for one range. `changes`, `net` (operation, row) by table; of a table without net changes `net` has none.
    `times`: of each place in the range, its time by the source's clock."""

    changes: Mapping[str, Sequence[Changed]]
    net: Mapping[str, Sequence[tuple[int, bytes]]]
    times: Sequence[tuple[str, float]]


class Asking(Protocol):
    """A session at one kind of server, over a connection that it makes when it needs one. Every method but `close` may raise
    the family's `lost`."""

    def end(self) -> str:
        """Return the highest place; "" before there are change tables."""

    def keys(self) -> Mapping[str, Sequence[int]]:
        """Return the places of the key's columns, by table, of those that have net changes."""

    def read(self, behind: str, to: str) -> Range:
        """Return all from behind a place, "": from the beginning, up to another one."""

    def close(self) -> None:
        """Close the connection. Raises nothing."""


@dataclass
class ChangeSnapshots:
    """`columns`: of each table. What was read stays over a line that was lost."""

    asking: Asking
    columns: Mapping[str, Sequence[Column]]
    _read: str = field(default="", init=False)  # how far
    _keys: Mapping[str, Sequence[int]] | None = field(default=None, init=False)
    _waiting: deque[Mapping[str, bytes]] = field(default_factory=deque, init=False)  # what transactions tell
    _last: float = field(default=0.0, init=False)  # time of the last place

    def __post_init__(self) -> None:
        self._told = dict.fromkeys(self.columns, b"")

    def read(self) -> Snapshot:
        """Return what was told up to the end of the next transaction, or the same again. All tables are away until there are
        change tables."""
        if not self._waiting:
            self._pull()
        if self._waiting:
            for table, lines in self._waiting.popleft().items():
                self._told[table] += lines
        return Snapshot(dict(self._told), {}, frozenset() if self._read else frozenset(self.columns))

    @property
    def has_more(self) -> bool:
        if not self._waiting:
            self._pull()
        return bool(self._waiting)

    def streams(self) -> bool:
        return bool(self.asking.end())

    def close(self) -> None:
        self.asking.close()

    def _pull(self) -> None:
        """Read to what is there now. A server that has lost its last commits shows less than it did: they come again."""
        to = self.asking.end()
        if to <= self._read:
            return
        if self._keys is None:
            self._keys = self.asking.keys()
        found = self.asking.read(self._read, to)
        told = dict(self._by_transaction(found))
        for what in self._contradictions(found, to):
            place = max(told) if told else to
            told.setdefault(place, {})
            table = next(iter(self.columns))
            told[place][table] = told[place].get(table, b"") + wrong(what)
        self._waiting.extend(told[lsn] for lsn in sorted(told))
        self._read = to

    def _by_transaction(self, found: Range) -> Iterator[tuple[str, dict[str, bytes]]]:
        """Yield the lines that each transaction tells, by table. Behind the last one of a table is what became of its rows."""
        assert self._keys is not None, "so it was asked"
        places: dict[str, dict[str, list[bytes]]] = {}
        for table, rows in found.changes.items():
            for one in rows:
                line = change(one.operation, f"{one.lsn}/{one.seqval}", one.row)
                places.setdefault(one.lsn, {}).setdefault(table, []).append(line)
        last = max(places, default="")
        for table, rows in found.changes.items():
            if rows or found.net.get(table):
                net = [net_change(operation, row) for operation, row in found.net.get(table, ())]
                end = end_of_range(self._keys.get(table))
                places.setdefault(last or "0", {}).setdefault(table, []).extend((*net, end))
        for lsn in sorted(places):
            yield lsn, {table: b"".join(lines) for table, lines in places[lsn].items()}

    # --- what contradicts by itself -------------------------------------------------------------------------------------------

    def _contradictions(self, found: Range, to: str) -> Iterator[str]:
        """Say what is wrong with places, pairs and masks, whatever the rows are."""
        ordinals: dict[tuple[str, str], str] = {}
        for table, rows in found.changes.items():
            for one in rows:
                if not self._read < one.lsn <= to:
                    yield f"{table}: asked behind {self._read or 'nothing'} up to {to}, told {one}"
                if one.operation != AFTER and ordinals.setdefault((one.lsn, one.seqval), table) != table:
                    yield f"{table}: {ordinals[one.lsn, one.seqval]} has a change at the same place: {one}"
            yield from (f"{table}: {said}" for said in _wrong_order(rows))
            yield from (f"{table}: {said}" for said in _wrong_images(rows, len(self.columns[table])))
        known = dict(found.times)
        if missing := {one.lsn for rows in found.changes.values() for one in rows} - known.keys():
            yield f"no time is known of the places {sorted(missing)[:3]}"
        for place, time in sorted(known.items()):
            if time < self._last:
                yield f"the time of {place} is before that of an earlier place"
            self._last = max(self._last, time)


def _wrong_order(rows: Sequence[Changed]) -> Iterator[str]:
    for before, one in pairwise(rows):
        if (before.lsn, before.seqval, before.operation) >= (one.lsn, one.seqval, one.operation):
            yield f"{before} stands in front of {one}"


def _wrong_images(rows: Sequence[Changed], columns: int) -> Iterator[str]:
    """Say which updates have one image, and which masks do not have what changed: the first column is the lowest bit."""
    before: Changed | None = None
    for one in rows:
        if len(one.mask) != (columns + 7) // 8 * 2:
            yield f"a mask of {len(one.mask)} digits for {columns} columns: {one}"
            continue
        if one.operation == AFTER:
            yield from _wrong_pair(before, one)
            before = None
            continue
        if before is not None:
            yield f"an image of an update by itself: {before}"
        before = one if one.operation == BEFORE else None
        if one.operation in (DELETED, INSERTED) and any(not int(one.mask, 16) >> at & 1 for at in range(columns)):
            yield f"not all columns of a row that comes or goes have changed: {one}"
        elif one.operation not in (DELETED, INSERTED, BEFORE):
            yield f"no such operation: {one}"
    if before is not None:
        yield f"an image of an update by itself: {before}"


def _wrong_pair(before: Changed | None, after: Changed) -> Iterator[str]:
    if before is None:
        yield f"an image of an update by itself: {after}"
        return
    if (before.lsn, before.seqval, before.mask) != (after.lsn, after.seqval, after.mask):
        yield f"two images of an update are apart: {before}, {after}"
    pairs = zip(before.row.split(b"\t"), after.row.split(b"\t"), strict=True)
    if missing := [at for at, (old, new) in enumerate(pairs) if old != new and not int(after.mask, 16) >> at & 1]:
        yield f"the mask does not have what changed, columns {missing}: {before}, {after}"
