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
        """From here on: where the target does not know a value, and the source's type has labels that the target's lacks, they
        are added, and the change raises TargetBusy, to be tried again. Where labels of the source were renamed it raises
        Redefined. Else it is the Conflict that it was."""


@runtime_checkable
class LabelLoader(Protocol):
    """Lets a Loader add labels to the target's types; an ability that not all have."""

    def add_labels(self, needs: Sequence[Need]) -> Sequence[str]:
        """Those that the source's types, among `needs`, have and the target's lack. Returns what was done for it. Raises
        TargetUnavailable or TargetBusy."""

    def rename_labels(self, job: str, table: TableId, then: Collection[TableSchema], now: TableSchema) -> Sequence[str]:
        """Those that the source renamed since one of `then`, definitions by which the job loaded its tables; `now` is what it
        loads the source table `table` by. Returns what was done for it. Raises TargetError, with the statements, where a
        table that is not parked, or not the job's, would show other values by it, or labels are none of these."""

    def refuse_older_functions(self, then: Collection[TableSchema], now: TableSchema) -> None:
        """Raises TargetError, with the statement, where the target computes columns of a table that is loaded by `now` by a
        function as the source had it at one of `then`: it computes others than the source."""

    def as_renamed(self, then: TableSchema, now: TableSchema) -> TableSchema:
        """`then` with the defaults that its target's table has once the labels are renamed."""
