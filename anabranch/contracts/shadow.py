"""Contract of a fail-back drill at the old source: copies of its tables, empty, beside them, and their comparison."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from anabranch.model.ids import TableId


@dataclass(frozen=True, slots=True)
class UnlikeRow:
    """A row that is not the same in a table and in its shadow. `versions`: of the row in each, as the server numbers them,
    "" where it is not there; a row that is written again has another one. `columns`: those that differ."""

    key: tuple[str, ...]
    versions: tuple[str, str]
    columns: tuple[str, ...] = ()

    @property
    def kind(self) -> str:
        original, shadow = self.versions
        return "different" if original and shadow else "missing" if original else "extra"


@dataclass(frozen=True, slots=True)
class Unlike:
    """The rows that are not the same: how many the table has, how many differ, and the first of these."""

    rows: int
    count: int
    sample: tuple[UnlikeRow, ...]


class Shadow(Protocol):
    """A schema beside the tables of a source, which is made for one drill and removed behind it. Raises SourceUnavailable and
    SourceError."""

    def owner(self) -> str | None:
        """Return the job whose drill made it; "" for a schema of this name that no drill has made, None where there is none."""

    def make(self, tables: Mapping[TableId, TableId]) -> None:
        """Make it, with an empty table as each of these (table → shadow) is defined, keys to other tables left out."""

    def unlike(self, table: TableId, shadow: TableId, key: Sequence[str], columns: Sequence[str], limit: int) -> Unlike:
        """Compare a table with its shadow in one statement, on one snapshot. At most `limit` rows are told."""

    def remove(self) -> list[str]:
        """Remove it, and the state of jobs that its drill was the first to need here. Returns what was removed."""

    def close(self) -> None: ...


@runtime_checkable
class ShadowedSource(Protocol):
    """Hands out the shadow for a drill; an ability of sources that can be drilled."""

    def shadow(self, schema: str, job: str) -> Shadow:
        """Return the shadow of this name, for the drill of this job. Nothing connects before one of its methods is called."""
