"""The result of a fail-back drill: its values, its JSON shape, and its form for people.

What does not live here: the drill (drilling.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import IO, Any

from anabranch.errors import DifferencesFound, NotCaughtUp, PreflightFailed
from anabranch.model.checks import CheckResult, CheckVerdict

VERSION = 1
SHOWN = 10


@dataclass(frozen=True, slots=True)
class DrilledRow:
    """A row that did not come back the same. `kind`: missing (in the shadow), extra (there only) or different, with the
    `columns` that are."""

    kind: str
    key: Mapping[str, str]
    columns: tuple[str, ...] = ()

    def __str__(self) -> str:
        place = ", ".join(f"{name}={value}" for name, value in self.key.items())
        return f"{self.kind:<9} {place}" + (f" ({', '.join(self.columns)})" if self.columns else "")


@dataclass(frozen=True, slots=True)
class DrilledTable:
    """`rows`: of the table when it was compared last. `changes`: row changes that came back over the stream. `different`: rows
    that are not what they were though both jobs had passed them; `pending`: rows on their way at every look, `why`: another
    reason for that. `sample` has the first that are different."""

    source: str
    target: str
    rows: int = 0
    changes: int = 0
    different: int = 0
    pending: int = 0
    sample: tuple[DrilledRow, ...] = ()
    why: str = ""

    @property
    def verdict(self) -> str:
        return "different" if self.different else "pending" if self.pending else "equal"

    def __str__(self) -> str:
        more = "".join(f", {n} {what}" for n, what in ((self.different, "different"), (self.pending, "pending")) if n)
        counts = f"{self.rows} rows{more}, {self.changes} changes came back" + (f"; {self.why}" if self.why else "")
        return f"{self.verdict.upper() if more else self.verdict:<9}  {self.source} -> {self.target} -> back: {counts}"


def write_findings(findings: Iterable[CheckResult], file: IO[str]) -> None:
    """Write findings, each with its remedy."""
    for one in findings:
        file.write(f"{one.verdict:<8} {one.check}: {f'{one.table}: ' if one.table else ''}{one.message}\n")
        if one.hint:
            file.write(f"         -> {one.hint}\n")


@dataclass(frozen=True, slots=True)
class DrillReport:
    """`findings`: what keeps the way back from working, each with its remedy, and what is to be known of it. `tables`: those
    that went there and back; none where something was found before. `position`: the place of the source's log behind which
    every difference was confirmed. `removed`: what the drill had made."""

    job: str
    findings: tuple[CheckResult, ...] = ()
    tables: tuple[DrilledTable, ...] = ()
    position: str = ""
    removed: tuple[str, ...] = ()

    @property
    def failed(self) -> tuple[CheckResult, ...]:
        return tuple(one for one in self.findings if one.verdict is CheckVerdict.FAILED)

    @property
    def works(self) -> bool:
        return not self.exit_code

    @property
    def exit_code(self) -> int:
        if self.failed:
            return PreflightFailed.exit_code
        if any(table.different for table in self.tables):
            return DifferencesFound.exit_code
        return NotCaughtUp.exit_code if any(table.pending for table in self.tables) else 0

    def to_json(self) -> dict[str, Any]:
        return {
            "version": VERSION,
            "job": self.job,
            "works": self.works,
            "position": self.position,
            "findings": [asdict(one) for one in self.findings],
            "tables": [{**asdict(one), "verdict": one.verdict} for one in self.tables],
            "removed": list(self.removed),
        }

    def write(self, file: IO[str]) -> None:
        write_findings(self.findings, file)
        for table in self.tables:
            file.write(f"{table}\n")
            for row in table.sample[:SHOWN]:
                file.write(f"    {row}\n")
        if self.works:
            file.write(f"the way back of {self.job} works: {len(self.tables)} tables came back as they were\n")
        else:
            file.write(f"the way back of {self.job} is not shown to work: exit code {self.exit_code}\n")
