"""The check that the target reached its position by this trail. Two copies of one home that both ran have two trails
under one name, and the same sequence may be another transaction in each."""

from __future__ import annotations

from anabranch.errors import StateError
from anabranch.model.position import Position
from anabranch.rows.chunk import BarrierKind, Chunk
from anabranch.trail.reader import TrailReader

NEAR = 5_000  # transactions before and after, among which the target's position is looked for


def refuse_other_trail(job: str, trail: TrailReader, at: Position) -> None:
    """Raise StateError unless the target's position belongs to this trail.

    It does if the trail has it under the same sequence, or if it is later and the log had nothing for us in between:
    no other transaction of the trail has it.
    """
    end, first = trail.end().position, trail.first()
    if at.sequence > end.sequence:
        raise StateError(
            f"the target is at {at}, past the trail's end {end}",
            job=job,
            hint="the trail has lost its end or is a different trail: restore it, or load again",
        )
    if not at.native or at.sequence < first or trail.position_at(at.sequence).native == at.native:
        return
    for ref in trail.descriptors(max(first, at.sequence - NEAR) - 1, min(at.sequence + NEAR, end.sequence)):
        if ref.has_barriers and ref.rows == 0 and _is_in_no_log(trail.load(ref)):
            continue  # it is in no log, and has the native position of the transaction before it
        natives = trail.transactions(ref).column("native").to_pylist()
        if at.native in natives:
            there = Position(ref.first_sequence + natives.index(at.native), at.native)
            raise StateError(
                f"the target is at {at}, which is {there} in this trail",
                job=job,
                hint="the target was written from another copy of the job's home: continue with that copy, or load again",
            )


def _is_in_no_log(chunk: Chunk) -> bool:
    """Return whether the chunk may be none of the source's transactions: tables are parked at a place of the log, too."""
    return all(one.is_ours or (one.kind is BarrierKind.PARK and not one.statement) for one in chunk.barriers)
