"""Compaction of row images to one net change per row, column-wise (K3, K8, K28). No row becomes a Python object here.

Keyed tables: images are grouped by key in log order, or, where rows change their keys, by row (row_identity.py). The
first image of a row tells whether it was there before, the last whether it is there afterwards; its values are, per
column, those of the last image that carries the column. A strict stage checks that puts and removals alternate; if they
do not, the slow way finds the culprit. Keyless tables: a signed count per distinct row image.

Updates that may take each other's unique values or keys are set apart (`Updates.contends`): the Writer carries them out
together.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from anabranch.apply.images import Bools, Images, Ints
from anabranch.apply.row_identity import NOWHERE, Groups, Rows, rows_of_keys, rows_of_lives
from anabranch.rows.chunk import Op
from anabranch.rows.net import Computed, TableNet, TargetTable, Updates


class NeedsSlowWay(Exception):
    """The stage cannot be expressed as a net change: it goes row by row, in the source's order."""

    def __init__(self, table: TargetTable, why: str) -> None:
        super().__init__(f"{table.source}: {why}")
        self.table, self.why = table.source, why


def compact(
    images: Images,
    table: TargetTable,
    *,
    checked: bool,
    unique: Collection[str] = (),
    newest_by: str = "",
    from_first: bool = False,
    computed: Computed | None = None,
) -> tuple[TableNet, pa.Table]:
    """Return the net change, and the keys (of a load window) that must be read again from the source.

    `unique`: columns on which unique keys beside the primary depend. `newest_by`: TableNet has it; `from_first`: its ages are
    those of the rows before the first change, so that a row which somebody else has changed since is a conflict. `computed`:
    columns that depend on what foreign keys change unseen. Raises NeedsSlowWay.
    """
    if not table.key:
        return multiset(images, table), _no_keys(table, images)
    keyed = _Keyed(images, table)
    return (keyed.net(unique, newest_by, from_first), _no_keys(table, images)) if checked else keyed.in_window(computed)


