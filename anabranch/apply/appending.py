"""Conversion of the trail's changes to batches for an Appender: chunks -> images -> a batch. Nothing is compacted and
nothing is decided.

What does not live here: epochs (`append_carrier.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from anabranch.apply.feed import Feed
from anabranch.apply.images import ORDINAL_BITS, Images, gather, sequence_of
from anabranch.apply.stage import Group
from anabranch.model.ids import TableId
from anabranch.model.schema import TableSchema
from anabranch.rows.appended import ChangeBatch, Emptied, TableChanges, committed
from anabranch.rows.chunk import BarrierKind, Chunk, Part
from anabranch.rows.net import TargetTable


def batch_of(chunks: Sequence[Chunk], tables: Mapping[TableId, tuple[TableSchema, TargetTable]]) -> ChangeBatch:
    """Return what these chunks did to the tables. The chunks must belong together: the last fragment of a large
    transaction comes with all the others. Raises StateError for rows of another definition than the table's."""
    if not chunks:
        return ChangeBatch(())
    base = chunks[0].first_sequence
    found = ((table, gather(chunks, table, schema, base)) for schema, table in tables.values())
    emptied = [
        Emptied(tables[barrier.table][1], chunk.first_sequence + barrier.tx, barrier.ordinal)
        for chunk in chunks
        for barrier in chunk.barriers
        if barrier.kind is BarrierKind.TRUNCATE and barrier.table in tables
    ]
    changes = [_changes(table, images, base) for table, images in found if images is not None]
    return ChangeBatch(committed(chunks), changes, emptied)


def batch_of_group(part: Group, chunks: Sequence[Chunk], tables: Mapping[TableId, TargetTable]) -> ChangeBatch:
    """Return what a group of these chunks has of the tables that are followed, in their forms at the target."""
    emptied = [
        Emptied(table, sequence_of(order, part.base), order & ((1 << ORDINAL_BITS) - 1))
        for order, table in part.truncates
    ]
    changes = [_changes(tables[table], images, part.base) for table, images in part.images.items()]
    return ChangeBatch(committed(chunks), changes, emptied)


def with_open(batch: ChangeBatch, chunks: Sequence[Chunk], feed: Feed) -> ChangeBatch:
    """Return the batch of these chunks with the transaction named that goes on behind them, if there is one."""
    last = chunks[-1]
    if last.part is not Part.FRAGMENT or last.is_ours:
        return batch
    return replace(batch, transactions=(*batch.transactions, feed.large(last.first_sequence)))


def _changes(table: TargetTable, images: Images, base: int) -> TableChanges:
    ordinal = images.order & ((np.int64(1) << ORDINAL_BITS) - 1)
    sequence = (images.order >> ORDINAL_BITS) + base
    return TableChanges(table, images.op, sequence, ordinal, images.shape, images.presence, images.rows)
