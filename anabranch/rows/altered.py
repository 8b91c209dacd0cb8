"""Changes of a table's definition, as values that apply makes and a Writer carries out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from anabranch.model.check_changes import NO_CHECKS, CheckChanges
from anabranch.model.column_changes import ColumnChange
from anabranch.model.comment_changes import NO_COMMENTS, CommentChanges
from anabranch.model.foreign_key_changes import NO_KEY_CHANGES, KeyChanges
from anabranch.model.index_changes import NO_CHANGES, IndexChanges
from anabranch.model.schema import TableSchema
from anabranch.rows.net import TargetTable


@dataclass(frozen=True, slots=True)
class ColumnAdded:
    """`name`: the column as the source calls it. `fill`: what rows that are there have got at the source, in the column's text
    form; None: its constant default, or NULL where it has none."""

    name: str
    fill: str | None = None


@dataclass(frozen=True, slots=True)
class ColumnDropped:
    """`name`: the column as the source called it. `keeps`: the target's column stays, and rows that come have NULL in it."""

    name: str
    keeps: bool = False


@dataclass(frozen=True, slots=True)
class ColumnRenamed:
    """`former`, `name`: the column as the source called it, and calls it now."""

    former: str
    name: str


@dataclass(frozen=True, slots=True)
class ColumnRetyped:
    """A column (source's name of now) whose type takes more values than before, and each of before as it was."""

    name: str


@dataclass(frozen=True, slots=True)
class NullabilityChanged:
    """A column (source's name of now) that takes NULL now, or takes it no longer."""

    name: str


@dataclass(frozen=True, slots=True)
class DefaultChanged:
    """A column (source's name of now) with another default, or without one; rows that are there stay as they are."""

    name: str


Step = ColumnAdded | ColumnDropped | ColumnRenamed | ColumnRetyped | NullabilityChanged | DefaultChanged


@dataclass(frozen=True)
class AlteredTable:
    """A table that the source has altered: what it was and is there and at the target, and the steps from one to the other.
    Steps are of columns that the job replicates; they come all at once, and each column is in one step of a class.
    `indexes`: what becomes of indexes and unique keys; those that come, and `checks` and `keys`, are built behind the
    steps, as a load builds them. `beside`: the kinds of these changes."""

    former: TableSchema
    former_table: TargetTable
    schema: TableSchema
    table: TargetTable
    steps: tuple[Step, ...]
    indexes: IndexChanges = NO_CHANGES
    beside: frozenset[ColumnChange] = frozenset()
    passed: tuple[str, ...] = ()  # indexes (source's names) that come, and that the job file does not follow
    ignored: tuple[str, ...] = ()  # columns (source's names) that come, and that the target stays without
    comments: CommentChanges = NO_COMMENTS
    checks: CheckChanges = NO_CHECKS
    keys: KeyChanges = NO_KEY_CHANGES  # foreign keys that only refuse

    @property
    def is_all_behind(self) -> bool:
        """True if nothing is to be done before the table goes on by its next definition."""
        return not (self.is_about_rows or self.comments or self.checks)

    @property
    def is_about_rows(self) -> bool:
        """True if others that read or write rows have to wait for what is done before that."""
        indexes = self.indexes.dropped or self.indexes.renamed
        return bool(self.steps or indexes or self.checks.dropped or self.keys.dropped)

    @property
    def stands_aside(self) -> bool:
        """True if nothing of the target's table changes before the table goes on: what is being built of it may go on."""
        return not (self.is_about_rows or self.comments)

    @property
    def does_nothing(self) -> bool:
        """True if the target's table stays as it is."""
        return not (self.steps or self.indexes or self.comments or self.checks or self.keys)

    def of_steps_alone(self) -> AlteredTable:
        """Return it without what comes to the target beside steps."""
        return replace(self, indexes=NO_CHANGES, comments=NO_COMMENTS, checks=NO_CHECKS, keys=NO_KEY_CHANGES)

    def former_name(self, name: str) -> str:
        """Return what the source called a column before the steps that it calls `name` now."""
        return next((step.former for step in self.steps if isinstance(step, ColumnRenamed) and step.name == name), name)

    def former_of(self, name: str) -> str:
        """Return what the target calls a column before the steps that the source calls `name` now."""
        return self.former_target(self.former_name(name))

    def both(self, name: str) -> Iterator[tuple[TableSchema, TargetTable, str, str]]:
        """Yield both definitions, and the source's and the target's name of a column in each; `name`: the source's of now."""
        yield self.former, self.former_table, self.former_name(name), self.former_of(name)
        yield self.schema, self.table, name, self.target(name)

    def former_target(self, name: str) -> str:
        """Return what the target calls a column before the steps; `name`: the source's of that time."""
        return self.former_table.columns[self.former_table.source_columns.index(name)]

    def target(self, name: str) -> str:
        """Return what the target calls a column behind the steps; `name`: the source's of that time."""
        return self.table.columns[self.table.source_columns.index(name)]


def filled_schema(schema: TableSchema, step: ColumnAdded) -> TableSchema:
    """Return the definition with what rows that are there have got as the column's default."""
    if step.fill is None:
        return schema
    columns = tuple(
        replace(column, has_default=True, default=step.fill) if column.name == step.name else column
        for column in schema.columns
    )
    return replace(schema, columns=columns)
