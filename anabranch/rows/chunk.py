"""The unit that travels from log to target: whole transactions, as one Arrow record batch per table.

A chunk holds many small transactions, or a fragment of one very large one. A row image is a row of the batch: an update
is two consecutive rows, BEFORE then AFTER. A column that the log did not write is null in the batch and not `present`
in the row's shape: absent is never confused with NULL.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import TYPE_CHECKING

from anabranch.model.column_changes import NOTHING_UNTOLD, Untold
from anabranch.model.ids import TableId

if TYPE_CHECKING:
    import pyarrow as pa

    from anabranch.model.schema import TableSchema

OP, TX, ORDINAL, SHAPE = range(4)  # places of the columns in front, whose names columns of a table may have, too
META = 4  # value column i of the table is batch column META + i: chunk_schema.py has the ones in front


class Op(IntEnum):
    INSERT = 1
    DELETE = 2
    BEFORE = 3
    AFTER = 4


class Part(StrEnum):
    """A large transaction is cut into FRAGMENT … FRAGMENT LAST; its rows count only once LAST is in the trail."""

    WHOLE = "whole"
    FRAGMENT = "fragment"
    LAST = "last"


@dataclass(frozen=True, slots=True)
class Shape:
    """The set of columns that an image carries.

    `unchanged` marks values that the log left out because they did not change (PostgreSQL TOAST); a MySQL image has
    none. `keys_off`: the source's session had its foreign keys switched off, so they changed no other rows (K1).
    """

    present: tuple[bool, ...]
    unchanged: tuple[bool, ...] = ()
    keys_off: bool = False

    @property
    def is_full(self) -> bool:
        return all(self.present)


@dataclass(frozen=True, slots=True)
class Unconverted:
    """A value of an image that could not be converted: `row` of the batch, `column` of the schema version, and words for
    what stands there. The image's shape does not have the column; its place in the batch is null."""

    row: int
    column: int
    what: str


@dataclass(frozen=True)
class TableRows:
    """Row images of one table in log order. `batch` has META_FIELDS, then one column per column of the schema version,
    in its order (refused columns have type null). `unconverted`: in the order of rows, then of columns."""

    table: TableId
    version: int
    batch: pa.RecordBatch
    shapes: tuple[Shape, ...]
    unconverted: tuple[Unconverted, ...] = ()


class BarrierKind(StrEnum):
    TRUNCATE = "truncate"
    PARK = "park"  # from here on the table is not replicated
    SCHEMA = "schema"  # from here on `schema` is in force: first sight, or a table that joins
    ALTER = "alter"  # from here on `schema` is in force: the source altered a table that is followed
    NOTE = "note"  # `reason` names kinds of what the source altered of a table that goes on as it is


@dataclass(frozen=True, slots=True)
class Barrier:
    """Something that happens to a table between rows: everything before (tx, ordinal) first, then it. `untold`: of an ALTER.
    `reason` of a NOTE, and of an ALTER that does more than `schema` says: kinds of what is not followed, with commas."""

    tx: int
    ordinal: int
    kind: BarrierKind
    table: TableId
    statement: str = ""
    reason: str = ""
    schema: TableSchema | None = None
    untold: Untold = NOTHING_UNTOLD

    @property
    def is_ours(self) -> bool:
        """True if it only brings in a definition, at a place of the log at which there is nothing of the source's."""
        return self.kind is BarrierKind.SCHEMA or (self.kind is BarrierKind.ALTER and not self.statement)


@dataclass(frozen=True)
class Chunk:
    """Committed transactions in log order. `first_sequence` is given by the trail's writer (0 before); transaction i
    has sequence `first_sequence + i`. A FRAGMENT has one transaction whose native position and commit time are not
    known yet ("" and 0). `resume` is the LogMark.resume just after the chunk."""

    transactions: pa.RecordBatch  # TRANSACTION_SCHEMA
    tables: tuple[TableRows, ...]
    barriers: tuple[Barrier, ...] = ()
    part: Part = Part.WHOLE
    first_sequence: int = 0
    resume: str = field(default="", repr=False)

    @property
    def last_sequence(self) -> int:
        return int(self.first_sequence + self.transactions.num_rows - 1)

    @property
    def row_count(self) -> int:
        return sum(rows.batch.num_rows for rows in self.tables)

    @property
    def is_ours(self) -> bool:
        """True if the chunk only brings in definitions, and is no transaction of the source."""
        return not self.tables and bool(self.barriers) and all(b.is_ours for b in self.barriers)
