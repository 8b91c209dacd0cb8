"""Contracts of a target's tables: making them, building what belongs to them, and what the target itself says of them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from anabranch.contracts.writer import Enforced
from anabranch.model.ids import TableId
from anabranch.model.schema import TableSchema
from anabranch.model.steps import DdlStep
from anabranch.model.value_rules import ValueRules

if TYPE_CHECKING:
    from anabranch.model.altering_plan import AlteringPlan
    from anabranch.rows.altered import AlteredTable
    from anabranch.rows.keys import EnforcedKey, UniqueKey
    from anabranch.rows.net import TargetTable


class TargetTables(Protocol):
    """Makes target tables and builds what belongs to them. One connection; used by drivers, never by tasks.

    Every method may be repeated: what is there already is found by its name and left as it is."""

    def create_table(
        self,
        schema: TableSchema,
        table: TargetTable,
        rules: ValueRules,
        recreate: bool,
        beside: Collection[TableId] = (),
        load: tuple[str, int] | None = None,
    ) -> None:
        """Create the table with its primary key and nothing else, and what it stands in, unless the table is there.

        Nothing that comes with it takes the name of a table in `beside`: all target tables of the load. A table that is
        there is dropped to `recreate` it; not where the `load` (job, generation) that asks for it has begun already, or a
        later one: Fenced."""

    def script(self, tables: Sequence[tuple[TableSchema, TargetTable]]) -> Iterator[DdlStep]:
        """Return all that a load of these tables into an empty target runs, in its order. Does not ask the target."""

    def take_off_keys(self, job: str, table: TargetTable) -> None:
        """Drop foreign keys at both ends and other unique keys, which rows out of order may break; `build` puts them back."""

    def index_cascades(self, schema: TableSchema, table: TargetTable) -> None:
        """Build, before the stream, what finds the rows that foreign keys change, each once. What cannot be made is left to
        `build`."""

    def build(
        self, job: str, schema: TableSchema, table: TargetTable, resolve: Callable[[TableId], TargetTable | None]
    ) -> list[str]:
        """Build all that the table lacks, after the consistent point: indexes, checks, keys, defaults, sequences, statistics.

        Others may go on reading and writing the table meanwhile. Returns what could not be made and why (for example a key
        that stands unproven: the source has orphans)."""

    def build_small(
        self,
        job: str,
        tables: Sequence[tuple[TableSchema, TargetTable]],
        resolve: Callable[[TableId], TargetTable | None],
    ) -> dict[TableId, list[str]]:
        """Build what belongs to those of the tables that are small and that nobody is at, all at once. What is not in the
        answer is as it was, and left to `build`."""

    def raise_sequences(self, tables: Sequence[TargetTable]) -> list[str]:
        """Raise sequences: whoever writes to the target next gets numbers behind those that the source has given. Returns
        problems."""

    def close(self) -> None: ...


@runtime_checkable
class StandingTables(Protocol):
    """Lets TargetTables say what stands where; an ability of a target whose columns depend on more than how the source spells
    their types. `create_table` raises TargetError for a table with such differences that it does not make anew."""

    def differences(self, schema: TableSchema, table: TargetTable) -> Sequence[str]:
        """Say which columns of a table that stands are not those that rows of this definition are written for."""


@runtime_checkable
class SeenTables(Protocol):
    """Lets TargetTables say whether a table is there; an ability that not all have."""

    def stands(self, table: TargetTable) -> bool:
        """Return whether the target has such a table."""


@runtime_checkable
class RunsStatements(Protocol):
    """Lets TargetTables run a person's own statements; an ability that not all have."""

    def run_statements(self, statements: Sequence[str]) -> None:
        """Run each, in this order, as the job's user. They are durable when it returns; where one fails none of them is, if the
        server can take them back. Raises TargetError with what the server says."""


@runtime_checkable
class PlansAltering(Protocol):
    """Lets TargetTables say what altering a table would do; an ability that not all have."""

    def plan_altering(self, altered: AlteredTable) -> AlteringPlan:
        """Return the statements that the Writer would run, and what the server makes of them. Changes nothing. Raises Conflict
        or TargetError where the steps would be refused."""


class TargetCatalog(Protocol):
    """Says what stands at the target now. One connection, reads only; apply asks it while it streams."""

    def unique_keys(self, tables: Sequence[TargetTable]) -> Mapping[TableId, frozenset[UniqueKey]]:
        """Return, by source table, its target table's unique keys beside the primary one that depend on columns of ours in any
        way: also through expressions, conditions, generated columns, exclusion. Tables without any are left out."""

    def guards(self, tables: Sequence[TargetTable]) -> Enforced:
        """Say whether these target tables have foreign keys and triggers, which would react to rows."""

    def foreign_keys(self, tables: Sequence[TargetTable]) -> Sequence[EnforcedKey]:
        """Return the keys that stand at the target now and lead to or from one of these tables."""

    def close(self) -> None: ...


@runtime_checkable
class LabelTables(Protocol):
    """Lets TargetTables add labels to the target's types, or to columns; an ability that not all have."""

    def add_labels(self, tables: Sequence[tuple[TableSchema, TargetTable]]) -> Sequence[str]:
        """Add the labels that the source's types of these tables have and the target's lack. Returns what was done.

        Raises TargetUnavailable or TargetBusy.
        """

    def why_not_added(self, refused: str, tables: Sequence[tuple[TableSchema, TargetTable]]) -> Sequence[str]:
        """Say which labels these tables' columns lack and cannot get, with what a person does then, where a row was refused in
        such words for what may be a label; nothing for other words."""

    def rename_labels(
        self, job: str, table: TargetTable, then: Collection[TableSchema], now: TableSchema
    ) -> Sequence[str]:
        """Rename the labels that the source renamed since `then`, definitions by which the job loaded its tables, or
        add them. Returns what was done.

        `now` is the definition that the table is loaded by. Raises TargetError, with the statements,
        where a table that is not parked, or not the job's, would show other values, or where labels are none of these.
        """

    def refuse_older_functions(self, then: Collection[TableSchema], now: TableSchema) -> None:
        """Raise TargetError, with the statement, if the target would compute columns by an older version of a function.

        The function is as the source had it at one of `then`, and the table is loaded by `now`: it would compute other
        values than the source.
        """

    def as_renamed(self, then: TableSchema, now: TableSchema) -> TableSchema:
        """Return `then` with the defaults that its target's table has once the labels are renamed."""
