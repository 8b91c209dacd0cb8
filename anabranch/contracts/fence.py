"""Contracts of a cut-over at both ends: keeping writers out of a source, and numbers that both ends give to new rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from anabranch.model.checks import CheckResult
from anabranch.model.cutover import CutoverNote
from anabranch.model.ids import TableId
from anabranch.model.position import LogMark
from anabranch.model.schema import TableSchema

if TYPE_CHECKING:
    from anabranch.rows.net import TargetTable


class SourceFence(Protocol):
    """Keeps everybody out of a source's replicated tables who would write to them, until it is lifted (K24).

    Used by `cutover` only, one process at a time. It survives the process that raised it. Every method may be repeated, after
    any crash. Raises SourceUnavailable and SourceError.

    `tables`: the replicated tables. `before`: what `before` returned, kept in the cut-over's notes. `back`: the job that brings
    changes of the target back here, which the fence lets through from `admit` on; "" for none."""

    def checks(self, tables: Sequence[TableId]) -> list[CheckResult]:
        """Say whether the fence can be raised and will hold: rights, each missing one with the statement that grants it, and
        whoever would pass it. Reads only."""

    def before(self, tables: Sequence[TableId]) -> dict[str, Any]:
        """Return what `deny` is about to change, as it is, in JSON. Reads only."""

    def deny(self, tables: Sequence[TableId], before: Mapping[str, Any]) -> list[str]:
        """Refuse writes from here on, and return who may still write: open and prepared transactions that are older. Waits for
        these a few seconds at most; the caller asks again until nobody is left. It may be that nobody is refused as long as
        somebody is left."""

    def mark(self, before: Mapping[str, Any]) -> LogMark:
        """Commit a marker of ours through the fence, where the server lets us, and return the log's place behind it: whatever
        a writer has ever committed to the tables is before it. Only when `deny` has returned nobody."""

    def admit(self, tables: Sequence[TableId], before: Mapping[str, Any], back: str) -> None:
        """Let the sessions of the job `back` write, and nobody else who was refused, as far as the server can tell them apart.
        Only behind `mark`."""

    def gaps(
        self, tables: Sequence[TableId], before: Mapping[str, Any], back: str = "", is_flipped: bool = False
    ) -> list[str]:
        """Look whether the fence stands as it was raised, or as `admit` has left it for `back`, and whether somebody is inside;
        [] where it does and nobody is. Before the flip also: which tables are not what they were before `deny`, where it
        keeps nobody from changing their definitions; behind it `back` may change them."""

    def lift(self, tables: Sequence[TableId], before: Mapping[str, Any]) -> list[str]:
        """Let writers in again at once, then put everything back as it was before. Returns what could not be removed yet,
        which refuses nobody."""

    def close(self) -> None: ...


@runtime_checkable
class PassingTarget(Protocol):
    """Says whether the job's user passes the fence of this end in its other role, as a source; an ability of targets whose
    fence tells accounts apart by their rights."""

    def passes_fence(self) -> list[CheckResult]:
        """Return what the user lacks, each right with the statement that grants it; [] where nothing. Asks as that user, and
        reads only. Raises TargetUnavailable and TargetError."""


@runtime_checkable
class FencedSource(Protocol):
    """Hands out a fence; an ability of sources that can be cut over from."""

    def fence(self, name: str) -> SourceFence:
        """Return the fence of the job of this LogOptions.name. Nothing connects before one of its methods is called."""


@dataclass(frozen=True, slots=True)
class Counter:
    """The count of a source in a column that gets its numbers from it: `last` number that was handed out, rolled back
    or deleted ones among them, None where it gave none; `step` between two, below 0 where it counts down. `start`: one of its
    numbers, from which `step` leads to all others. `odd` and `even`: statements after which it gives such numbers only."""

    table: TableId
    column: str
    last: int | None
    step: int = 1
    start: int = 1
    odd: str = ""
    even: str = ""


@runtime_checkable
class CountingSource(Protocol):
    """Reports a source's number generators; an ability of those that number rows."""

    def counters(self, tables: Mapping[TableId, TableSchema]) -> list[Counter]:
        """Return the counters of columns of these tables, as they are now."""


@runtime_checkable
class ComparingSource(Protocol):
    """Names the rule by which a source compares keys; an ability of those where different texts may be equal."""

    def loose_keys(self, tables: Mapping[TableId, TableSchema]) -> dict[tuple[TableId, str], str]:
        """Return the columns of these tables' primary keys in which different texts may be equal, each with the name of what
        compares them there."""


@dataclass(frozen=True, slots=True)
class CounterSet:
    """A counter of the target: `next`, the number that it will give next. `problem`: why it could not be set."""

    table: TableId
    column: str
    next: int | None
    problem: str = ""


@runtime_checkable
class CountingTables(Protocol):
    """Lets TargetTables set counters; an ability of targets that give numbers to rows."""

    def pass_counters(
        self, tables: Sequence[TargetTable], counters: Sequence[Counter], margin: int, is_rehearsed: bool = False
    ) -> list[CounterSet]:
        """Set each counter of a replicated column past the rows that are there and past what the source has given, by `margin`
        steps more, in its own step and direction, from its own start. Never back; to do it again changes nothing. Where
        several source tables go into one, past all of them. `is_rehearsed`: says what would be set, or why it could not be,
        and sets nothing."""


class CutoverStore(Protocol):
    """Keeps the notes of a job's cut-overs. They are only added to."""

    def cutover_notes(self, job: str) -> list[CutoverNote]:
        """Return all of them, in their order; none where the state is of a release without them. Cheap to repeat."""

    def note_cutover(self, job: str, note: CutoverNote) -> None:
        """Add one. Raises Fenced where one with its number is there: another process is at the same cut-over."""
