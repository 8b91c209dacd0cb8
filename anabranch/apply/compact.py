"""From row images to one net change per key, column-wise (K3, K8, K28). No row becomes a Python object here.

Keyed tables: images are grouped by key in log order. Whether the row was there before is told by the group's first
image, whether it is there afterwards by its last; its values are, per column, those of the last image that carries
the column. A strict stage checks that puts and removals alternate: what does not is left to the slow way, which finds
the culprit. Keyless tables: a signed count per distinct row image.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from anabranch.apply.images import Bools, Images, Ints
from anabranch.rows.chunk import Op
from anabranch.rows.net import TableNet, TargetTable, Updates


class NeedsSlowWay(Exception):
    """The stage cannot be expressed as a net change: it goes row by row, in the source's order."""

    def __init__(self, table: TargetTable, why: str) -> None:
        super().__init__(f"{table.source}: {why}")
        self.why = why


@dataclass(frozen=True)
class Groups:
    """Images sorted by (key, log order). `at` are places in the images; group g spans first[g]..last[g] of `at`."""

    at: Ints
    first: Ints
    last: Ints
    of_image: Ints  # group of every image, in log order

    @classmethod
    def by_key(cls, keys: pa.Table) -> Groups:
        ids = _key_ids(keys)
        at = np.argsort(ids, kind="stable")
        starts = np.flatnonzero(np.diff(ids[at], prepend=-1))
        ends = np.append(starts[1:], len(ids)) - 1
        of_sorted = np.cumsum(np.diff(ids[at], prepend=-1) != 0) - 1
        of_image = np.empty(len(ids), dtype=np.int64)
        of_image[at] = of_sorted
        return cls(at, starts, ends, of_image)


def compact(images: Images, table: TargetTable, *, checked: bool, has_extra_columns: bool) -> tuple[TableNet, pa.Table]:
    """The net change, and the keys (of a load window) that must be read again from the source.

    `has_extra_columns`: the target table holds columns that we do not write, so that a row whose key changes may not
    be replaced. Raises NeedsSlowWay."""
    if not table.key:
        return multiset(images, table), _no_keys(table, images)
    return _Keyed(images, table, checked, has_extra_columns).net()


