"""The trail's word on some rows of a table: which of them changed in a part of it, and to what.

Keys are compared in columns: objects are made only of rows that are asked for. One chunk is in memory at a time. What does not
live here: which part of the trail matters, and what follows (rule.py, again.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from anabranch.contracts import ValueRules
from anabranch.model.datatype import Kind
from anabranch.model.ids import TableId
from anabranch.model.schema import TableSchema
from anabranch.rows.chunk import META, BarrierKind, Chunk, Op, TableRows
from anabranch.rows.lines import cells, lines
from anabranch.spark.where import read_columns
from anabranch.trail.reader import TrailReader
from anabranch.verify.canonical import Canonical
from anabranch.verify.plan import VerifyTable
from anabranch.verify.rule import NOT_SAID, Seen, Window

MOST_TOLD = 10_000  # images of a chunk whose rows are told one by one
WHOLE = frozenset({Kind.INT8, Kind.INT16, Kind.INT32, Kind.INT64, Kind.UINT8, Kind.UINT16, Kind.UINT32, Kind.UINT64})
Bools = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]


Passing = Callable[[VerifyTable, Sequence[bytes]], Sequence[bytes | None]]
"""Return lines of `read_columns` without the columns that only a filter names; None for a row that does not pass."""


def all_pass(one: VerifyTable, rows: Sequence[bytes]) -> Sequence[bytes | None]:
    """Return rows of a table without a filter."""
    return rows


@dataclass(frozen=True)
class Parent:
    """A table whose changes change rows of another without a record in the log (K1): by its removals, and by other values in
    `columns`. `links`: source columns of the child and those of this table that they refer to, where these say which rows
    that are; () where any row may be one."""

    schema: TableSchema
    columns: frozenset[str]
    links: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...] = ()


@dataclass(frozen=True)
class Watched:
    """A table that is looked at, the tables whose changes act on it unseen, by their names, and who tells which rows pass its
    filter."""

    one: VerifyTable
    rules: ValueRules
    parents: Mapping[TableId, Parent] = field(default_factory=dict)
    passing: Passing = all_pass

    @property
    def names(self) -> frozenset[str]:
        return frozenset(map(str, (self.one.table.source, *self.parents)))


def parents_of(table: TableId, schemas: Mapping[TableId, TableSchema]) -> dict[TableId, Parent]:
    """Return the tables whose changes may reach this one by actions of foreign keys, over any number of steps."""
    columns: dict[TableId, set[str]] = {}
    open_, known = [table], set[TableId]()
    while open_:
        child = open_.pop()
        if child in known or child not in schemas:
            continue
        known.add(child)
        for key in schemas[child].foreign_keys:
            if key.changes_rows and key.parent in schemas:
                columns.setdefault(key.parent, set()).update(key.parent_columns)
                open_.append(key.parent)
    is_one_step = all(not key.changes_rows for parent in columns for key in schemas[parent].foreign_keys)
    return {
        parent: Parent(schemas[parent], frozenset(names), _links(table, parent, schemas) if is_one_step else ())
        for parent, names in columns.items()
    }


def _links(
    child: TableId, parent: TableId, schemas: Mapping[TableId, TableSchema]
) -> tuple[tuple[tuple[str, ...], tuple[str, ...]], ...]:
    """Return the columns of all acting keys between two tables; () where equal values may be written in two ways."""
    keys = [key for key in schemas[child].foreign_keys if key.changes_rows and key.parent == parent]
    columns = [schemas[child].column(name) for key in keys for name in key.columns]
    columns += [schemas[parent].column(name) for key in keys for name in key.parent_columns]
    if any(column.type is None or column.type.kind not in WHOLE for column in columns):
        return ()
    return tuple((key.columns, key.parent_columns) for key in keys)


def is_touched(trail: TrailReader, watched: Watched, after: int, upto: int) -> bool:
    """Return whether anything happened to any row of the table behind `after`, up to `upto`."""
    for chunk in _chunks(trail, watched, after, upto):
        if _has_barrier(chunk, watched):
            return True
        for rows in chunk.tables:
            is_it = rows.table == watched.one.table.source
            if rows.batch.num_rows and (is_it or _acts(rows, watched, rows.batch.num_rows)):
                return True
    return False


def seen(
    trail: TrailReader,
    watched: Watched,
    keys: Sequence[bytes],
    window: Window,
    is_over: Callable[[], bool] = lambda: False,
) -> Seen:
    """Return what the trail says of rows with these keys (their cells, as `key_of` gives them) in the window. Where there is no
    time to read all of it, anything may have happened."""
    found, wanted = Seen(), pa.array(keys, pa.binary())
    after = window.first if window.since is None else min(window.since, window.first)
    for chunk in _chunks(trail, watched, after, window.end):
        is_inside = chunk.last_sequence > window.first
        if is_over() or (is_inside and _has_barrier(chunk, watched)):
            found.is_all = True
        for rows in chunk.tables:
            count = _until(chunk, rows, window.last)
            if count and rows.table == watched.one.table.source:
                _take(found, watched, wanted, _Rows(rows, chunk.first_sequence, count), window)
            if count and is_inside and _acts(rows, watched, count):
                _reach(found, watched, _Rows(rows, chunk.first_sequence, count))
        if found.is_all:
            return found
    _finish(found, watched)
    return found


def _finish(found: Seen, watched: Watched) -> None:
    """Make rows that are compared of lines as the log has them: those that pass the filter, asked for all of them at once."""
    of_log = {*found.values.values(), *(line for some in found.told.values() for line in some)}
    lines_ = sorted(line for line in of_log if line is not None and line != NOT_SAID)
    canonical, rows = Canonical(watched.one.table), dict[bytes | None, bytes | None]({None: None, NOT_SAID: NOT_SAID})
    for line, row in zip(lines_, watched.passing(watched.one, lines_), strict=True):
        rows[line] = None if row is None else canonical.rows(row + b"\n")[0]
    found.values = {key: rows[line] for key, line in found.values.items()}
    found.told = {key: {rows[line] for line in some} for key, some in found.told.items()}


def changed(trail: TrailReader, watched: Watched, after: int, upto: int, most: int) -> Iterator[list[bytes] | None]:
    """Yield the keys of rows that changed behind `after`, up to `upto`, in lists of some `most`; a key may come in
    several. None, and nothing more, where all rows may have changed."""
    keys: set[bytes] = set()
    for chunk in _chunks(trail, watched, after, upto):
        if _has_barrier(chunk, watched):
            yield None
            return
        for rows in chunk.tables:
            if not (count := rows.batch.num_rows):
                continue
            found = None
            if rows.table == watched.one.table.source and rows.version == watched.one.schema.version:
                found = _keys(watched, _Rows(rows, chunk.first_sequence, count))
            if _acts(rows, watched, count) or (found is None and rows.table == watched.one.table.source):
                yield None
                return
            keys.update(pc.unique(found).to_pylist() if found is not None else ())
        if len(keys) >= most:
            yield sorted(keys)
            keys.clear()
    yield sorted(keys)


def has_barrier(trail: TrailReader, watched: Watched, after: int, upto: int) -> bool:
    """Return whether the table was emptied, parked or defined anew behind `after`, up to `upto`."""
    return any(_has_barrier(chunk, watched) for chunk in _chunks(trail, watched, after, upto))


def _chunks(trail: TrailReader, watched: Watched, after: int, upto: int) -> Iterator[Chunk]:
    """Load the chunks with rows or barriers that matter, cut to what was asked for."""
    names = watched.names
    for ref in trail.descriptors(after, upto) if after < upto else ():
        if ref.has_barriers or not names.isdisjoint(name for name, _ in ref.tables):
            yield trail.load(ref)


def _has_barrier(chunk: Chunk, watched: Watched) -> bool:
    """Return whether the table was emptied, parked or defined anew: that concerns all of its rows."""
    concern = (barrier for barrier in chunk.barriers if barrier.kind is not BarrierKind.NOTE)
    return any(str(barrier.table) in watched.names for barrier in concern)


@dataclass(frozen=True)
class _Rows:
    """The first `count` row images of a table in a chunk."""

    rows: TableRows
    first_sequence: int
    count: int

    @property
    def op(self) -> npt.NDArray[np.int8]:
        found: npt.NDArray[np.int8] = self.rows.batch.column(0).to_numpy(zero_copy_only=False)[: self.count]
        return found

    @property
    def sequences(self) -> Ints:
        return _sequences(self.rows, self.first_sequence)[: self.count]

    def present(self, places: Sequence[int]) -> Bools:
        """Return for every image whether it has all of these columns of the schema."""
        shapes = np.array([all(shape.present[p] for p in places) for shape in self.rows.shapes], dtype=bool)
        found: Bools = shapes[self.rows.batch.column(3).to_numpy(zero_copy_only=False)[: self.count]]
        return found

    def columns(self, places: Sequence[int], at: Ints) -> list[pa.Array]:
        return [self.rows.batch.column(META + place).take(pa.array(at)) for place in places]


def _take(found: Seen, watched: Watched, wanted: pa.Array, rows: _Rows, window: Window) -> None:
    """Add what images say of the wanted keys."""
    if rows.rows.version != watched.one.schema.version:
        found.is_all = True
        return
    keys = _keys(watched, rows)
    if keys is None:
        found.is_all = True
        return
    numbers = pc.fill_null(pc.index_in(keys, value_set=wanted), -1).to_numpy(zero_copy_only=False)
    hits = np.flatnonzero(numbers >= 0)
    sequences = rows.sequences[hits]
    keeps_key = (rows.op[:-1] == Op.BEFORE) & (numbers[:-1] == numbers[1:])  # nobody saw the row gone in between
    upto = hits[(sequences <= window.high) & ~np.append(keeps_key, False)[hits]]
    for number, row in zip(numbers[upto][:MOST_TOLD], _after(watched, rows, upto[:MOST_TOLD]), strict=True):
        found.told.setdefault(wanted[int(number)].as_py(), set()).add(row)
    hits, sequences = hits[sequences > window.first], sequences[sequences > window.first]
    inside = (sequences > window.low) & (sequences <= window.at)
    found.outside.update(wanted[int(number)].as_py() for number in np.unique(numbers[hits[~inside]]))
    numbers, hits = numbers[hits[inside]], hits[inside]
    last, places = np.unique(numbers[::-1], return_index=True)
    at = hits[::-1][places]
    for number, row in zip(last, _after(watched, rows, at), strict=True):
        found.values[wanted[int(number)].as_py()] = row


def _keys(watched: Watched, rows: _Rows) -> pa.Array | None:
    """Return each image's key (binary, as `key_of` gives it); None where an image does not say it."""
    table, schema = watched.one.table, watched.one.schema
    sources = dict(zip(table.columns, table.source_columns, strict=True))
    at = np.arange(rows.count)
    parts, known = [], np.ones(rows.count, dtype=bool)
    for name in table.key:
        place = schema.index_of(sources[name])
        present = rows.present([place])
        # what an image behind a change leaves out is as before it
        before = np.where(~present & (rows.op == Op.AFTER) & (at > 0), at - 1, at)
        known &= present[before]
        parts += rows.columns([place], before)
    if not known.all():
        return None
    return pc.cast(cells([table.type_of(name) for name in table.key], parts, watched.rules.nul), pa.binary())


