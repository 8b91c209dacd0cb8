"""Comments of a table and of its columns that are others behind a change of its definition.

What does not live here: differences for people (`schema_changes.py`), changes of columns (`column_changes.py`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from anabranch.model.schema import TableSchema

OF_TABLE = "comment of the table"


@dataclass(frozen=True, slots=True)
class CommentChanges:
    """`table`: the table's own is another one; `columns`: names behind the change of columns that were there before it."""

    table: bool = False
    columns: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return self.table or bool(self.columns)

    def __str__(self) -> str:
        return ", ".join([OF_TABLE] * self.table + [f"comment of {name}" for name in self.columns])

    def of(self, columns: Collection[str]) -> CommentChanges:
        """Return those of the table and of these columns."""
        return replace(self, columns=tuple(name for name in self.columns if name in columns))


NO_COMMENTS = CommentChanges()


def comment_changes(then: TableSchema, now: TableSchema, renamed: Mapping[str, str]) -> CommentChanges:
    """Return the comments that are others. `renamed`: former and next names of columns. None where a source has no statements
    in its log: its definitions show only the latest state."""
    if then.numbers or now.numbers:
        return NO_COMMENTS
    before = {renamed.get(column.name, column.name): column.comment for column in then.columns}
    changed = (column.name for column in now.columns if before.get(column.name, column.comment) != column.comment)
    return CommentChanges(then.comment != now.comment, tuple(changed))