class _Keyed:
    def __init__(self, images: Images, table: TargetTable) -> None:
        self.images, self.table = images, table
        self.removal = images.is_removal
        self.keys = self._complete_keys()
        self.groups = Groups.by_key(self.keys)

    # --- a strict stage ------------------------------------------------------------------------------------------

    def net(self, unique: Collection[str], newest_by: str, from_first: bool = False) -> TableNet:
        self._require_alternation()
        moving = len(self._key_changes()) > 0
        rows = (rows_of_lives if moving else rows_of_keys)(self.images, self.groups)
        values, missing = self._final_values(rows.images)
        was_there, is_there = rows.old != NOWHERE, rows.new != NOWHERE
        inserts = is_there & ~was_there
        if missing[inserts].any():
            raise NeedsSlowWay(self.table, "a partial image where the whole row is needed")
        updates, gone = np.flatnonzero(was_there & is_there), was_there & ~is_there
        ages = self._ages(rows.images, newest_by, from_first) if newest_by else None
        return TableNet(
            table=self.table,
            deletes=self._old_keys(rows.old[gone]),
            updates=tuple(self._updates(rows, updates, values, missing, unique, ages)),
            inserts=values.filter(pa.array(inserts)) if inserts.any() else None,
            newest_by=newest_by,
            ages=ages.filter(pa.array(gone)) if ages is not None and gone.any() else None,
        )

    def _ages(self, rows: Groups, name: str, from_first: bool) -> pa.ChunkedArray:
        """Return per row how new its last image is, or its first."""
        place = self.table.columns.index(name)
        if not self.images.present(place).all():
            raise NeedsSlowWay(self.table, f"an image without {name}, by which the newest row is told")
        return self.images.rows.column(place).take(pa.array(rows.first_image if from_first else rows.last_image))

    def _require_alternation(self) -> None:
        sequence = self.removal[self.groups.at]
        same_group = np.ones(len(sequence), dtype=bool)
        same_group[self.groups.first] = False
        if (sequence[1:] == sequence[:-1])[same_group[1:]].any():
            raise NeedsSlowWay(self.table, "changes of one key that do not follow from each other")

    def _updates(
        self,
        rows: Rows,
        chosen: Ints,
        values: pa.Table,
        missing: Bools,
        unique: Collection[str],
        ages: pa.ChunkedArray | None,
    ) -> Iterator[Updates]:
        """Yield updates: rows that contend first, then rows that move, then all others."""
        if not len(chosen):
            return
        old, new = rows.old[chosen], rows.new[chosen]
        values, missing = values.take(pa.array(chosen)), missing[chosen]
        ages = ages.take(pa.array(chosen)) if ages is not None else None
        moves = old != new
        contends, keys = self._contend(old, new, moves, values, missing, unique), self._keys_of(old)
        for is_apart, does_move in ((True, True), (True, False), (False, True), (False, False)):
            some = np.flatnonzero((contends == is_apart) & (moves == does_move))
            if len(some):
                yield from self._by_pattern(keys, values, missing, some, does_move, is_apart, ages)

    def _contend(
        self, old: Ints, new: Ints, moves: Bools, values: pa.Table, missing: Bools, unique: Collection[str]
    ) -> Bools:
        """Find rows that take what others leave: keys within a chain of moves, and every row whose unique values
        change.

        One alone contends with nobody.
        """
        found = self._chained(old, new, moves)
        if unique:
            before = self.groups.first_image[old]
            for name in unique:
                found |= self._changes(name, before, values, missing)
        return found if np.count_nonzero(found) > 1 else np.zeros(len(old), dtype=bool)

    def _chained(self, old: Ints, new: Ints, moves: Bools) -> Bools:
        """Find rows that move to a key which another row moves away from, and those others."""
        found = np.zeros(len(old), dtype=bool)
        if moves.any():
            left, taken = (np.zeros(len(self.groups.first), dtype=bool) for _ in range(2))
            left[old[moves]] = True
            taken[new[moves]] = True
            found[moves] = left[new[moves]] | taken[old[moves]]
        return found

    def _changes(self, name: str, before: Ints, values: pa.Table, missing: Bools) -> Bools:
        """Find rows whose value in the column is another than in image `before`, or may be: that image need not carry it."""
        place = self.table.columns.index(name)
        unknown = ~self.images.present(place)[before]
        differs = _differ(self.images.rows.column(place).take(pa.array(before)), values.column(name))
        changes: Bools = ~missing[:, place] & (unknown | differs)
        return changes

    # --- a load's window: nothing is known of what was there (K3) ---------------------------------------------------

    def in_window(self, computed: Computed | None) -> tuple[TableNet, pa.Table]:
        values, missing = self._final_values(self.groups)
        is_there = ~self.removal[self.groups.last_image]
        reread = is_there & (self._receives_part_of_a_row() | self._is_computed_from_others(computed))
        inserts = is_there & ~missing.any(axis=1) & ~reread
        updates = is_there & ~inserts & ~reread
        keys = self._keys_of(np.arange(len(is_there)))
        net = TableNet(
            table=self.table,
            deletes=self._old_keys(np.flatnonzero(~is_there)),
            updates=tuple(self._by_pattern(keys, values, missing, np.flatnonzero(updates))) if updates.any() else (),
            inserts=values.filter(pa.array(inserts)) if inserts.any() else None,
            checked=False,
        )
        return net, self._keys_of(np.flatnonzero(reread))

    def _receives_part_of_a_row(self) -> Bools:
        """Find keys that a row moves to of which the log has only a part: what it lacks is not at this key."""
        moved = self._key_changes()
        marks = np.zeros(len(self.images), dtype=bool)
        marks[moved[~self.images.presence[self.images.shape[moved]].all(axis=1)]] = True
        found: Bools = np.zeros(len(self.groups.first), dtype=bool)
        found[self.groups.of_image[marks]] = True
        return found

    def _is_computed_from_others(self, computed: Computed | None) -> Bools:
        """Find keys with a computed value of which the log does not have all inputs: a foreign key may have changed the loaded
        row's since, which nothing behind the value would tell (torture seed 42663)."""
        found: Bools = np.zeros(len(self.groups.first), dtype=bool)
        if computed is None or self.images.is_full:
            return found
        columns, inputs = (
            [self.images.present(self.table.columns.index(name)) for name in names]
            for names in (computed.columns, computed.inputs)
        )
        found[
            self.groups.of_image[(self.images.op == Op.AFTER) & np.any(columns, axis=0) & ~np.all(inputs, axis=0)]
        ] = True
        return found

    # --- keys and values -------------------------------------------------------------------------------------------

    def _complete_keys(self) -> pa.Table:
        """Return the key columns of every image; an AFTER image that leaves a key column out has its BEFORE image's."""
        columns = []
        for name in self.table.key:
            place = self.table.columns.index(name)
            column = self.images.rows.column(place)
            absent = ~self.images.present(place)
            if absent.any():
                if (absent & (self.images.op != Op.AFTER)).any():
                    raise NeedsSlowWay(self.table, f"an image without the key column {name}")
                column = column.take(pa.array(np.arange(len(absent)) - absent))
            columns.append(column)
        return pa.Table.from_arrays(columns, names=list(self.table.key))

    def _keys_of(self, groups: Ints) -> pa.Table:
        return self.keys.take(pa.array(self.groups.first_image[groups]))

    def _old_keys(self, groups: Ints) -> pa.Table | None:
        return self._keys_of(groups) if len(groups) else None

    def _key_changes(self) -> Ints:
        """Return the AFTER images whose key differs from that of their BEFORE image."""
        after = np.flatnonzero(self.images.op == Op.AFTER)
        changed: Ints = after[self.groups.of_image[after] != self.groups.of_image[after - 1]]
        return changed

    def _final_values(self, rows: Groups) -> tuple[pa.Table, Bools]:
        """Return per row its values as its last images leave them, and which columns no image of it carried."""
        missing = np.zeros((len(rows.last), len(self.table.columns)), dtype=bool)
        if self.images.is_full:
            return self.images.rows.take(pa.array(rows.last_image)), missing
        columns = []
        for place, name in enumerate(self.table.columns):
            if name in self.table.key:
                columns.append(self.keys.column(name).take(pa.array(rows.last_image)))
                continue
            source = self._last_carrying(place, rows)
            missing[:, place] = source < 0
            columns.append(self.images.rows.column(place).take(pa.array(source, mask=source < 0)))
        return pa.Table.from_arrays(columns, names=list(self.table.columns)), missing

    def _last_carrying(self, place: int, rows: Groups) -> Ints:
        """Return per row the image that gives the column its final value, -1 for none."""
        carries = self.images.present(place)[rows.at] & ~self.removal[rows.at]
        latest = np.maximum.accumulate(np.where(carries, np.arange(len(rows.at)), -1))[rows.last]
        found: Ints = np.where(latest >= rows.first, rows.at[latest], -1)
        return found

    def _by_pattern(
        self,
        keys: pa.Table,
        values: pa.Table,
        missing: Bools,
        chosen: Ints,
        does_move: bool = False,
        is_apart: bool = False,
        ages: pa.ChunkedArray | None = None,
    ) -> Iterator[Updates]:
        """Yield updates in groups: rows that set the same columns go into one statement; those that set none of ours
        into none.
        """
        patterns, which = _patterns(missing[chosen])
        for number, pattern in enumerate(patterns):
            names = [
                name
                for name, gone in zip(self.table.columns, pattern, strict=True)
                if not gone and (does_move or name not in self.table.key)
            ]
            if names:
                some = chosen[which == number]
                age = ages.take(pa.array(some)) if ages is not None else None
                yield Updates(_take(keys, some), _take(values.select(names), some), does_move, is_apart, age)


