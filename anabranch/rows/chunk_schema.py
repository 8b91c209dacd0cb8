"""The Arrow schemas of a chunk's batches; apart from `chunk.py`, so that who only names chunks need not load Arrow."""

from __future__ import annotations

import pyarrow as pa

from anabranch.rows.chunk import META

META_FIELDS = (
    pa.field("_op", pa.int8(), False),  # Op
    pa.field("_tx", pa.int32(), False),  # place of the row's transaction in Chunk.transactions
    pa.field("_ordinal", pa.int64(), False),  # order of the row image inside its transaction, over all tables
    pa.field("_shape", pa.int16(), False),  # place in TableRows.shapes
)
assert len(META_FIELDS) == META

TRANSACTION_SCHEMA = pa.schema(
    [
        pa.field("native", pa.string(), False),  # source position just after the transaction
        pa.field("gtid", pa.string()),  # null where the source has none
        pa.field("commit_time", pa.int64(), False),  # microseconds since 1970 UTC, source's clock
        pa.field("rows", pa.int64(), False),  # row images of replicated tables in it
        pa.field(
            "origin", pa.string()
        ),  # where it was made first, in the source's words; null: at the source, or not told
    ]
)
