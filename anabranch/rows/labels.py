"""Labels that an enum of the source got while its rows are followed, and the ability of a Writer, or a Loader, to give them
to the target's; functions of the source that were replaced meanwhile.

What does not live here: how a server is asked and altered (the connectors).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Protocol, runtime_checkable

from anabranch.model.ids import TableId
from anabranch.model.schema import Need, TableSchema

Needed = Callable[[TableId], tuple[TableSchema, TableSchema] | None]
"""The definition by which a source table is followed, and the one that it has now; None where its columns need no types, or
the source has no such table."""


@runtime_checkable
class LabelWriter(Protocol):
    """Lets a Writer add labels to the target's types; an ability that not all have."""

    def follow_labels(self, needed: Needed) -> None:
        """Add labels to the target's types from here on, where a change has a value that the target does not know.

        The change then raises TargetBusy, to be tried again. Where the source renamed labels it raises Redefined; in
        any other case the Conflict stays what it was.
        """


@runtime_checkable
class LabelLoader(Protocol):
    """Lets a Loader add labels to the target's types; an ability that not all have."""

    def add_labels(self, needs: Sequence[Need]) -> Sequence[str]:
        """Add the labels that the source's types, among `needs`, have and the target's lack. Returns what was done.

        Raises TargetUnavailable or TargetBusy.
        """

    def rename_labels(self, job: str, table: TableId, then: Collection[TableSchema], now: TableSchema) -> Sequence[str]:
        """Rename the labels that the source renamed since `then`, definitions by which the job loaded its tables.
        Returns what was done.

        `now` is the definition that the source table `table` is loaded by. Raises TargetError, with the statements,
        where a table that is not parked, or not the job's, would show other values, or where labels are none of these.
        """

    def refuse_older_functions(self, then: Collection[TableSchema], now: TableSchema) -> None:
        """Raise TargetError, with the statement, if the target would compute columns by an older version of a function.

        The function is as the source had it at one of `then`, and the table is loaded by `now`: it would compute other
        values than the source.
        """

    def as_renamed(self, then: TableSchema, now: TableSchema) -> TableSchema:
        """Return `then` with the defaults that its target's table has once the labels are renamed."""
