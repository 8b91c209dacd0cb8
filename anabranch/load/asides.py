"""Rows of a piece that the source's reader could not convert, on their way into anabranch.set_aside (K26): each as a
waiting insert. Later changes of such a row wait behind it.

What does not live here: which columns may lack their values (`lifecycle/loading.py`), what waits behind a row (`apply/aside/`).
"""

from __future__ import annotations

from anabranch.load.plan import LoadTable
from anabranch.rows.aside import AsideChange
from anabranch.rows.left_out import LeftOut
from anabranch.rows.net import INSERT
from anabranch.rows.refused import LEAVE_OUT, refused


class PieceAsides:
    """The rows of one piece that are set aside, in the order in which they come; `changes` once all lines were taken."""

    def __init__(self, load: LoadTable, number: int) -> None:
        self.load, self.number = load, number
        self._changes: list[AsideChange] = []

    def take(self, row: LeftOut) -> None:
        """Set a row aside. Raises ValueRefused for one that may not be."""
        load, names = self.load, dict(zip(self.load.table.source_columns, self.load.table.columns, strict=True))
        kept = {names[name]: value for name, value in row.values.items() if name in names}
        key = {name: kept.get(name) for name in load.table.key}
        column, what = next(iter(row.unconverted.items()))
        for column, what in row.unconverted.items():
            if column not in load.may_lack:
                why = f"{what}; not set aside: it is a column of the key, or of a unique or foreign key"
                raise refused(load.schema.id, column, key, why, LEAVE_OUT)
        if len(self._changes) >= load.aside_limit:
            why = f"{what}; {load.aside_limit:,} changes of its table are set aside already (set_aside_limit)"
            raise refused(load.schema.id, column, key, why, LEAVE_OUT)
        unconverted = {names[name]: what for name, what in row.unconverted.items()}
        words = ", ".join(f"column {name} holds {what}" for name, what in unconverted.items())
        self._changes.append(
            AsideChange(
                0,
                "",
                0,
                load.table.source,
                load.table.target,
                key,
                INSERT,
                None,
                kept,
                f"{words} (read by the load)",
                unconverted=unconverted,
            )
        )

    def changes(self) -> list[AsideChange]:
        return list(self._changes)
