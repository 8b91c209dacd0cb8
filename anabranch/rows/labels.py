"""Labels that an enum of the source got while its rows are followed, and the ability of a Writer, or a Loader, to give them
to the target's.

What does not live here: how a server is asked and altered (the connectors).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, runtime_checkable

from anabranch.model.ids import TableId
from anabranch.model.schema import Need

Needed = Callable[[TableId], Sequence[Need]]
"""What the columns of a source table need now, as the source says."""


@runtime_checkable
class LabelWriter(Protocol):
    """Lets a Writer add labels to the target's types; an ability that not all have."""

    def follow_labels(self, needed: Needed) -> None:
        """From here on: where the target does not know a value, and the source's type has labels that the target's lacks, they
        are added, and the change raises TargetBusy, to be tried again. Else it is the Conflict that it was."""


@runtime_checkable
class LabelLoader(Protocol):
    """Lets a Loader add labels to the target's types; an ability that not all have."""

    def add_labels(self, needs: Sequence[Need]) -> Sequence[str]:
        """Those that the source's types, among `needs`, have and the target's lack. Returns what was done for it. Raises
        TargetUnavailable or TargetBusy."""
