"""Rows that wait to be read again (K3): changes of them in the log are left out, and a key that they move to waits as
well.

Everything else in the table stays strict, so that reading again comes to an end while the source goes on.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from anabranch.apply.context import Followed, KeyTexts
from anabranch.apply.images import Bools, Images
from anabranch.rows.chunk import Op
from anabranch.rows.lines import texts


def without_waiting(images: Images, followed: Followed) -> tuple[Images, frozenset[KeyTexts]]:
    """Return the images without those of waiting rows, and the keys that wait now."""
    columns = _key_texts(images, followed)
    first = pa.array([key[0] for key in followed.waiting], pa.string())
    if not pc.any(pc.is_in(columns[0], value_set=first)).as_py():
        return images, followed.waiting
    keys: list[KeyTexts] = list(zip(*(column.to_pylist() for column in columns), strict=True))
    wait, keep = set(followed.waiting), np.ones(len(images), dtype=bool)
    for at in np.flatnonzero(images.op != Op.AFTER).tolist():
        both = keys[at : at + 2] if images.op[at] == Op.BEFORE else keys[at : at + 1]
        if not wait.isdisjoint(both):
            wait.update(both)
            keep[at : at + len(both)] = False
    return images.where(keep), frozenset(wait)


def _key_texts(images: Images, followed: Followed) -> list[pa.Array]:
    """Return the key columns of every image. A key column that an AFTER image leaves out comes from its BEFORE image."""
    found = []
    for name in followed.table.key:
        place = followed.table.columns.index(name)
        column = images.rows.column(place)
        absent: Bools = ~images.present(place) & (images.op == Op.AFTER)
        if absent.any():
            column = column.take(pa.array(np.arange(len(absent)) - absent))
        column = column.combine_chunks()
        column = column if isinstance(column, pa.Array) else pa.concat_arrays(column.chunks)
        found.append(texts(followed.table.type_of(name), column))
    return found
