"""The rules of a pair, as a job notes them at its target for its twin, which reads there. Standard library only.

What does not live here: the key of the job file (`config/sections/pair.py`), the comparison of both (`lifecycle/pairing.py`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from anabranch.model.ids import TableId


def said_of_deletes(deletes: str, sums: bool) -> str:
    """Return what a job says of deletes: `deletes` is its setting, `sums`: columns of some table are added up. A job of a
    release that stops at a delete there says something else, and so the two do not go together."""
    return f"{deletes}, also of sums" if sums and deletes == "newest" else deletes


@dataclass(frozen=True)
class Pairing:
    """`site` is the job's source, `other` its target. `newest_by`: by target table, the column there by which the newest row is
    told; `delta`: the columns there that are added up. `deletes`: what `said_of_deletes` returns; "refuse" where one stops
    the job, as it does in a release that does not say. `wins`: by target table, the site whose row stays there whatever the
    versions are; tables that go by their versions are not in it. `ddl_from`: the site at which columns are added, "" for
    neither."""

    site: str
    other: str
    winner: str
    twin: str
    newest_by: Mapping[TableId, str]
    delta: Mapping[TableId, tuple[str, ...]] = field(default_factory=dict)
    deletes: str = "refuse"
    wins: Mapping[TableId, str] = field(default_factory=dict)
    ddl_from: str = ""

    def as_text(self) -> str:
        tables = {str(table): column for table, column in sorted(self.newest_by.items())}
        sums = {str(table): columns for table, columns in sorted(self.delta.items()) if columns}
        said: list[object] = [self.site, self.other, self.winner, self.twin, tables, sums, self.deletes]
        if self.wins or self.ddl_from:  # a release before does not read it
            said.append({str(table): site for table, site in sorted(self.wins.items())})
        if self.ddl_from:
            said.append(self.ddl_from)
        return json.dumps(said, ensure_ascii=False)

    @classmethod
    def of_text(cls, text: str) -> Pairing:
        site, other, winner, twin, tables, *more = json.loads(text)
        later = {"delta": {}, "deletes": "refuse", "wins": {}, "ddl_from": ""}  # each came with a release of its own
        found: dict[str, Any] = later | dict(zip(later, more, strict=False))
        return cls(
            site,
            other,
            winner,
            twin,
            {TableId.parse(table): column for table, column in tables.items()},
            {TableId.parse(table): tuple(columns) for table, columns in found["delta"].items()},
            found["deletes"],
            {TableId.parse(table): wins for table, wins in found["wins"].items()},
            found["ddl_from"],
        )
