"""Contract of a fail-back drill at the old source: copies of its tables, empty, beside them, and their comparison."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from anabranch.model.checks import CheckResult
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


@dataclass(frozen=True, slots=True)
class Outlook:
    """A shadow before it is made. `room`: bytes that the tables take at the source now, as the server counts them. `findings`:
    what it lacks, each with its remedy, and what is to be known of it. `options`: of the source in the role of a target, for
    the drill's job."""

    room: int
    findings: tuple[CheckResult, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)


class Shadow(Protocol):
    """A schema beside the tables of a source, which is made for one drill and removed behind it. `numbers_rows`: a row that is
    written again has another version, also with the values that it had. Raises SourceUnavailable and SourceError."""

    numbers_rows: bool

    def owner(self) -> str | None:
        """Return the job whose drill made it; "" for a schema of this name that no drill has made, None where there is none."""

    def is_begun(self) -> bool:
        """Return whether it stands with nothing in it, nor a note of whose it is: as a drill leaves it that is killed while it
        begins to make it."""

    def outlook(self, tables: Collection[TableId], admits_log: bool) -> Outlook:
        """Look at what it takes to make it with these tables; reads only. `admits_log`: what is written to it may stand in the
        source's log, where it cannot be kept out of that."""

    def make(self, tables: Mapping[TableId, TableId]) -> None:
        """Make it as `outlook` has said, with an empty table as each of these (table → shadow) is defined, keys to other tables
        left out."""

    def unlike(
        self, table: TableId, shadow: TableId, key: Sequence[str], columns: Sequence[str], limit: int
    ) -> Unlike | None:
        """Compare a table with its shadow on one snapshot. At most `limit` rows are told. None where that was broken off:
        somebody has waited for a definition to change that is held meanwhile."""

    def remove(self) -> list[str]:
        """Remove it, and the state of jobs that its drill was the first to need here. Returns what was removed."""

    def close(self) -> None:
        """Let go of the server, also in the midst of a comparison, which ends. Another call connects anew."""


@runtime_checkable
class ShadowedSource(Protocol):
    """Hands out the shadow for a drill; an ability of sources that can be drilled."""

    def shadow(self, schema: str, job: str) -> Shadow:
        """Return the shadow of this name, for the drill of this job. Nothing connects before one of its methods is called."""
