"""The plan of a fail-back drill: what it would make, what that takes, and what is found before anything is made.

What does not live here: finding it out (drilling.py), the result of a drill (drill_report.py).
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import IO, Any

from anabranch.errors import PreflightFailed
from anabranch.job.drill_report import VERSION, write_findings
from anabranch.model.checks import CheckResult, CheckVerdict

UNITS = ("bytes", "kB", "MB", "GB", "TB")


@dataclass(frozen=True, slots=True)
class DrillPlan:
    """`shadow`: the schema or database at the source; `tables`: source tables, each with its copy there. `room`: bytes that the
    tables take now, as the shadow will."""

    job: str
    shadow: str
    tables: tuple[tuple[str, str], ...] = ()
    room: int = 0
    findings: tuple[CheckResult, ...] = ()

    @property
    def exit_code(self) -> int:
        is_refused = any(one.verdict is CheckVerdict.FAILED for one in self.findings)
        return PreflightFailed.exit_code if is_refused else 0

    def to_json(self) -> dict[str, Any]:
        return {
            "version": VERSION,
            "job": self.job,
            "shadow": self.shadow,
            "room": self.room,
            "tables": [{"source": source, "shadow": shadow} for source, shadow in self.tables],
            "findings": [asdict(one) for one in self.findings],
        }

    def write(self, file: IO[str]) -> None:
        write_findings(self.findings, file)
        for source, shadow in self.tables:
            file.write(f"copy     {source} -> {shadow}\n")
        if self.exit_code:
            file.write(f"{self.job} cannot be drilled like this: exit code {self.exit_code}\n")
        else:
            file.write(f"the shadow of {len(self.tables)} tables takes about {room_of(self.room)} at the source\n")


def room_of(size: int) -> str:
    """Return bytes for people: 1.5 GB."""
    amount, unit = float(size), 0
    while amount >= 1000 and unit < len(UNITS) - 1:
        amount, unit = amount / 1000, unit + 1
    return f"{amount:.1f} {UNITS[unit]}" if unit else f"{size} {UNITS[0]}"
