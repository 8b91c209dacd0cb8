"""Changes of a table's definition, as values that apply makes and a Writer carries out."""

from __future__ import annotations

from dataclasses import dataclass

from anabranch.model.schema import TableSchema
from anabranch.rows.net import TargetTable


@dataclass(frozen=True)
class AddedColumns:
    """Columns that the source has added to a table: `schema` and `table` are what it is behind that, `names` are the new
    columns as the source calls them, without those that the job leaves out. A row that is there gets the column's
    constant default, or NULL where it has none."""

    schema: TableSchema
    table: TargetTable
    names: tuple[str, ...]

    @property
    def targets(self) -> tuple[str, ...]:
        """The columns' names at the target."""
        named = dict(zip(self.table.source_columns, self.table.columns, strict=True))
        return tuple(named[name] for name in self.names)
