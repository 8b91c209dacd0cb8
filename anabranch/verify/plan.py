"""What is compared: tables, and the pieces in which both sides are read."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass

from anabranch.abc import Bounds, SourceConnector, TargetConnector, ValueRules
from anabranch.model.schema import TableSchema
from anabranch.rows.net import TargetTable
from anabranch.spark.where import Named


@dataclass(frozen=True)
class VerifyTable:
    """A table at both ends. Rows of the source that `filter` does not let pass are left out, as in load and stream. Where the
    target's `is_shared`, rows that only it has are somebody else's."""

    schema: TableSchema
    table: TargetTable
    filter: Named | None = None
    is_shared: bool = False


@dataclass(frozen=True)
class Piece:
    """Rows of one side: `bounds` at the source, `condition` at the target."""

    one: VerifyTable
    bounds: Bounds | None = None
    condition: str = ""

    @property
    def is_source(self) -> bool:
        return self.bounds is not None


def cut(
    source: SourceConnector,
    target: TargetConnector,
    tables: Sequence[VerifyTable],
    *,
    rows_per_piece: int,
    rules: ValueRules,
    expected_identity: str,
) -> list[Piece]:
    """Every piece of both sides, the tables with most pieces first."""
    with closing(source.snapshot(expected_identity)) as snapshot, closing(target.reader(rules)) as reader:
        found = [
            [
                *(Piece(one, bounds=bounds) for bounds in snapshot.bounds(one.schema, rows_per_piece)),
                *(Piece(one, condition=condition) for condition in reader.pieces(one.table, rows_per_piece)),
            ]
            for one in tables
        ]
    return [piece for pieces in sorted(found, key=len, reverse=True) for piece in pieces]
