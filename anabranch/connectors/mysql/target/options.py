"""Options of a MySQL or MariaDB as a target: `[target.options]` of the job file. No driver is imported here."""

from __future__ import annotations

from dataclasses import dataclass

from anabranch.databases import Options


@dataclass(frozen=True)
class MysqlTargetOptions(Options):
    """It has no keys yet: types and apply bring theirs."""


USUAL = MysqlTargetOptions()