class _Keyed:
    def __init__(self, images: Images, table: TargetTable, checked: bool, has_extra_columns: bool) -> None:
        self.images, self.table, self.checked, self.has_extra = images, table, checked, has_extra_columns
        self.removal = images.is_removal
        self.keys = self._complete_keys()
        self.groups = Groups.by_key(self.keys)
        first, last = self.groups.at[self.groups.first], self.groups.at[self.groups.last]
        self.was_there = self.removal[first]
        self.is_there = ~self.removal[last]

    def net(self) -> tuple[TableNet, pa.Table]:
        if self.checked:
            self._require_alternation()
        moved_from, moved_to = self._clean_moves()
        values, missing = self._final_values()
        reread = np.zeros(len(self.was_there), dtype=bool)
        deletes = self.was_there & ~self.is_there
        if not self.checked:  # a window knows nothing of what was there
            reread = self.is_there & self._receives_part_of_a_row()
            deletes, inserts = ~self.is_there, self.is_there & ~missing.any(axis=1) & ~reread
            updates = self.is_there & ~inserts & ~reread
        else:
            inserts = self.is_there & ~self.was_there
            inserts[moved_to] = False
            updates = self.is_there & self.was_there
            deletes[moved_from] = False
            if missing[inserts].any():
                raise NeedsSlowWay(self.table, "a partial image where the whole row is needed")
        moves = self._moves(moved_from, moved_to, values, missing) if self.checked else ()
        net = TableNet(
            table=self.table,
            deletes=self._keys_of(deletes),
            updates=(*moves, *self._updates(updates, values, missing)),
            inserts=values.filter(pa.array(inserts)) if inserts.any() else None,
            checked=self.checked,
        )
        return net, self.keys.take(self._first_images(reread))

    def _complete_keys(self) -> pa.Table:
        """Key columns of every image; an AFTER image that leaves a key column out has its BEFORE image's."""
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

    def _first_images(self, chosen: Bools) -> pa.Array:
        return pa.array(self.groups.at[self.groups.first[chosen]])

    def _keys_of(self, chosen: Bools) -> pa.Table | None:
        return self.keys.take(self._first_images(chosen)) if chosen.any() else None

    def _require_alternation(self) -> None:
        sequence = self.removal[self.groups.at]
        same_group = np.ones(len(sequence), dtype=bool)
        same_group[self.groups.first] = False
        if (sequence[1:] == sequence[:-1])[same_group[1:]].any():
            raise NeedsSlowWay(self.table, "changes of one key that do not follow from each other")

    def _key_changes(self) -> Ints:
        """AFTER images whose key differs from that of their BEFORE image."""
        after = np.flatnonzero(self.images.op == Op.AFTER)
        changed: Ints = after[self.groups.of_image[after] != self.groups.of_image[after - 1]]
        return changed

    def _receives_part_of_a_row(self) -> Bools:
        """Keys that a row moves to of which the log has not everything: what it lacks is not at this key."""
        moved = self._key_changes()
        marks = np.zeros(len(self.images), dtype=bool)
        marks[moved[~self.images.presence[self.images.shape[moved]].all(axis=1)]] = True
        found: Bools = np.zeros(len(self.was_there), dtype=bool)
        found[self.groups.of_image[marks]] = True
        return found

    def _clean_moves(self) -> tuple[Ints, Ints]:
        """Groups (from, to) of rows that changed their key once and meet no other row: keyed updates (pitfall 9).

        Any other key change is a delete and an insert, which is right only where the image is the whole row."""
        after = self._key_changes()
        if not self.checked or not len(after):
            return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
        origin, destination = self.groups.of_image[after - 1], self.groups.of_image[after]
        leaves = (self.groups.at[self.groups.last[origin]] == after - 1) & self.was_there[origin]
        if not self.images.is_full:  # an earlier partial image under the old key would be forgotten
            leaves &= self.groups.first[origin] == self.groups.last[origin]
        arrives = (self.groups.at[self.groups.first[destination]] == after) & self.is_there[destination]
        clean = leaves & arrives
        if not clean.all() and (self.has_extra or not self.images.is_full):
            raise NeedsSlowWay(self.table, "keys that change in a chain")
        return origin[clean], destination[clean]

    def _final_values(self) -> tuple[pa.Table, Bools]:
        """Per group the row as its last images leave it, and which columns no image of it carried."""
        last = self.groups.at[self.groups.last]
        width = len(self.table.columns)
        missing = np.zeros((len(last), width), dtype=bool)
        if self.images.is_full:
            return self.images.rows.take(pa.array(last)), missing
        columns = []
        for place, name in enumerate(self.table.columns):
            if name in self.table.key:
                columns.append(self.keys.column(name).take(pa.array(last)))
                continue
            source = self._last_carrying(place)
            missing[:, place] = source < 0
            columns.append(self.images.rows.column(place).take(pa.array(source, mask=source < 0)))
        return pa.Table.from_arrays(columns, names=list(self.table.columns)), missing

    def _last_carrying(self, place: int) -> Ints:
        """Per group the image that gives the column its final value, -1 for none."""
        at = self.groups.at
        carries = self.images.present(place)[at] & ~self.removal[at]
        latest = np.maximum.accumulate(np.where(carries, np.arange(len(at)), -1))[self.groups.last]
        found: Ints = np.where(latest >= self.groups.first, at[latest], -1)
        return found

    def _moves(self, origin: Ints, destination: Ints, values: pa.Table, missing: Bools) -> tuple[Updates, ...]:
        if not len(origin):
            return ()
        old = self.keys.take(pa.array(self.groups.at[self.groups.first[origin]]))
        return tuple(
            Updates(old.filter(mask), values.take(pa.array(destination)).filter(mask).select(names), moves_keys=True)
            for mask, names in self._by_pattern(missing[destination], set())
        )

    def _updates(self, chosen: Bools, values: pa.Table, missing: Bools) -> list[Updates]:
        if not chosen.any():
            return []
        keys = self.keys.take(self._first_images(chosen))
        rows = values.filter(pa.array(chosen))
        return [
            Updates(keys.filter(mask), rows.filter(mask).select(names))
            for mask, names in self._by_pattern(missing[chosen], set(self.table.key))
        ]

    def _by_pattern(self, missing: Bools, without: set[str]) -> list[tuple[pa.Array, list[str]]]:
        """Rows that set the same columns go into one statement; those that set none of ours into none."""
        patterns, which = np.unique(missing, axis=0, return_inverse=True)
        which = which.reshape(-1)
        found = []
        for number, pattern in enumerate(patterns):
            names = [n for n, gone in zip(self.table.columns, pattern, strict=True) if not gone and n not in without]
            if names:
                found.append((pa.array(which == number), names))
        return found


def multiset(images: Images, table: TargetTable) -> TableNet:
    """The net change of a table without a key: a signed count per distinct row. Raises NeedsSlowWay."""
    rows = images.rows
    if not images.is_full:
        rows = _completed(images, table)
    delta = pa.array(np.where(images.is_removal, -1, 1).astype(np.int64))
    names = list(table.columns)
    grouped = rows.append_column("_delta", delta).group_by(names).aggregate([("_delta", "sum")])
    grouped = grouped.filter(pc.not_equal(grouped.column("_delta_sum"), 0))
    net = grouped.select([*names, "_delta_sum"]).rename_columns([*names, "_delta"])
    return TableNet(table=table, multiset=net if net.num_rows else None)


def _completed(images: Images, table: TargetTable) -> pa.Table:
    """Whole rows: what an AFTER image leaves out did not change, so its BEFORE image has it."""
    columns = []
    for place, name in enumerate(table.columns):
        absent = ~images.present(place)
        if (absent & (images.op != Op.AFTER)).any() or (absent & np.roll(absent, 1)).any():
            raise NeedsSlowWay(table, f"an image of a table without a key lacks column {name}")
        columns.append(images.rows.column(place).take(pa.array(np.arange(len(absent)) - absent)))
    return pa.Table.from_arrays(columns, names=list(table.columns))


def _no_keys(table: TargetTable, images: Images) -> pa.Table:
    return images.rows.slice(0, 0).select(list(table.key))


def _key_ids(keys: pa.Table) -> Ints:
    """A number per row, equal for equal keys; dense enough not to overflow over several columns."""
    ids = np.zeros(keys.num_rows, dtype=np.int64)
    for column in keys.columns:
        codes = column.combine_chunks().dictionary_encode()
        codes = codes if isinstance(codes, pa.DictionaryArray) else codes.chunk(0)
        part = codes.indices.to_numpy(zero_copy_only=False).astype(np.int64)
        ids = np.unique(ids * (int(part.max()) + 1) + part, return_inverse=True)[1] if ids.any() else part
    return ids
