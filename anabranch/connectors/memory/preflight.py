"""Checks of the twin: nothing can be wrong with it but its place."""

from __future__ import annotations

from anabranch.contracts import PreflightContext
from anabranch.model.checks import CheckResult, CheckVerdict


class MemoryChecks:
    def __init__(self, name: str) -> None:
        self._name = name

    def run(self, context: PreflightContext) -> list[CheckResult]:
        return [CheckResult("memory.database", CheckVerdict.OK, f"database {self._name} of this process")]

    def close(self) -> None:
        pass
