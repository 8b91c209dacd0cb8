"""One history's tables at a target that keeps changes: what is done to rows of other targets is not drawn there.

What does not live here: which states are seen (kafka_snapshots.py, change_snapshots.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NoReturn

from anabranch.testing.databases import Database
from anabranch.testing.torture.exempt import Noted
from anabranch.testing.torture.tables import Schema, Table
from anabranch.testing.torture.targets import Disturbance


@dataclass(frozen=True)
class NoRows:
    """The part of targets.TargetTables that is about rows."""

    target: Database
    namespace: str

    def show(self, relation: str, schema: Schema) -> None:
        self.refuse()

    def intrude(self, tables: Sequence[Table]) -> NoReturn:
        self.refuse()

    def mend(self, *, is_over: bool) -> None:
        self.refuse()

    def noted(self, schema: Schema) -> list[Noted]:
        return []

    def disturb(self, table: str, how: Disturbance) -> None:
        self.refuse()

    def calm(self, table: str, how: Disturbance) -> None:
        self.refuse()

    def refuse(self) -> NoReturn:
        raise NotImplementedError(f"{self.target.server.name}: what keeps changes has no rows")
