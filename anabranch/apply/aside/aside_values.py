"""Values that set-aside rows have had, and the row images that concern such rows (K26).

While a row is set aside, the target differs in that row and in nothing else, as long as no later change is applied that
concerns it. Such a change

- changes the row itself,
- takes a value that the row has in a unique key,
- refers to the row, or
- takes away, or exchanges, what the row refers to.

They are found here by the values in both images. What does not live here: cascades, truncates, and what is done about
it (`permitted.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from anabranch.apply.images import Bools, Images
from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.ids import TableId
from anabranch.model.schema import TableSchema
from anabranch.rows.aside import Aside
from anabranch.rows.chunk import Op
from anabranch.rows.lines import texts
from anabranch.rows.net import TargetTable

Tuple = tuple[str | None, ...]  # values of some columns, in text form

# Kinds whose values are equal for the source exactly if their text forms are; for texts its collation decides.
EXACT = frozenset(
    {
        *(Kind.INT8, Kind.INT16, Kind.INT32, Kind.INT64, Kind.UINT8, Kind.UINT16, Kind.UINT32, Kind.UINT64),
        *(Kind.DECIMAL, Kind.BINARY, Kind.BIT, Kind.DATE, Kind.TIMESTAMP, Kind.INSTANT, Kind.DURATION, Kind.YEAR),
        Kind.UUID,
    }
)


class Side(Enum):
    """The way in which a change of a table can concern a row that is set aside."""

    ROW = "changes it again"
    COMES = "uses a unique value of it"
    REFERS = "refers to it"
    LEAVES = "takes away, or exchanges, what it refers to"


@dataclass(frozen=True, slots=True)
class Link:
    """A place where changes that concern a row are found: `columns` of `table`, compared with the values of the `own`
    columns of the row's table. `why`: the reason why columns cannot tell it; then every change of the table counts."""

    table: TableId
    columns: tuple[str, ...]
    own: tuple[str, ...]
    side: Side
    why: str = ""


@dataclass(frozen=True)
class Watch:
    """Values to look for in the images of a table: `values` of `columns` that some set-aside row of table `by` has had.
    Without columns every change counts."""

    columns: tuple[str, ...]
    values: frozenset[Tuple]
    side: Side
    by: TableId


@dataclass(frozen=True, slots=True)
class Known:
    """A table that is followed, with what is set aside of it."""

    schema: TableSchema
    table: TargetTable
    aside: Aside | None = None


def links(of: TableId, tables: Mapping[TableId, Known]) -> list[Link]:
    """Return all links by which a change may concern a row of the table. The table has a key."""
    schema, table = tables[of].schema, tables[of].table
    found = [Link(of, table.key, table.key, Side.ROW)]
    for index in schema.indexes:
        if index.unique and not index.exact:
            found.append(
                Link(of, (), (), Side.COMES, f"only the source can tell which rows index {index.name} treats as equal")
            )
        elif index.unique and set(index.columns) <= set(table.source_columns):
            columns = _names(table, index.columns)
            found.append(Link(of, columns, columns, Side.COMES))
        elif index.unique and not {source for source, _ in table.computed}.isdisjoint(index.columns):
            found.append(Link(of, (), (), Side.COMES, f"the target computes columns of index {index.name}"))
    for child, known in tables.items():
        for key in known.schema.foreign_keys:
            if key.parent in tables:
                refers, referred = (child, key.columns), (key.parent, key.parent_columns)
                found += [_link(Side.LEAVES, refers, referred, key.name, tables)] if of == child else []
                found += [_link(Side.REFERS, referred, refers, key.name, tables)] if of == key.parent else []
    return found


def _link(
    side: Side,
    own: tuple[TableId, Sequence[str]],
    other: tuple[TableId, Sequence[str]],
    name: str,
    tables: Mapping[TableId, Known],
) -> Link:
    """Return the link over a foreign key, from the end that the row is at to the other end."""
    ours, theirs = tables[own[0]].table, tables[other[0]].table
    if not (set(own[1]) <= set(ours.source_columns) and set(other[1]) <= set(theirs.source_columns)):
        why = f"the job leaves out columns of foreign key {name}"
    else:
        columns, looked_at = _names(ours, own[1]), _names(theirs, other[1])
        if all(map(_is_exact, map(ours.type_of, columns), map(theirs.type_of, looked_at))):
            return Link(other[0], looked_at, columns, side)
        why = f"only the source can tell which values foreign key {name} treats as equal"
    return Link(other[0], (), (), side, why)


