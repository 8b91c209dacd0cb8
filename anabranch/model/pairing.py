"""The rules of a pair, as a job notes them at its target for its twin, which reads there. Standard library only.

What does not live here: the key of the job file (`config/sections/pair.py`), the comparison of both (`lifecycle/pairing.py`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from anabranch.model.ids import TableId


@dataclass(frozen=True)
class Pairing:
    """`site` is the job's source, `other` its target. `newest_by`: by target table, the column there by which the newest row is
    told; `delta`: the columns there that are added up. `deletes`: "newest" where a delete is taken, "refuse" where it stops the
    job, as it does in a release that does not say."""

    site: str
    other: str
    winner: str
    twin: str
    newest_by: Mapping[TableId, str]
    delta: Mapping[TableId, tuple[str, ...]] = field(default_factory=dict)
    deletes: str = "refuse"

    def as_text(self) -> str:
        tables = {str(table): column for table, column in sorted(self.newest_by.items())}
        sums = {str(table): columns for table, columns in sorted(self.delta.items()) if columns}
        return json.dumps(
            [self.site, self.other, self.winner, self.twin, tables, sums, self.deletes], ensure_ascii=False
        )

    @classmethod
    def of_text(cls, text: str) -> Pairing:
        site, other, winner, twin, tables, *more = json.loads(text)  # the sums came later, and deletes after them
        sums = more[0] if more else {}
        return cls(
            site,
            other,
            winner,
            twin,
            {TableId.parse(table): column for table, column in tables.items()},
            {TableId.parse(table): tuple(columns) for table, columns in sums.items()},
            *more[1:],
        )
