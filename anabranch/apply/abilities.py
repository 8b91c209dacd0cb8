"""The abilities that apply needs of a Writer that carries out net changes. They are asked for together, once, before
the first epoch.

What does not live here: the contracts (`contracts/writer.py`), abilities that apply can do without (pipelines, labels).
"""

from __future__ import annotations

from typing import Protocol, TypeGuard

from anabranch.contracts import Appender, Cascader, EpochState, EpochWriter, RowWriter, StagedWriter, Writer
from anabranch.errors import TargetError

NEEDED = (EpochState, RowWriter, Cascader, StagedWriter)


class StateWriter(EpochWriter, EpochState, Protocol):
    """A writer of epochs that keeps the job's state. Every way of carrying out needs one."""


class MergeWriter(Writer, EpochState, RowWriter, Cascader, StagedWriter, Protocol):
    """A Writer with all abilities that merging needs."""


class ChangeWriter(Appender, EpochState, Protocol):
    """An Appender that keeps the job's state."""


def appending(writer: object) -> TypeGuard[ChangeWriter]:
    """Return whether the writer keeps changes, and no rows."""
    return isinstance(writer, Appender) and isinstance(writer, EpochState)


def merging(writer: Writer) -> MergeWriter:
    """Return the writer as one that can merge. Raises TargetError with what it cannot do."""
    if _can_merge(writer):
        return writer
    lacks = ", ".join(one.__name__ for one in NEEDED if not isinstance(writer, one))
    raise TargetError(f"this target cannot take net changes: its writer lacks {lacks}")


def _can_merge(writer: Writer) -> TypeGuard[MergeWriter]:
    return all(isinstance(writer, one) for one in NEEDED)