def _is_exact(one: LogicalType, other: LogicalType) -> bool:
    return one.carried in EXACT and replace(one, target="") == replace(other, target="")


def _names(table: TargetTable, source: Sequence[str]) -> tuple[str, ...]:
    return tuple(table.columns[table.source_columns.index(name)] for name in source)


def watches(tables: Mapping[TableId, Known]) -> dict[TableId, tuple[Watch, ...]]:
    """Return what to look for, by the table whose images are looked at. Empty where nothing is set aside."""
    found: dict[TableId, list[Watch]] = {}
    for by, known in tables.items():
        changes = known.aside.changes if known.aside else ()
        images = [image for change in changes for image in change.images]
        for link in links(by, tables) if images else ():
            values = frozenset(tuple(image.get(name) for name in link.own) for image in images)
            some = frozenset(value for value in values if None not in value)
            if some:
                found.setdefault(link.table, []).append(Watch(link.columns, some, link.side, by))
    return {table: tuple(some) for table, some in found.items()}


def concerned(images: Images, table: TargetTable, watch: Watch) -> Iterator[tuple[int, bool]]:
    """Yield the changes that concern the watched values: the order of each, and whether the row gets another key. A
    value that an image does not carry counts as if it were one of them."""
    if not watch.columns:
        yield from ((int(order), False) for order in images.order[images.op != Op.BEFORE])
        return
    columns, known = _completed(images, table, watch.columns)
    first = pa.array({value[0] for value in watch.values}, columns[0].type)
    is_in = pc.fill_null(pc.is_in(columns[0], value_set=first), False).to_numpy(zero_copy_only=False)
    places = np.flatnonzero(is_in | ~known)
    for at in sorted({int(at) + int(images.op[at] == Op.BEFORE) for at in places}):
        old, new = _values(images, columns, known, at)
        if watch.side is Side.ROW:
            if old is UNKNOWN or new is UNKNOWN or not watch.values.isdisjoint((old, new)):
                yield int(images.order[at]), bool(images.op[at] == Op.AFTER and old != new)
        elif _moves(images, table, watch.columns, at, old, new):
            # a cascade takes rows away from the former value, and may bring others to the new one
            values = (new,) if watch.side is not Side.LEAVES else (old, new) if old is not NOTHING else ()
            if any(value is UNKNOWN or value in watch.values for value in values):
                yield int(images.order[at]), False


NOTHING: Tuple = ()  # there is no such image
UNKNOWN: Tuple = ("", "unknown", "")  # compared by identity only


def _values(images: Images, columns: Sequence[pa.Array], known: Bools, at: int) -> tuple[Tuple, Tuple]:
    """Return the values before and after a change. `at`: the place of its only image, or of its AFTER image."""

    def value(place: int) -> Tuple:
        return tuple(column[place].as_py() for column in columns) if known[place] else UNKNOWN

    op = images.op[at]
    if op == Op.AFTER:
        return value(at - 1), value(at)
    return (NOTHING, value(at)) if op == Op.INSERT else (value(at), NOTHING)


def _moves(images: Images, table: TargetTable, names: Sequence[str], at: int, old: Tuple, new: Tuple) -> bool:
    """Return whether the row gets another value in the columns, or may get one. An insert and a delete count."""
    if images.op[at] != Op.AFTER:
        return True
    if not any(images.present(table.columns.index(name))[at] for name in names):
        return False  # what an AFTER image leaves out did not change
    return old is UNKNOWN or new is UNKNOWN or old != new


def _completed(images: Images, table: TargetTable, names: Sequence[str]) -> tuple[list[pa.Array], Bools]:
    """Return columns in text form, and which images have all of them. A column that an AFTER image leaves out comes
    from its BEFORE image."""
    known = np.ones(len(images), dtype=bool)
    found = []
    for name in names:
        place = table.columns.index(name)
        column, present = images.rows.column(place), images.present(place)
        absent: Bools = ~present & (images.op == Op.AFTER)
        if absent.any():
            from_ = np.arange(len(absent)) - absent
            column, present = column.take(pa.array(from_)), present[from_]
        known &= present
        column = column.combine_chunks()
        column = column if isinstance(column, pa.Array) else pa.concat_arrays(column.chunks)
        found.append(texts(table.type_of(name), column))
    return found, known
