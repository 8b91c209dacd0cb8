"""Findings of a scan: gathered by table, column and words, with counts and some keys; as results of preflight and as JSON.

Values are never shown: a key is, as in every message about a row.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from anabranch.model.checks import CheckResult, CheckVerdict
from anabranch.model.ids import TableId

VERSION = 1
KEYS = 5  # of a finding that are shown
SHOWN = 80  # characters of a key that are shown


class Outcome(StrEnum):
    """Says what a load would do with a value; the worst comes first."""

    REFUSED = "refused"  # the row is not taken: [apply] on_error decides what becomes of it
    CHANGED = "changed"  # the row is taken, and a value of it is another one at the target


VERDICTS = {Outcome.REFUSED: CheckVerdict.FAILED, Outcome.CHANGED: CheckVerdict.WARNING}
CHECKS = {Outcome.REFUSED: "scan.refused", Outcome.CHANGED: "scan.changed"}


@dataclass(frozen=True, slots=True)
class Finding:
    """Rows of a table about which the same is to be said. `column`: its name at the source, "" where the server names none.
    `keys`: of some of the rows. `is_least`: there may be more, which were not tried. `decides`: the line of the job file."""

    table: TableId
    outcome: Outcome
    column: str
    what: str
    hint: str = ""
    rows: int = 1
    keys: tuple[str, ...] = ()
    is_least: bool = False
    decides: str = ""
    by_source: bool = False  # its reader could not convert the value: the job's settings decide, not the target's type

    @property
    def about(self) -> tuple[TableId, Outcome, str, str]:
        return self.table, self.outcome, self.column, self.what

    def and_(self, other: Finding) -> Finding:
        """Return both as one."""
        keys = (*self.keys, *other.keys)[:KEYS]
        return replace(self, rows=self.rows + other.rows, keys=keys, is_least=self.is_least or other.is_least)

    @property
    def message(self) -> str:
        at_least = "at least " if self.is_least else ""
        rows = f"{at_least}{self.rows:,} row{'s' * (self.rows != 1)}"
        column = f", column {self.column}" if self.column else ""
        keys = f"; key {'; '.join(self.keys)}" + (" …" if self.rows > len(self.keys) else "") if self.keys else ""
        return f"{rows}{column}: {self.what}{keys}"


def gathered(findings: Iterable[Finding]) -> list[Finding]:
    """Return findings that say the same as one."""
    found: dict[object, Finding] = {}
    for one in findings:
        found[one.about] = found[one.about].and_(one) if one.about in found else one
    return list(found.values())


@dataclass(frozen=True, slots=True)
class TableScan:
    """A table that was looked at. `rows`: that were read; `part`: of how many ranges of its key how many; `not_seen`: what was
    not looked at, and why."""

    table: TableId
    rows: int = 0
    part: tuple[int, int] = (1, 1)
    not_seen: tuple[str, ...] = ()


@dataclass(frozen=True)
class ScanReport:
    """The result of a scan at one target. `on_error`: [apply] on_error, which decides about rows that are refused."""

    job: str
    tables: Sequence[TableScan] = ()
    findings: Sequence[Finding] = ()
    on_error: str = "stop"
    seed: int | None = None

    @property
    def refuses(self) -> bool:
        return any(one.outcome is Outcome.REFUSED for one in self.findings)

    def results(self) -> Iterator[CheckResult]:
        """Yield what preflight shows."""
        for one in self.findings:
            hint = one.hint + (f" ({one.decides})" if one.decides else "")
            yield CheckResult(CHECKS[one.outcome], VERDICTS[one.outcome], one.message, hint, str(one.table), one.keys)
        for table in self.tables:
            for why in table.not_seen:
                yield CheckResult("scan.not_seen", CheckVerdict.WARNING, why, "", str(table.table))
        rows = sum(table.rows for table in self.tables)
        what = "the rows of" if self.seed is None else f"a sample (seed {self.seed}) of"
        refused = sum(one.rows for one in self.findings if one.outcome is Outcome.REFUSED)
        said = f'; of the {refused:,} that are refused [apply] on_error = "{self.on_error}" decides' if refused else ""
        message = f"{rows:,} rows were tried: {what} {len(self.tables)} tables{said}"
        yield CheckResult("scan.read", CheckVerdict.OK, message)

    def to_json(self) -> dict[str, Any]:
        """Return the report as `preflight --scan --json` has it under `scan`."""
        findings = [
            {
                "table": str(one.table),
                "outcome": one.outcome.value,
                "column": one.column or None,
                "what": one.what,
                "rows": one.rows,
                "at_least": one.is_least,
                "keys": list(one.keys),
                "hint": one.hint,
                "decides": one.decides,
            }
            for one in self.findings
        ]
        tables = [
            {
                "table": str(one.table),
                "rows": one.rows,
                "ranges": {"tried": one.part[0], "all": one.part[1]},
                "not_seen": list(one.not_seen),
            }
            for one in self.tables
        ]
        return {
            "version": VERSION,
            "on_error": self.on_error,
            "seed": self.seed,
            "tables": tables,
            "findings": findings,
        }


def key_text(names: Iterable[str], values: Iterable[str | None]) -> str:
    """Return a key as messages show it, cut where it is long; "" for none."""
    pairs = zip(names, values, strict=True)
    text = ", ".join(f"{name}={'NULL' if value is None else value}" for name, value in pairs)
    text = text.replace("\0", "\\0").replace("\n", "\\n")
    return text if len(text) <= SHOWN else text[: SHOWN - 1] + "…"
