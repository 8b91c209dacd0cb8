"""Contracts of a target's side of the initial load: the ledger, and the rows of its chunks."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from anabranch.contracts.values import Bounds
from anabranch.model.ids import TableId
from anabranch.model.schema import TableSchema
from anabranch.model.table_life import TableState
from anabranch.model.value_rules import ValueRules

if TYPE_CHECKING:
    from anabranch.rows.aside import AsideChange
    from anabranch.rows.net import TargetTable


@dataclass(frozen=True, slots=True)
class LoadedChunk:
    """A row of anabranch.load_chunk: `low`, `high` are LogMark.resume texts, set once `rows` is not None (= done)."""

    number: int
    bounds: Bounds
    rows: int | None = None
    low: str = ""
    high: str = ""


@dataclass(frozen=True, slots=True)
class NewLoad:
    """The first load of a table: the `state` that it begins with, and the one `before`; the chunks of its ledger."""

    schema: TableSchema
    table: TargetTable
    state: TableState
    before: TableState | None
    bounds: Sequence[Bounds]


class Loader(Protocol):
    """Takes the rows of the initial load. One connection; the ledger is the load's driver's, chunks are loaded by tasks.

    Delivery: a chunk's rows and its ledger row commit together; a chunk that is done is never loaded again."""

    def begin_generation(
        self, job: str, table: TargetTable, generation: int, bounds: Sequence[Bounds], empty: bool, keep: bool = False
    ) -> None:
        """Begin a load: table state `loading` with `generation`, the ledger's chunks, the table emptied if asked; all of it
        or nothing. TargetError for one with rows, unless they are to `keep`, and for emptying one that another job writes
        to."""

    def begin_new(
        self, job: str, loads: Sequence[NewLoad], rules: ValueRules, beside: Collection[TableId]
    ) -> frozenset[TableId]:
        """Create the tables (TargetTables.create_table) and begin the loads of those that the target has nothing of, with
        their states, all at once. Returns the source tables that are begun; the others are as they were."""

    def chunks(self, job: str, source: TableId, generation: int) -> list[LoadedChunk]:
        """Return the ledger of a load, by number; empty where it has not begun."""

    def ledgers(self, job: str, generations: Mapping[TableId, int]) -> dict[TableId, list[LoadedChunk]]:
        """Return `chunks` of several source tables."""

    def together(self) -> AbstractContextManager[None]:
        """Commit the chunks that are loaded inside when it ends, or none of them. One that is done already is left out, as
        always."""

    def load_chunk(
        self,
        job: str,
        table: TargetTable,
        generation: int,
        number: int,
        marks: tuple[str, str],
        lines: Iterable[bytes],
        left_out: Callable[[], Sequence[AsideChange]] = tuple,
    ) -> int:
        """Load the lines and write the ledger row, in one transaction that takes the generation's row first (K29, K21), with
        what `left_out` gives behind the last line: rows that are set aside. Returns rows without these.

        A newer generation raises Fenced; a refused line RowRefused with the row's key; a server that took fewer rows than
        there are lines TargetError, and nothing stays."""

    def close(self) -> None: ...


@runtime_checkable
class RawLoader(Protocol):
    """Lets a Loader take rows as a RawReader gives them."""

    def raw_forms(self, tables: Sequence[TargetTable]) -> Mapping[TableId, str]:
        """Return source table -> the form that its target table takes for the columns we write, by their types now,
        where there is one.
        """

    def load_raw(
        self,
        job: str,
        table: TargetTable,
        generation: int,
        number: int,
        marks: tuple[str, str],
        form: str,
        blocks: Iterable[bytes],
    ) -> int:
        """Load one stream of RawReader.raw, as `load_chunk` does.

        Raises RowRefused for whatever the target does not take, also where the table takes another form by now, or
        counts other rows than `blocks` returns. It need not name the row: the same chunk, loaded as lines, does.
        """
