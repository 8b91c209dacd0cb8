"""Identity of rows among images: which images belong to one row, through all keys that it has had (pitfalls 9, 10). Its
life goes from the image that finds or makes it to the last.

Images of one key alternate between removals (DELETE, BEFORE) and puts (INSERT, AFTER). A row's life goes from a put to
the removal that follows it at the same key, and from a BEFORE to its AFTER, at whichever key that is. Those links form
chains; their beginnings are found by doubling steps, so that a row that changed its key a thousand times costs ten of
them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from anabranch.apply.images import Images, Ints
from anabranch.rows.chunk import Op

NOWHERE = -1


@dataclass(frozen=True)
class Groups:
    """Images sorted by (group, log order). `at` are places in the images; group g spans first[g]..last[g] of `at`."""

    at: Ints
    first: Ints
    last: Ints
    of_image: Ints  # group of every image, in log order

    @classmethod
    def by_key(cls, keys: pa.Table) -> Groups:
        return cls.by_number(_key_ids(keys))

    @classmethod
    def by_number(cls, ids: Ints) -> Groups:
        at = np.argsort(ids, kind="stable")
        is_first = np.diff(ids[at], prepend=-1) != 0
        starts = np.flatnonzero(is_first)
        of_image = np.empty(len(ids), dtype=np.int64)
        of_image[at] = np.cumsum(is_first) - 1
        return cls(at, starts, np.append(starts[1:], len(ids)) - 1, of_image)

    @property
    def first_image(self) -> Ints:
        """Return the first image of each group."""
        found: Ints = self.at[self.first]
        return found

    @property
    def last_image(self) -> Ints:
        found: Ints = self.at[self.last]
        return found


@dataclass(frozen=True)
class Rows:
    """The fates of n rows.

    `images` has one group per row; `old` is the row's key before and `new` the one after, as groups of the images by
    key, NOWHERE where the row was not there or is gone. No key occurs twice in `old`, nor in `new`.

    A key whose row was deleted and that another row was inserted under is one row: columns that the job does not write
    stay.
    """

    images: Groups
    old: Ints
    new: Ints


def rows_of_keys(images: Images, keys: Groups) -> Rows:
    """Find rows where no image changes a key: the first image tells whether the row was there, the last whether it is."""
    removal, numbers = images.is_removal, np.arange(len(keys.first))
    old = np.where(removal[keys.first_image], numbers, NOWHERE)
    new = np.where(removal[keys.last_image], NOWHERE, numbers)
    return Rows(keys, old, new)


def rows_of_lives(images: Images, keys: Groups) -> Rows:
    """Find rows where keys change. The images of each key must alternate."""
    removal = images.is_removal
    lives = Groups.by_number(_beginnings(images, keys))
    begin, end = lives.first_image, lives.last_image
    old = np.where(removal[begin], keys.of_image[begin], NOWHERE)
    new = np.where(removal[end], NOWHERE, keys.of_image[end])
    return Rows(lives, *_with_replaced(old, new, len(keys.first)))


def _beginnings(images: Images, keys: Groups) -> Ints:
    """Return per image the first one of the same row."""
    before = np.arange(len(images))
    after = np.flatnonzero(images.op == Op.AFTER)
    before[after] = after - 1
    removal = images.is_removal[keys.at]
    follows = np.ones(len(removal), dtype=bool)
    follows[keys.first] = False
    leaves = np.flatnonzero(follows & removal)
    before[keys.at[leaves]] = keys.at[leaves - 1]
    while True:
        further = before[before]
        if np.array_equal(further, before):
            return further
        before = further


def _with_replaced(old: Ints, new: Ints, keys: int) -> tuple[Ints, Ints]:
    """Put a row that was made where another one was deleted in that one's place."""
    old, new = old.copy(), new.copy()
    deleted, made = (old != NOWHERE) & (new == NOWHERE), (old == NOWHERE) & (new != NOWHERE)
    is_deleted = np.zeros(keys, dtype=bool)
    is_deleted[old[deleted]] = True
    takes = np.flatnonzero(made)[is_deleted[new[made]]]
    taken = np.zeros(keys, dtype=bool)
    taken[new[takes]] = True
    old[np.flatnonzero(deleted)[taken[old[deleted]]]] = NOWHERE
    old[takes] = new[takes]
    return old, new


def _key_ids(keys: pa.Table) -> Ints:
    """Return a number per row, equal for equal keys; dense enough not to overflow over several columns."""
    ids = np.zeros(keys.num_rows, dtype=np.int64)
    for column in keys.columns:
        codes = column.combine_chunks().dictionary_encode()
        codes = codes if isinstance(codes, pa.DictionaryArray) else codes.chunk(0)
        part = codes.indices.to_numpy(zero_copy_only=False).astype(np.int64)
        ids = np.unique(ids * (int(part.max()) + 1) + part, return_inverse=True)[1] if ids.any() else part
    return ids
