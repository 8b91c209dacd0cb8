"""Tables that the source has dropped, as values that apply makes and a Writer carries out."""

from __future__ import annotations

from dataclasses import dataclass

from anabranch.model.ids import TableId
from anabranch.rows.net import TargetTable


@dataclass(frozen=True, slots=True)
class DroppedTable:
    """`kept`: the name that the target's table gets, in its schema; None: it is dropped. `goes_on`: it is replicated under that
    name."""

    table: TargetTable
    kept: TableId | None = None
    goes_on: bool = False
