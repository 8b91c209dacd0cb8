"""Tables that the source has dropped, as values that apply makes and a Writer carries out."""

from __future__ import annotations

from dataclasses import dataclass, field

from anabranch.model.ids import TableId
from anabranch.rows.altered import AlteredTable
from anabranch.rows.net import TargetTable


@dataclass(frozen=True, slots=True)
class DroppedTable:
    """`kept`: the name that the target's table gets, in its schema; None: it is dropped. `goes_on`: it is replicated under that
    name. `altered`: then, with the indexes that may have the table's name in their own, which go along."""

    table: TargetTable
    kept: TableId | None = None
    goes_on: bool = False
    altered: AlteredTable | None = field(default=None, compare=False)
