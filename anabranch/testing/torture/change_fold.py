"""The rows that changes make of those that were there before: what change tables told, folded, and refused where it cannot be
right.

What a change table tells is kept as lines while it is watched (`change`, `net_change`, `end_of_range`, `wrong`), each look
with all lines so far. Which rows there were before the first of them is known when the source's order is: then it is folded.
Nothing of the product takes part. What does not live here: asking (change_snapshots.py), which states are right (check.py).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from anabranch.testing.torture.tables import LEDGER
from anabranch.testing.torture.watcher import Observation

DELETED, INSERTED, BEFORE, AFTER = 1, 2, 3, 4
SHOWN = 300  # characters of a row
CHANGE, NET, END, WRONG = b"c", b"n", b"=", b"!"


class Contradiction(Exception):
    """A change contradicts those before it."""


def change(operation: int, place: str, row: bytes) -> bytes:
    """Return the line of a row of a change table. `place`: where it stands; `row`: its columns as a line of COPY."""
    return b"%s%d %s %s\n" % (CHANGE, operation, place.encode(), row)


def net_change(operation: int, row: bytes) -> bytes:
    """Return the line of what became of a row in a range, whose changes are in front of it."""
    return b"%s%d %s\n" % (NET, operation, row)


def end_of_range(key: Sequence[int] | None) -> bytes:
    """Return the line that ends a range. `key`: places of the key's columns; None: nothing told what became of rows."""
    return b"%s%s\n" % (END, b"" if key is None else ",".join(map(str, key)).encode())


def wrong(what: str) -> bytes:
    """Return the line that says that what was read cannot be right."""
    return b"%s%s\n" % (WRONG, what.replace("\n", " ").encode())


def first_told(observations: Iterable[Observation]) -> int | None:
    """Return the number of the first transaction whose changes were seen; None where none was."""
    for one in observations:
        for line in one.contents[LEDGER].splitlines():
            if line.startswith(CHANGE):
                return int(line.rpartition(b" ")[2])
    return None


def grounded(observations: Sequence[Observation], before: Mapping[str, Sequence[bytes]]) -> list[Observation]:
    """Return the looks with rows in place of changes. `before`: the rows by table in front of the first change; {} for none
    that are known."""
    folds, found = {table: Fold(lines) for table, lines in before.items()}, list[Observation]()
    for one in observations if folds else ():
        contents, said = dict[str, bytes](), ""
        for table, told in one.contents.items():
            contents[table] = folds[table].through(told)
            said = said or folds[table].wrong
        if said:  # the ledger has numbers alone: another table shows it
            contents[next(table for table in contents if table != LEDGER)] = said.encode() + b"\n"
        found.append(replace(one, contents=contents))
    return found


@dataclass
class Fold:
    """One table's rows. `wrong`: what contradicts, from then on nothing is taken."""

    before: Sequence[bytes]
    wrong: str = field(default="", init=False)
    _taken: bytes = field(default=b"", init=False)
    _net: list[tuple[int, bytes]] = field(default_factory=list, init=False)
    _seen: bytes | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self._rows = Counter(self.before)
        self._at_begin = Counter(self._rows)  # of the range

    def through(self, told: bytes) -> bytes:
        """Return the rows behind all that was told, as lines; the same object as long as nothing was."""
        if not self.wrong and told != self._taken:
            try:
                self._go_on(told)
            except Contradiction as found:
                self.wrong = f"{type(found).__name__}: {found}"
        if self._seen is None:
            self._seen = b"".join(line + b"\n" for line in sorted(self._rows.elements()))
        return self._seen

    def _go_on(self, told: bytes) -> None:
        if not told.startswith(self._taken):
            raise Contradiction("a reader was told something else before")
        more, self._taken, self._seen = told[len(self._taken) :], told, None
        for line in more.splitlines():
            kind, rest = line[:1], line[1:]
            if kind == WRONG:
                raise Contradiction(rest.decode(errors="replace"))
            if kind == END:
                self._end_range(rest)
                continue
            if kind == NET:
                operation, _, row = rest.partition(b" ")
                self._net.append((int(operation), row))
                continue
            operation, place, row = rest.split(b" ", 2)
            self._take(int(operation), place, row)

    def _take(self, operation: int, place: bytes, row: bytes) -> None:
        self._rows[row] += 1 if operation in (INSERTED, AFTER) else -1
        if self._rows[row] < 0:
            raise Contradiction(f"at {place.decode()} a row goes that is not there: {_text(row)}")
        if not self._rows[row]:
            del self._rows[row]

    def _end_range(self, key: bytes) -> None:
        """Compare what became of rows, as the net changes say, with what the changes make of them."""
        net, self._net = self._net, []
        before, self._at_begin = self._at_begin, Counter(self._rows)
        if not key:
            return
        places = [int(place) for place in key.split(b",")]
        rows = {_key(row, places): row for row in before.elements()}
        told = set[tuple[bytes, ...]]()
        for operation, row in net:
            one = _key(row, places)
            is_there = one in rows
            if one in told or is_there != (operation in (DELETED, AFTER)) or operation == BEFORE:
                raise Contradiction(
                    f"a net change {operation} of a row that {'is' if is_there else 'was not'} there: {_text(row)}"
                )
            told.add(one)
            rows[one] = row
            if operation == DELETED:
                del rows[one]
        if (found := Counter(rows.values())) != self._rows:
            lacks, more = self._rows - found, found - self._rows
            raise Contradiction(
                f"the net changes of a range come to other rows than its changes: without {_some(lacks)}, with {_some(more)}"
            )


def _key(row: bytes, places: Sequence[int]) -> tuple[bytes, ...]:
    fields = row.split(b"\t")
    return tuple(fields[place] for place in places)


def _some(rows: Counter[bytes]) -> str:
    return ", ".join(map(_text, list(rows.elements())[:3])) or "none"


def _text(row: bytes) -> str:
    return row.decode(errors="replace")[:SHOWN]
