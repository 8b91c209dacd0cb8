"""A preflight report: its verdict, and its forms on a terminal, in a pipe and as JSON.

What does not live here: the checks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import IO, Any

from anabranch.errors import PreflightFailed
from anabranch.model.checks import CheckResult, CheckVerdict

VERSION = 1
ORDER = tuple(CheckVerdict)  # what needs doing stands last, beside the summary
STYLES = {CheckVerdict.OK: "green", CheckVerdict.WARNING: "yellow", CheckVerdict.FAILED: "bold red"}


@dataclass(frozen=True)
class Report:
    """`exit_code`: of a command whose checks have failed; that of an end which cannot be entered, where there is one."""

    job: str
    results: tuple[CheckResult, ...]
    exit_code: int = PreflightFailed.exit_code

    @property
    def verdict(self) -> CheckVerdict:
        """The worst of all."""
        return max((result.verdict for result in self.results), key=ORDER.index, default=CheckVerdict.OK)

    @property
    def failed(self) -> tuple[CheckResult, ...]:
        return tuple(result for result in self.results if result.verdict == CheckVerdict.FAILED)

    @property
    def warnings(self) -> tuple[CheckResult, ...]:
        return tuple(result for result in self.results if result.verdict == CheckVerdict.WARNING)

    @property
    def summary(self) -> str:
        counts = [sum(result.verdict == verdict for result in self.results) for verdict in ORDER]
        return ", ".join(f"{count} {verdict}" for verdict, count in zip(ORDER, counts, strict=True))

    def with_(self, more: Iterable[CheckResult]) -> Report:
        """Return the report with results of others."""
        return replace(self, results=(*self.results, *more))

    def with_steps(self, steps: Mapping[str, str]) -> Report:
        """Return the report with the step of the recipe that mends each finding: `steps` has it by check, by end, by "job"."""
        return replace(self, results=tuple(map(partial(_with_step, steps), self.results)))

    def to_json(self) -> dict[str, Any]:
        checks = [asdict(result) for result in self.results]
        return {"version": VERSION, "job": self.job, "verdict": self.verdict, "checks": checks}

    def require(self) -> None:
        """Raise PreflightFailed with every failed check and its remedy, if there are any."""
        if self.failed:
            lines = [f"  {_message(result)}" + (f" — {result.hint}" if result.hint else "") for result in self.failed]
            raise PreflightFailed("\n".join([f"{len(lines)} checks failed", *lines]), job=self.job)

    def write(self, file: IO[str], but: CheckVerdict | None = None) -> None:
        """Write a table on a terminal, plain lines elsewhere; without the results of the verdict `but`."""
        shown = (result for result in self.results if result.verdict != but)
        results = sorted(shown, key=lambda result: ORDER.index(result.verdict))
        _write_table(results, file) if file.isatty() else _write_lines(results, file)
        file.write(f"preflight of {self.job}: {self.summary}\n")


def _with_step(steps: Mapping[str, str], result: CheckResult) -> CheckResult:
    if result.verdict == CheckVerdict.OK:
        return result
    return replace(result, step=steps.get(result.check) or steps.get(result.check.partition(".")[0], ""))


def _message(result: CheckResult) -> str:
    return f"{result.check}: " + (f"{result.table}: " if result.table else "") + result.message


def _write_lines(results: list[CheckResult], file: IO[str]) -> None:
    for result in results:
        file.write(f"{result.verdict:<8}{_message(result)}\n")
        if result.hint and result.verdict != CheckVerdict.OK:
            file.write(f"        -> {result.hint}\n")
        if result.step and result.verdict == CheckVerdict.FAILED:
            file.write(f"        step of the recipe: {result.step}\n")


def _write_table(results: list[CheckResult], file: IO[str]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table("", "check", "finding", box=None, pad_edge=False, header_style="dim")
    for result in results:
        finding = Text((f"{result.table}: " if result.table else "") + result.message)
        if result.hint and result.verdict != CheckVerdict.OK:
            finding.append(f"\n-> {result.hint}", style="cyan")
        if result.step and result.verdict == CheckVerdict.FAILED:
            finding.append(f"\nstep of the recipe: {result.step}", style="dim")
        table.add_row(Text(result.verdict, style=STYLES[result.verdict]), Text(result.check), finding)
    Console(file=file).print(table)
