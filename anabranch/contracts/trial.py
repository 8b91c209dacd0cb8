"""The contract of a target that tries rows: as a load would write them, without writing any."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from anabranch.model.ids import TableId
from anabranch.model.schema import TableSchema
from anabranch.model.value_rules import ValueRules

if TYPE_CHECKING:
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

    def close(self) -> None: ...


@runtime_checkable
class TryingTarget(Protocol):
    """Hands out trials; an ability of a RowTarget that has temporary tables."""

    def trial(self, rules: ValueRules) -> Trial: ...
