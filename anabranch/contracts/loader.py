"""Contracts of a target's side of the initial load."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from anabranch.contracts.values import Bounds, ValueRules
from anabranch.model.ids import TableId
from anabranch.model.schema import TableSchema
from anabranch.model.steps import DdlStep
from anabranch.model.table_life import TableState

if TYPE_CHECKING:
    from anabranch.rows.aside import AsideChange
    from anabranch.rows.keys import EnforcedKey
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
    """The target's side of the initial load. One connection; tables and ledger by the load's driver, chunks by tasks.

    Delivery: a chunk's rows and its ledger row commit together; a chunk that is done is never loaded again."""

    def create_table(
        self,
        schema: TableSchema,
        table: TargetTable,
        rules: ValueRules,
        recreate: bool,
        beside: Collection[TableId] = (),
        load: tuple[str, int] | None = None,
    ) -> None:
        """Create target schema and table with primary key and nothing else, unless the table is there. Nothing that comes
        with it takes the name of a table in `beside`: all target tables of the load. A table that is there is dropped to
        `recreate` it; not where the `load` (job, generation) that asks for it has begun already, or a later one: Fenced."""

    def ddl(self, schema: TableSchema, table: TargetTable) -> list[str]:
        """The statements that `create_table` would run where the table is not there."""

    def script(self, tables: Sequence[tuple[TableSchema, TargetTable]]) -> Iterator[DdlStep]:
        """All that a load of these tables into an empty target runs, in its order. Does not ask the target."""

    def begin_generation(
        self, job: str, table: TargetTable, generation: int, bounds: Sequence[Bounds], empty: bool, keep: bool = False
    ) -> None:
        """In one transaction: table state `loading` with `generation`, the ledger's chunks, the table emptied if asked.
        TargetError for one with rows, unless they are to `keep`, and for emptying one that another job writes to."""

    def begin_new(
        self, job: str, loads: Sequence[NewLoad], rules: ValueRules, beside: Collection[TableId]
    ) -> frozenset[TableId]:
        """`create_table` and `begin_generation` of those that the target has nothing of, with their states, in one
        transaction. The source tables that are begun; the others are as they were."""

    def take_off_keys(self, job: str, table: TargetTable) -> None:
        """Drops foreign keys at both ends and other unique keys, which rows out of order may break; `build` puts them back."""

    def chunks(self, job: str, source: TableId, generation: int) -> list[LoadedChunk]: ...

    def ledgers(self, job: str, generations: Mapping[TableId, int]) -> dict[TableId, list[LoadedChunk]]:
        """`chunks` of several source tables."""

    def together(self) -> AbstractContextManager[None]:
        """Inside: chunks that are loaded commit when it ends, or not at all. One that is done already is left out, as
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
        """COPY the lines and write the ledger row, in one transaction whose first statement updates the generation's
        row (K29, K21), with what `left_out` gives behind the last line: rows that are set aside. Returns rows without
        these. A newer generation raises Fenced; a refused line RowRefused with the row's key; a server that took fewer
        rows than there are lines TargetError, and nothing stays."""

    def unique_columns(self, tables: Sequence[TargetTable]) -> Mapping[TableId, frozenset[str]]:
        """Source table -> columns of ours on which its target table's unique keys beside the primary depend in any way,
        where there are any: also through expressions, conditions, generated columns, exclusion."""

    def has_guards(self, tables: Sequence[TargetTable]) -> bool:
        """Do foreign keys or triggers of these target tables react to rows?"""

    def foreign_keys(self, tables: Sequence[TargetTable]) -> Sequence[EnforcedKey]:
        """Lists the keys that stand at the target now and lead to or from one of these tables."""

    def index_cascades(self, schema: TableSchema, table: TargetTable) -> None:
        """Before the stream: the plain indexes by which foreign keys find the rows that they change, each once, found
        by name. What cannot be made is left to `build`."""

    def build(
        self, job: str, schema: TableSchema, table: TargetTable, resolve: Callable[[TableId], TargetTable | None]
    ) -> list[str]:
        """After the consistent point: secondary indexes CONCURRENTLY, checks and foreign keys NOT VALID then VALIDATE,
        sequences, ANALYZE; each once, found by name. Returns what could not be made and why (e.g. a key left NOT VALID:
        orphans at the source)."""

    def build_small(
        self,
        job: str,
        tables: Sequence[tuple[TableSchema, TargetTable]],
        resolve: Callable[[TableId], TargetTable | None],
    ) -> dict[TableId, list[str]]:
        """`build` of those of the tables that are small and that nobody is at, all in one transaction. What is not in the
        answer is as it was, and left to `build`."""

    def raise_sequences(self, tables: Sequence[TargetTable]) -> list[str]:
        """Whoever writes to the target next gets numbers behind those that the source has given. Returns problems."""

    def close(self) -> None: ...


@runtime_checkable
class RawLoader(Protocol):
    """Lets a Loader take rows as a RawReader gives them."""

    def raw_forms(self, tables: Sequence[TargetTable]) -> Mapping[TableId, str]:
        """Source table -> the form that its target table takes for the columns we write, by their types now, where there is
        one."""

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
        """As `load_chunk`, of one stream of RawReader.raw. RowRefused for whatever the target does not take, also where the
        table takes another form by now, or counts other rows than `blocks` returns: it need not name the row, the same chunk
        as lines does."""
