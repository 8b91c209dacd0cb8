"""Checks of the folder."""

from __future__ import annotations

from anabranch.connectors.folder.files import Folder

from anabranch.contracts import PreflightContext
from anabranch.model.checks import CheckResult, CheckVerdict


class FolderChecks:
    def __init__(self, folder: Folder) -> None:
        self._folder = folder

    def run(self, context: PreflightContext) -> list[CheckResult]:
        """Raises SourceUnavailable where there is no such folder."""
        return [CheckResult("source.folder", CheckVerdict.OK, f"the log ends at {self._folder.end()}")]

    def close(self) -> None:
        """Nothing is open."""
