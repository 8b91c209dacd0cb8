"""Contracts of a target that tries rows as a load would write them, without writing any, and of a source that has values to
try which are in no table."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from anabranch.model.ids import TableId
from anabranch.model.schema import Column, TableSchema
from anabranch.model.value_rules import ValueRules

if TYPE_CHECKING:
    from anabranch.model.datatype import LogicalType
    from anabranch.rows.net import TargetTable


@dataclass(frozen=True, slots=True)
class RefusedLine:
    """A line that the target did not take: why, as a load would say it, and what to do. `column`: its name at the target, ""
    where the server names none. `is_duplicate`: another row has values that have to be unique."""

    line: bytes
    what: str
    hint: str = ""
    column: str = ""
    is_duplicate: bool = False


class Trial(Protocol):
    """Tries rows in a temporary table of one session, made as the load would make the target table, or like the one that
    stands. Picklable before `begin`; used by one task.

    Delivery: nothing stays at the target, whatever happens: rows are never committed, and the table ends with the session."""

    def begin(self, schema: TableSchema, table: TargetTable, beside: Collection[TableId] = ()) -> TargetTable:
        """Make the table, without rows, in place of a former one. Returns `table` as it is written and read there. Raises
        TargetError where it cannot be made: by the words of what the load would run, or because the user has no right to
        temporary tables."""

    def begin_key(
        self, schema: TableSchema, table: TargetTable, columns: Sequence[str], beside: Collection[TableId] = ()
    ) -> TargetTable:
        """Make a table of these columns of the target, which form a unique key there, and of the primary key's. Rows stay until
        the next `begin…`: of two that the target takes for equal the second is refused. Returns it as it is written."""

    def take(self, block: bytes, most: int) -> Sequence[RefusedLine]:
        """Load whole lines (rows/lines.py) by the loader's own code. Returns those that are refused, at most `most`: what
        follows the last of these was not tried. Raises TargetError for what is no row's fault."""

    def rows(self) -> Iterator[bytes]:
        """Yield what was taken, as TargetReader.lines gives it."""

    def empty(self) -> None:
        """Remove what was taken."""

    def release(self) -> str:
        """Return the server's release, as it prints it. Behind `begin`."""

    def close(self) -> None: ...


@runtime_checkable
class TryingTarget(Protocol):
    """Hands out trials; an ability of a RowTarget that has temporary tables."""

    def trial(self, rules: ValueRules) -> Trial: ...


@dataclass(frozen=True, slots=True)
class Drawn:
    """Values that a DrawingReader holds: the definition of their table, how many the source has taken, and its release."""

    schema: TableSchema
    values: int
    release: str


@runtime_checkable
class DrawingReader(Protocol):
    """Holds values of a column's type that are in no table, for a SnapshotReader to read; an ability of sources that have
    temporary tables.

    Delivery: nothing stays at the source, whatever happens: the table ends with the session."""

    def draw(self, table: TableSchema, column: str, texts: Sequence[str]) -> Drawn:
        """Make a temporary table with a column like this one of a table that is there, in place of a former one, and put in
        these values (text form, model/datatype.py), those of the source's own table of edges, and NULL. What the source's
        column does not take is left out. `lines` reads them then. Raises SourceError where the user has no right to temporary
        tables."""

    def natives(self) -> Sequence[str]:
        """Return the types of which this kind of source knows edges, as statements spell them; not every release has each."""

    def draw_type(self, native: str, texts: Callable[[LogicalType], Sequence[str]]) -> Drawn | None:
        """Do as `draw` for a type that no table need have; `texts`: values for the logical type that a column of it has. None
        where this release has no such type, or it cannot be replicated."""


def lone_column(table: TableSchema, place: TableId, key: Column, column: str) -> TableSchema:
    """Return the definition of a table with a key and one column of another table."""
    own = replace(
        table.column(column),
        nullable=True,
        has_default=False,
        default=None,
        default_is_expression=False,
        default_term=None,
        generated=False,
        expression="",
        auto_increment=False,
        set_by_server=False,
        invisible=False,
        serial=False,
        sequence="",
        comment="",
    )
    return TableSchema(place, (key, own), (key.name,), engine=table.engine, dialect=table.dialect, needs=table.needs)
