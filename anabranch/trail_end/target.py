"""A trail in the role of target: where a load goes, and what a capture needs to know of it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from anabranch.contracts import (
    Checks,
    Loader,
    PreflightContext,
    RowTarget,
    Stager,
    TargetCatalog,
    TargetReader,
    TargetStore,
    TargetTables,
    TypeMap,
    ValueRules,
    Writer,
)
from anabranch.databases import NONE, Options
from anabranch.errors import ConfigError
from anabranch.model.at_target import OF_KIND, AtTarget
from anabranch.model.checks import CheckResult, CheckVerdict
from anabranch.model.datatype import Fidelity, Fit, Kind, LogicalType
from anabranch.model.endpoint import Endpoint
from anabranch.model.schema import Column, TableSchema
from anabranch.trail_end.loader import TrailLoader
from anabranch.trail_end.store import TrailStore

NO_ROWS = "the job's target is a trail, which has no rows to read or to change"
ELSEWHERE = "do that in the job that applies the trail"


class TrailTypes:
    """A trail keeps every logical type as it is, in its own text form."""

    keeps_nul = True  # a target behind it may not: whoever reads the rows there looks (recorded.py)

    def fit(self, type: LogicalType, rules: ValueRules) -> Fit:
        return Fit(str(type), Fidelity.EXACT)

    def by_setting(self, kind: Kind, rules: ValueRules) -> str:
        return ""

    def why_not_computed(self, column: Column, schema: TableSchema, rules: ValueRules) -> str:
        return "a trail computes nothing"

    def at_target(self, type: LogicalType, rules: ValueRules) -> AtTarget:
        return OF_KIND


class TrailChecks:
    """Checks of the directory that the job's target URL names."""

    def __init__(self, trail: Path) -> None:
        self._trail = trail

    def run(self, context: PreflightContext) -> list[CheckResult]:
        place = next(one for one in (self._trail, *self._trail.parents) if one.exists())
        if not place.is_dir():
            text, hint = f"{place} is no directory", "name another one in [target] url"
            return [CheckResult("target.trail", CheckVerdict.FAILED, text, hint)]
        if not os.access(place, os.W_OK | os.X_OK):
            text, hint = f"{place} cannot be written by the user of this process", f"let it write there: {place}"
            return [CheckResult("target.trail", CheckVerdict.FAILED, text, hint)]
        return [CheckResult("target.trail", CheckVerdict.OK, f"the trail goes to {self._trail}")]

    def close(self) -> None:
        pass


@dataclass(frozen=True)
class TrailTarget:
    trail: Path

    @property
    def types(self) -> TypeMap:
        return TrailTypes()

    def store(self) -> TargetStore:
        return TrailStore(self.trail)

    def checks(self) -> Checks:
        return TrailChecks(self.trail)

    def catalog(self) -> TargetCatalog:
        return TrailLoader(self.trail)

    def tables(self, rules: ValueRules) -> TargetTables:
        return TrailLoader(self.trail)

    def loader(self, rules: ValueRules) -> Loader:
        return TrailLoader(self.trail)

    def writer(self, rules: ValueRules, bypass_constraints: bool) -> Writer:
        _refuse()

    def stager(self, rules: ValueRules) -> Stager:
        _refuse()

    def reader(self, rules: ValueRules) -> TargetReader:
        _refuse()


def _refuse() -> NoReturn:
    raise ConfigError(NO_ROWS, hint=ELSEWHERE)


def connector(endpoint: Endpoint, options: Options = NONE) -> RowTarget:
    return TrailTarget(Path(endpoint.database))
