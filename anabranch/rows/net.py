"""The net effect of a stage on the target: values that the apply engine makes and a Writer carries out."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from anabranch.model.datatype import LogicalType
from anabranch.model.ids import TableId

if TYPE_CHECKING:
    import pyarrow as pa

Row = Mapping[str, str | None]  # column -> text form
NOT_KNOWN = (1 << 63) - 1  # greater than any transaction's number


@dataclass(frozen=True, slots=True)
class TargetTable:
    """A source table as it is at the target: names there, logical types of the columns we write, key columns.

    `columns` are target names in the order of the source's columns that are replicated, `source_columns` their names
    there; `key` (target names) is () if keyless. `computed`: source and target name of columns that the target
    computes: nobody writes them. `role`: who alone may read a change table, "" for whoever was given the right.
    `shaped`: the last transaction of the trail whose rows may be of another shape, which
    matters where rows are read out of messages (verify/shapes.py); -1: there is none.
    """

    source: TableId
    target: TableId
    columns: tuple[str, ...]
    types: tuple[LogicalType, ...]
    key: tuple[str, ...]
    source_columns: tuple[str, ...] = ()
    computed: tuple[tuple[str, str], ...] = ()
    role: str = ""
    shaped: int = field(default=-1, compare=False)

    def type_of(self, column: str) -> LogicalType:
        return self.types[self.columns.index(column)]


@dataclass(frozen=True)
class Updates:
    """Rows that exist and change. `old_keys` has the key columns (target names) as they are now; `values` has the
    columns to set, row for row. `moves_keys` says that a key column is among them with another value. `contends`: rows may
    take unique values or keys that other such rows of the net leave. Then the Writer lets all of them leave before the
    first arrives, whatever the target takes for equal, and each keeps what is not set (K8). `ages`: TableNet.newest_by."""

    old_keys: pa.Table
    values: pa.Table
    moves_keys: bool = False
    contends: bool = False
    ages: pa.ChunkedArray | None = None


@dataclass(frozen=True)
class TableNet:
    """Net change of one table in one stage, to be carried out in this order: deletes, updates that contend, all at once,
    other updates (moving ones first), inserts. No key occurs twice in deletes + inserts or twice in updates.
    `refers_to_itself`: rows refer to each other by a key that the target enforces, so that many rows of one part belong
    into one statement.

    `checked`: every delete and update must hit exactly one row, every insert must find none; anything else is a
    conflict. Not checked (the load window, K3): deletes may find nothing, inserts replace the row that has the key,
    and partial updates that find no row are reported back for re-reading.

    `newest_by`: a target row whose value in this column is later than its change's in `ages` (of deletes and updates, row for
    row) is a conflict, too; NULL is earlier than anything.

    Keyless tables: `multiset` holds distinct full row images and `delta` (int64, the last column, whatever the others are
    called): that many rows to insert (> 0) or to remove (< 0), each removal taking exactly one of equal rows (K28)."""

    table: TargetTable
    deletes: pa.Table | None = None  # key columns
    updates: tuple[Updates, ...] = ()
    inserts: pa.Table | None = None  # all columns
    multiset: pa.Table | None = None
    checked: bool = True
    refers_to_itself: bool = False
    newest_by: str = ""
    ages: pa.ChunkedArray | None = None  # of deletes

    @property
    def row_count(self) -> int:
        parts = [self.deletes, self.inserts, self.multiset, *(u.values for u in self.updates)]
        return sum(part.num_rows for part in parts if part is not None)


@dataclass(frozen=True)
class StagedNet:
    """A TableNet whose rows are at the target: the Writer proves `counts` and `digest` before merging."""

    table: TargetTable
    staging: str
    counts: Mapping[str, int]
    digest: int
    checked: bool
    layout: Mapping[str, object] = field(default_factory=dict)


class CascadeAction(StrEnum):
    DELETE = "delete"
    SET_NULL = "set null"
    UPDATE = "update"


@dataclass(frozen=True)
class Computed:
    """Columns of a table that are computed from `inputs`, among them columns that foreign keys change. All names are the
    target's. `compute` takes rows with `inputs` and, where the table has one, the key; it returns lines (rows/lines.py) of
    `inputs` and `columns`. A row that it can say nothing of is left out. `hint` says what is to be done then."""

    table: TargetTable
    columns: tuple[str, ...]
    inputs: tuple[str, ...]
    compute: Callable[[Sequence[Row]], Iterable[bytes]]
    hint: str = ""

    def is_told(self, names: Collection[str]) -> bool:
        """Return whether an image of these columns has all inputs of the computed columns that it has."""
        return not {*self.columns} & {*names} or {*self.inputs} <= {*names}


@dataclass(frozen=True)
class Cascade:
    """The effect of changed parents on one child table that the log does not show (K1), at the end of a stage.

    `parents` has the referenced values as they were (columns named like the child's foreign-key columns); for UPDATE
    `replacements` has the new ones, row for row. The Writer follows further levels itself by `rules`. With `tells_keys`
    it reports which rows of `child` it changed. With `spares_children`, for a table that refers to itself, it carries
    out what the removal of all those rows does to other tables, and leaves the rows where they are. `computed`: columns
    of rows that change, at any level, that only the source can evaluate, by source table.
    """

    child: TargetTable
    columns: tuple[str, ...]  # the child's foreign-key columns, target names
    action: CascadeAction
    parents: pa.Table
    replacements: pa.Table | None = None
    rules: tuple[CascadeRule, ...] = ()
    tells_keys: bool = False
    spares_children: bool = False
    computed: Mapping[TableId, Computed] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CascadeRule:
    """A foreign key of the source in target names, for following cascades over several levels."""

    child: TargetTable
    columns: tuple[str, ...]
    parent: TargetTable
    parent_columns: tuple[str, ...]
    on_delete: CascadeAction | None
    on_update: CascadeAction | None

    def __hash__(self) -> int:
        """Hash only the names: a rule is looked up for each parent that changes, and hashing all columns of both tables
        is slow.
        """
        return hash((self.child.source, self.columns, self.parent.source))


class Operation(StrEnum):
    """The ways in which a row changes."""

    INSERT = "insert"  # it comes
    UPDATE = "update"  # it is there, and some of its columns get other values
    DELETE = "delete"  # it goes


# Names of their own: with Python 3.11 looking a member up in its class costs more than comparing it, and rows are many.
INSERT, UPDATE, DELETE = Operation.INSERT, Operation.UPDATE, Operation.DELETE


@dataclass(frozen=True)
class RowChange:
    """A single row change, for the slow way: values in text form (rows/lines.py without escapes), None = NULL.

    INSERT has `values`; DELETE has `old_key` (keyless: `old_values`, the whole row); UPDATE has both, `values` only of
    the columns to set. `keys_off`: the source's foreign keys did nothing for it. `before`: what the log has of the row
    before, where somebody may want to know it.
    """

    table: TargetTable
    operation: Operation
    old_key: dict[str, str | None] = field(default_factory=dict)
    values: dict[str, str | None] = field(default_factory=dict)
    old_values: dict[str, str | None] = field(default_factory=dict)
    checked: bool = True
    keys_off: bool = False
    before: dict[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ChangeShape:
    """The common part of single row changes. Their values are those of `sets`, then, unless it is an insert, those of
    the key's columns before the change.
    """

    table: TargetTable
    operation: Operation
    sets: tuple[str, ...] = ()

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns of the values, in their order."""
        return self.sets if self.operation == INSERT else (*self.sets, *self.table.key)
