"""Row changes that the target refuses and that are set aside, so that the rest goes on: values, and what a target does with
them.

What does not live here: which changes may be set aside, and what may not be applied past them (`apply/aside/permitted.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from anabranch.errors import RowRefused
from anabranch.model.ids import TableId
from anabranch.rows.net import DELETE, INSERT, UPDATE, Operation, RowChange, TargetTable

Texts = Mapping[str, str | None]

STILL = "correct the row at the source, and release it when its change is listed here; or discard it"
RELEASE, DISCARD = "release", "discard"  # what a person wants done with a row


@dataclass(frozen=True, slots=True)
class AsideChange:
    """A row of anabranch.set_aside. Images are text forms by target column, None where there is none: `before` has what the
    log knows of the row, `after` the columns that are set. Changes with the same `key` wait in the order of their numbers.

    `unconverted`: columns that `after` lacks because their values could not be converted, and words for these.

    `wish`: RELEASE or DISCARD once a person has asked for it. One that is discarded is kept for the record, and stands in
    nobody's way."""

    sequence: int
    position: str
    commit_time: int
    source: TableId
    target: TableId
    key: Texts
    operation: Operation
    before: Texts | None
    after: Texts | None
    reason: str
    keys_off: bool = False
    wish: str = ""
    is_discarded: bool = False
    unconverted: Mapping[str, str] = field(default_factory=dict)
    number: int = field(default=0, compare=False)  # given by the target
    set_aside_at: int = field(default=0, compare=False)  # microseconds since 1970 UTC, by the target's clock

    @property
    def images(self) -> list[Texts]:
        """Return the row before and after the change, as far as it is known."""
        before = dict(self.before or {})
        return [image for image in (before, {**before, **self.after} if self.after is not None else {}) if image]

    def change(self, table: TargetTable) -> RowChange:
        """Build the row change that carries it out."""
        is_insert = self.operation == INSERT
        return RowChange(
            table,
            self.operation,
            {} if is_insert else dict(self.key),
            dict(self.after or {}),
            keys_off=self.keys_off,
            before=dict(self.before or {}),
        )


def carried_out(changes: Sequence[AsideChange]) -> list[AsideChange]:
    """Return the changes to carry out for all changes of one row: themselves, or one that sums them up where values are
    missing.

    A value is missing where it could not be converted. Raises RowRefused if the row still holds such a value.
    """
    if not any(change.unconverted for change in changes):
        return list(changes)
    values: dict[str, str | None] = {}
    missing: dict[str, str] = {}
    for change in changes:
        values = {} if change.operation == INSERT else values
        values |= change.after or {}
        missing = {name: what for name, what in missing.items() if name not in values} | dict(change.unconverted)
        values = {name: value for name, value in values.items() if name not in change.unconverted}
    first, last = changes[0], changes[-1]
    was_there, is_there = first.operation != INSERT, last.operation != DELETE
    if is_there and missing:
        what = ", ".join(f"column {name} holds {what}" for name, what in missing.items())
        raise RowRefused(f"{what}: {STILL}", table=str(first.source))
    if not is_there and was_there:
        return [replace(first, operation=DELETE, after=None, unconverted={})]
    if not is_there:  # the target refused what it could be given: another row may stand in its place
        return [] if first.unconverted else [first, last]
    operation = UPDATE if was_there else INSERT
    return [replace(first, operation=operation, after=values, keys_off=last.keys_off, unconverted={})]


@dataclass(frozen=True)
class Aside:
    """Changes of one table that wait, in their order, and how many may."""

    limit: int
    changes: tuple[AsideChange, ...] = ()

    def plus(self, change: AsideChange) -> Aside:
        return replace(self, changes=(*self.changes, change))
