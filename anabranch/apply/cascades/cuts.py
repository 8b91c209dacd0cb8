"""Search for the places where cascades cut an epoch into stages (K1): what may not be merged over.

Cascades come at the end of a stage. That equals doing each at its own place as long as no later image of the stage puts
a child row under a parent value that a pending cascade will clear, or belongs to a row that a pending cascade will
move, and as long as no cascade reaches rows that another one moves (effect.py). Where that test is not enough (a load
window, foreign keys that reference something else than the primary key, keys of the target that act, rows put with
foreign keys off), any later put into an affected table begins a stage. What does not live here: the cascades
(cascade.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from anabranch.apply.cascades.arriving_children import ArrivingChildren
from anabranch.apply.cascades.cascade import ParentChange
from anabranch.apply.cascades.parents import Kind
from anabranch.apply.context import ApplyContext, Values
from anabranch.apply.images import END, Images
from anabranch.errors import RowRefused
from anabranch.model.ids import TableId
from anabranch.rows.net import CascadeRule


def cuts(
    images: Mapping[TableId, Images], changes: Sequence[ParentChange], context: ApplyContext, base: int
) -> list[int]:
    """Return the orders at which a new stage has to begin because of `changes`.

    Raises RowRefused for an effect that cannot be told where keys of the target act.
    """
    found: list[int] = []
    pending, until = _Pending(), END

    def cut(order: int) -> None:
        nonlocal pending, until
        found.append(order)
        pending, until = _Pending(), END

    for parent in _parents(changes, ArrivingChildren(images, changes), context, base):
        if context.keys and parent.kind.is_move and parent.kind.effect.twice:
            raise _two_ways(parent)
        if until <= parent.begin:
            cut(until)
        is_late = (
            context.keys and parent.kind.is_move and parent.kind.has_image(found[-1] if found else -END, parent.begin)
        )
        if is_late or pending.collides(parent):
            cut(parent.begin)
        pending.add(parent)
        until = min(until, parent.kind.end(parent.changes))
    if until < END:
        cut(until)
    return found


@dataclass(frozen=True)
class _Parent:
    """A parent row that is deleted or gets another value."""

    kind: Kind
    changes: tuple[ParentChange, ...]

    @property
    def begin(self) -> int:
        """Return the order of its first image: the two images of an update stay together."""
        return self.changes[0].order - self.kind.is_move


def _parents(
    changes: Sequence[ParentChange], children: ArrivingChildren, context: ApplyContext, base: int
) -> Iterator[_Parent]:
    kinds: dict[tuple[bool, tuple[int, ...]], Kind] = {}
    for _, same in groupby(changes, key=lambda change: change.order):
        some = tuple(same)
        what = some[0].new is not None, tuple([id(change.rule) for change in some])
        if what not in kinds:
            kinds[what] = Kind([change.rule for change in some], what[0], children, context, base)
        yield _Parent(kinds[what], some)


@dataclass
class _Pending:
    """The parents of a stage so far, by what happens to them."""

    kinds: set[Kind] = field(default_factory=set)
    new_values: set[tuple[CascadeRule, Values | None]] = field(default_factory=set)  # values that moved parents get

    def add(self, parent: _Parent) -> None:
        self.kinds.add(parent.kind)
        if parent.kind.effect.moved:
            self.new_values |= {(change.rule, change.new) for change in parent.changes}

    def collides(self, parent: _Parent) -> bool:
        """Return whether the parent's cascade reaches rows that those of the stage move, or moves rows that they reach.

        Parents of one kind may go together where there is one way to each table: each concerns other rows. The same row
        twice may not: the value between is nowhere at the end.
        """
        ours = parent.kind
        if any(kind.meets(ours) for kind in self.kinds if kind is not ours or not ours.effect.is_plain):
            return True
        return bool(self.new_values) and any((change.rule, change.old) in self.new_values for change in parent.changes)


def _two_ways(parent: _Parent) -> RowRefused:
    """Return the error for a row that a key of the target has moved already, and that is looked for by another key's
    former value.
    """
    return RowRefused(
        f"a referenced value changes, {', '.join(sorted(map(str, parent.kind.effect.twice)))} follows it by two foreign keys,"
        " and rows of a further table follow those; with the target's own keys active, anabranch cannot tell which rows these"
        " are",
        table=str(parent.changes[0].rule.parent.source),
        hint="let the job's user switch foreign keys off at the target: preflight lists the statements",
    )
