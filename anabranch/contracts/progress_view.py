"""The contract of a target that shows how far jobs are to programs made for exBase."""

from __future__ import annotations

from typing import Protocol, runtime_checkable


@runtime_checkable
class ShowsProgress(Protocol):
    """Shows the progress of all jobs as `kafkaoffset`, where and with the columns that exBase's guide has; an ability of a
    TargetStore. It is a view over the state: nothing is written twice, and a row changes with the epoch that it tells of."""

    def show_progress(self) -> None:
        """Make the view where there is none, behind `prepare`. May be repeated, by several processes at once.

        Raises StateError where something else has the name, which is left as it is; TargetError where the user may not."""
