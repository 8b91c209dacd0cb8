"""Ends that answer from values, for tests of the preflight engine."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from anabranch.config import load_job
from anabranch.connectors.postgresql.target.typemap import PostgresTypes
from anabranch.contracts import PreflightContext, TypeMap
from anabranch.model.checks import CheckResult
from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.ids import TableId
from anabranch.model.schema import Column, TableSchema
from anabranch.model.writers import SourceWriter
from anabranch.preflight import Report, preflight
from anabranch.preflight.known import KnownJob
from anabranch.rules.rule_set import RuleSet

INT = LogicalType(Kind.INT32)
HEAD = 'name = "shop"\n[source]\nurl = "mysql://u:p@h"\n[target]\nurl = "postgresql://u:p@h/d"\n'
ALL = HEAD + '[[rules]]\ninclude = ["shop.*"]\n'


def table(name: str, *refused: str, key: tuple[str, ...] = ("id",)) -> TableSchema:
    columns = (Column("id", None if "id" in refused else INT, "int"), Column("n", INT, "int"))
    more = tuple(Column(c, None, "point", refusal="geometry") for c in refused if c != "id")
    return TableSchema(TableId(*name.split(".")), columns + more, key)


@dataclass
class End:
    """Both roles at once, as far as preflight asks."""

    found: list[TableSchema] = field(default_factory=list)
    results: list[CheckResult] = field(default_factory=list)
    error: Exception | None = None
    seen: list[PreflightContext] = field(default_factory=list)
    open: int = 0
    asked: int = 0
    shows_cascades: bool = True

    def catalog(self) -> End:
        self.asked += 1
        if self.error:
            raise self.error
        self.open += 1
        return self

    checks = catalog

    def tables(self, wanted: Callable[[TableId], bool], whole: bool = True) -> dict[TableId, TableSchema]:
        return {t.id: t for t in self.found if wanted(t.id)}

    def writers(self) -> list[SourceWriter]:
        return []

    def witness(self) -> AbstractContextManager[str]:
        return nullcontext("")

    @property
    def log(self) -> End:
        return self

    def logs_cascades(self) -> bool:
        return self.shows_cascades

    def run(self, context: PreflightContext) -> list[CheckResult]:
        self.seen.append(context)
        return self.results

    def close(self) -> None:
        self.open -= 1


def run(
    tmp_path: Path,
    text: str,
    source: Any,
    target: Any,
    known: Callable[[], KnownJob] = KnownJob,
    types: TypeMap | None = None,
    goes_on: bool = False,
) -> Report:
    (tmp_path / "job.toml").write_text(text)
    config = load_job(tmp_path / "job.toml", {})
    report = preflight(config, RuleSet(config, types or PostgresTypes()), source, target, known, goes_on=goes_on)
    assert source.open == target.open == 0
    return report


def failures(report: Report) -> list[str]:
    return [f"{r.check} {r.table}: {r.message}" for r in report.failed]