def _after(watched: Watched, rows: _Rows, at: Ints) -> list[bytes | None]:
    """Return what the row is behind each of these images: its line of `read_columns`, None: it is gone, or NOT_SAID."""
    one, schema = watched.one, watched.one.schema
    names = read_columns(one.table, one.filter)
    places = [schema.index_of(name) for name in names]
    types = [*one.table.types, *(type for name in names[len(one.table.types) :] if (type := schema.column(name).type))]
    op = rows.op[at]
    is_there = (op == Op.INSERT) | (op == Op.AFTER)
    told = is_there & rows.present(places)[at]
    told &= ~np.isin(at, [some.row for some in rows.rows.unconverted])
    told &= not any(pa.types.is_null(rows.rows.batch.column(META + place).type) for place in places)
    found: list[bytes | None] = [NOT_SAID if there else None for there in is_there]
    if told.any():
        block = lines(types, rows.columns(places, at[told]), nul=watched.rules.nul)
        for place, row in zip(np.flatnonzero(told), block.split(b"\n")[:-1], strict=True):
            found[place] = row
    return found


def _acts(rows: TableRows, watched: Watched, count: int) -> bool:
    """Return whether one of these images changes rows of the watched table unseen, as its parent."""
    parent = watched.parents.get(rows.table)
    if parent is None:
        return False
    if rows.version != parent.schema.version:
        return True
    images = _Rows(rows, 0, count)
    if bool((images.op == Op.DELETE).any()):
        return True
    after = np.flatnonzero(images.op == Op.AFTER)
    if after.size and after[0] == 0:
        return True  # of what was before nothing is known
    return any(_is_other(images, parent.schema.index_of(name), after) for name in parent.columns)


