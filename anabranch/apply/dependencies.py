"""Dependencies between source transactions that several appliers carry out at once: what has to be committed before one
begins.

Two transactions that name the same key of a table, or the same value of one of its unique columns, keep their order. What
this does not see (values that a transaction leaves without naming them, values that are equal to the target's collation
alone, exclusion constraints) the target's own locks and keys find, because all commit in the source's order: a statement
then waits or is refused, and its transaction is done again alone (`appliers.py`). So this saves waits; no row hangs on it.

Foreign keys need nothing here: tables whose keys act at the target never come this way (`small.py`), and where they do not
act, children are not committed before their parents, as at the source.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence

import pyarrow as pa

from anabranch.model.datatype import Kind
from anabranch.model.ids import TableId
from anabranch.rows.net import INSERT
from anabranch.rows.small import SmallChanges, SmallTransactions

FOLDED = frozenset({Kind.TEXT, Kind.ENUM, Kind.SET})  # a collation may take other spellings for equal: most fold case
NOTHING = -1


def needed(transactions: SmallTransactions, unique: Mapping[TableId, Collection[str]]) -> list[int]:
    """Return for each transaction the number of the last one before it that it depends on, NOTHING for none. `unique`: columns
    on which unique keys beside the primary key depend, by the source's table."""
    marks: list[set[Hashable]] = [set() for _ in transactions.sequences]
    for one in transactions.changes:
        for number, mark in _marks(one, unique.get(one.shape.table.source, ())):
            marks[number].add(mark)
    return last_of_same(marks)


def last_of_same(marks: Sequence[Collection[Hashable]]) -> list[int]:
    """Return for each set of marks the number of the last set before it that has one of them, NOTHING for none."""
    last: dict[Hashable, int] = {}
    found = []
    for number, each in enumerate(marks):
        found.append(max((last.get(mark, NOTHING) for mark in each), default=NOTHING))
        last.update(dict.fromkeys(each, number))
    return found


def _marks(one: SmallChanges, unique: Collection[str]) -> Iterator[tuple[int, Hashable]]:
    """Yield what each change touches, with its transaction's number: keys before and after, values of unique columns."""
    shape, numbers = one.shape, one.transactions.tolist()
    source, key, sets = shape.table.source, shape.table.key, shape.sets
    if shape.operation != INSERT:
        old = [_texts(one, place, name) for place, name in enumerate(key, len(sets))]
        yield from ((number, (source, values)) for number, values in _rows(numbers, old))
    if set(key) <= set(sets):
        new = [_texts(one, sets.index(name), name) for name in key]
        yield from ((number, (source, values)) for number, values in _rows(numbers, new))
    elif not set(key).isdisjoint(sets):  # a part of the key alone: the rest is that of the old one
        places = [sets.index(name) if name in sets else len(sets) + at for at, name in enumerate(key)]
        mixed = [_texts(one, place, name) for place, name in zip(places, key, strict=True)]
        yield from ((number, (source, values)) for number, values in _rows(numbers, mixed))
    for name in sorted(unique):
        if name in sets:
            values = _texts(one, sets.index(name), name)
            pairs = zip(numbers, values, strict=True)
            yield from ((number, (source, name, value)) for number, value in pairs if value is not None)


def _rows(numbers: Sequence[int], columns: Sequence[Sequence[str | bytes | None]]) -> Iterator[tuple[int, Hashable]]:
    return zip(numbers, zip(*columns, strict=True), strict=True)


def _texts(one: SmallChanges, place: int, name: str) -> Sequence[str | bytes | None]:
    """Return values of a column, those that a collation may compare without their case and the blanks behind them. Bytes that
    are not UTF-8 are compared as they are."""
    found: list[bytes | None] = one.columns[place].cast(pa.large_binary()).to_pylist()
    if one.shape.table.type_of(name).kind not in FOLDED:
        return found
    return [None if text is None else text.decode(errors="surrogateescape").casefold().rstrip() for text in found]