def _patterns(missing: Bools) -> tuple[Bools, Ints]:
    """Return the distinct rows of `missing`, and which of them each row is."""
    if not missing.any():
        return missing[:1], np.zeros(len(missing), dtype=np.int64)
    patterns, which = np.unique(missing, axis=0, return_inverse=True)
    return patterns, which.reshape(-1)


def _take(rows: pa.Table, places: Ints) -> pa.Table:
    """Take rows at rising places."""
    return rows if len(places) == rows.num_rows else rows.take(pa.array(places))


def _differ(one: pa.ChunkedArray, other: pa.ChunkedArray) -> Bools:
    """Compare row by row, NULL being equal to NULL, floating-point numbers by their bits."""
    if pa.types.is_floating(one.type):
        bits = pa.int32() if one.type.bit_width == 32 else pa.int64()
        one, other = (pa.chunked_array([part.view(bits) for part in each.chunks], bits) for each in (one, other))
    found: Bools = pc.fill_null(pc.not_equal(one, other), False).to_numpy() | (
        pc.is_null(one).to_numpy() != pc.is_null(other).to_numpy()
    )
    return found


def multiset(images: Images, table: TargetTable) -> TableNet:
    """Return the net change of a table without a key: a signed count per distinct row. Raises NeedsSlowWay."""
    rows = images.rows
    if not images.is_full:
        rows = _completed(images, table)
    delta = pa.array(np.where(images.is_removal, -1, 1).astype(np.int64))
    places = [
        str(place) for place in range(rows.num_columns)
    ]  # a column may be called `.a`, a path to Arrow, or `_delta`
    grouped = rows.rename_columns(places).append_column("delta", delta).group_by(places).aggregate([("delta", "sum")])
    grouped = grouped.filter(pc.not_equal(grouped.column("delta_sum"), 0))
    net = grouped.select([*places, "delta_sum"]).rename_columns([*table.columns, "_delta"])
    return TableNet(table=table, multiset=net if net.num_rows else None)


def _completed(images: Images, table: TargetTable) -> pa.Table:
    """Return whole rows: what an AFTER image leaves out did not change, so its BEFORE image has it."""
    columns = []
    for place, name in enumerate(table.columns):
        absent = ~images.present(place)
        if (absent & (images.op != Op.AFTER)).any() or (absent & np.roll(absent, 1)).any():
            raise NeedsSlowWay(table, f"an image of a table without a key lacks column {name}")
        columns.append(images.rows.column(place).take(pa.array(np.arange(len(absent)) - absent)))
    return pa.Table.from_arrays(columns, names=list(table.columns))


def _no_keys(table: TargetTable, images: Images) -> pa.Table:
    return images.rows.slice(0, 0).select(list(table.key))
