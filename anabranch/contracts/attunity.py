"""The contract of a target that has Attunity's tables beside its change tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from anabranch.model.attunity import ConfigRow, KnownState, StagedRow, StateRow, TraceRow


class AttunityTables(Protocol):
    """Reads and writes `cdc.xdbcdc_config`, `_state`, `_trace` and `_staged_transactions`, over a connection of its own, for
    the one process that keeps them. What an epoch counts in the state's row is the Appender's, in the epoch's transaction.

    Delivery: what a call wrote is committed when it returns. All raise TargetUnavailable, or TargetError where the user may
    not."""

    def prepare(self, first: ConfigRow) -> bool:
        """Make what is missing, with a first row of the configuration and of the state. May be repeated, and by several
        processes at once. False where there are no change tables yet."""

    def config(self) -> list[ConfigRow]:
        """Return the rows of the configuration: one, where nobody has taken it or added another. Holds no lock on return."""

    def count(self, seen: ConfigRow) -> bool:
        """Make the version one more, if the row still says what was seen. False: it says something else by now."""

    def known(self) -> KnownState:
        """Return what the tables say of the service."""

    def save(self, state: StateRow) -> None:
        """Write the state's row, with the time of now."""

    def stage(self, rows: Sequence[StagedRow]) -> None:
        """Let these be all rows of the staged transactions."""

    def note(self, node: str, rows: Sequence[TraceRow], keep_hours: int) -> None:
        """Add rows to the trace, and remove those that are older."""

    def close(self) -> None: ...


@runtime_checkable
class HasAttunityTables(Protocol):
    """An ability of a target that keeps changes in tables."""

    def attunity(self) -> AttunityTables: ...
