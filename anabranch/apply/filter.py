"""A job's `where` on the stream (K27): rows that move into the filter are inserted, rows that move out are deleted.

The condition is Spark SQL. As in the load, Spark evaluates it on the columns it names. A row passes only if the
condition is true; NULL is not true.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from anabranch.apply.context import Followed
from anabranch.apply.images import Bools, Images, Ints
from anabranch.apply.unconverted import HINT, places
from anabranch.errors import RowRefused
from anabranch.rows.chunk import Op
from anabranch.rows.net import TargetTable
from anabranch.spark.engine import Engine

PREFIX = (
    "\0where "  # columns that only the filter needs travel beside the replicated ones; no database has it in a name
)


@dataclass(frozen=True)
class StreamFilter:
    """The filter of the stream, made by the driver of the apply process. Executors do not plan filtered tables."""

    engine: Engine

    def __call__(self, followed: Followed, images: Images) -> Images:
        """Return the images that pass, with the replicated columns only. `images` have the filter's columns after the
        replicated ones."""
        width = len(followed.table.columns)
        _require_converted(followed, images)
        passes = self._passes(followed, images, width)
        only = replace(
            images,
            presence=images.presence[:, :width],
            rows=images.rows.select(list(followed.table.columns)),
            unconverted=images.unconverted and _of_table(images.unconverted),
        )
        return passing(only, passes, followed)

    def _passes(self, followed: Followed, images: Images, width: int) -> Bools:
        assert followed.filter is not None
        types = {name: followed.schema.column(name).type for name in followed.filter.columns}
        columns = [self._complete(followed, images, width + place) for place in range(len(types))]
        table = pa.Table.from_arrays(columns, names=list(types))
        known = {name: type_ for name, type_ in types.items() if type_ is not None}
        result = self.engine.passes(followed.filter.text, known, table)
        passes: Bools = result.to_numpy(zero_copy_only=False).astype(bool)
        return passes

    def _complete(self, followed: Followed, images: Images, place: int) -> pa.ChunkedArray:
        """Return a column of the filter for every image. An AFTER image that left it out has its BEFORE image's value."""
        absent = ~images.present(place)
        if (absent & ((images.op != Op.AFTER) | np.roll(absent, 1))).any():
            raise RowRefused(
                "an image in the log lacks a column that the filter needs",
                table=str(followed.schema.id),
                hint="filter by key columns only, or let the source log full row images, and load the table again",
            )
        return images.rows.column(place).take(pa.array(np.arange(len(absent)) - absent))


def _of_table(unconverted: Mapping[int, Mapping[str, str]]) -> dict[int, dict[str, str]]:
    return {
        order: {name: what for name, what in marks.items() if not name.startswith(PREFIX)}
        for order, marks in unconverted.items()
    }


def _require_converted(followed: Followed, images: Images) -> None:
    """Raise RowRefused where a column of the filter has a value that could not be converted: nobody can say whether
    such a row passes."""
    assert followed.filter is not None
    for at in places(images):
        marks = images.unconverted_at(at)
        for name in followed.filter.columns:
            if what := marks.get(PREFIX + name):
                raise RowRefused(
                    f"column {name}, which the filter needs, holds {what}", table=str(followed.schema.id), hint=HINT
                )


def with_filter_columns(followed: Followed) -> TargetTable:
    """Return the table as it has to be gathered: the replicated columns, then those of the filter."""
    table = followed.table
    if followed.filter is None:
        return table
    names = followed.filter.columns
    types = tuple(type_ for name in names if (type_ := followed.schema.column(name).type) is not None)
    return replace(
        table,
        columns=(*table.columns, *(PREFIX + name for name in names)),
        types=(*table.types, *types),
        source_columns=(*table.source_columns, *names),
    )


def passing(images: Images, passes: Bools, followed: Followed) -> Images:
    """Return the images without the rows that do not pass. A row that moves in or out becomes an insert or a delete."""
    before = np.flatnonzero(images.op == Op.BEFORE)
    after = before + 1
    comes, goes = ~passes[before] & passes[after], passes[before] & ~passes[after]
    _require_whole(images, after[comes], followed)
    op = images.op.copy()
    op[before[goes]] = Op.DELETE
    op[after[comes]] = Op.INSERT
    return images.where(passes, op)


def _require_whole(images: Images, at: Ints, followed: Followed) -> None:
    if not images.presence[images.shape[at]].all():
        raise RowRefused(
            "a row now passes the filter, and the log lacks some of its columns",
            table=str(followed.schema.id),
            hint="let the source log full row images, and load the table again",
        )