def _reach(found: Seen, watched: Watched, rows: _Rows) -> None:
    """Note which values of the watched table a parent's changes acted on; all rows where the images do not say it."""
    parent, table = watched.parents[rows.rows.table], watched.one.table
    if not parent.links or rows.rows.version != parent.schema.version:
        found.is_all = True
        return
    gone = np.flatnonzero(rows.op != Op.INSERT)  # also what a key became: rows may have it by now
    for names, referenced in parent.links:
        places = [parent.schema.index_of(name) for name in referenced]
        if not set(names) <= set(table.source_columns) or not rows.present(places)[gone].all():
            found.is_all = True
            return
        types = [type for place in places if (type := parent.schema.columns[place].type) is not None]
        texts = cells(types, rows.columns(places, gone))
        where = tuple(table.source_columns.index(name) for name in names)
        if Canonical(table).has_forms(*where):
            found.is_all = True
            return
        found.reached.setdefault(where, set()).update(pc.cast(pc.unique(texts), pa.binary()).to_pylist())


def _is_other(images: _Rows, place: int, after: Ints) -> bool:
    """Return whether a column has another value in some image than in the one before it."""
    after = after[images.present([place])[after]]
    if not images.present([place])[after - 1].all():
        return True
    (new,), (old,) = images.columns([place], after), images.columns([place], after - 1)
    return not new.equals(old)


def _sequences(rows: TableRows, first: int) -> Ints:
    found: Ints = rows.batch.column(1).to_numpy(zero_copy_only=False).astype(np.int64) + first
    return found


def _until(chunk: Chunk, rows: TableRows, last: int) -> int:
    """Return how many of a table's images in the chunk are not behind a sequence."""
    return int(np.searchsorted(_sequences(rows, chunk.first_sequence), last, side="right"))
