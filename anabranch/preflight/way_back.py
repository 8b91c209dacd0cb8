"""The checks of both servers in their other roles: the job's target as a source, its source as a target. Reads only.

What does not live here: what is checked (`connectors/<db>/<role>/preflight.py`), what follows from definitions alone
(`rules/way_back.py`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace

from anabranch.config import JobConfig
from anabranch.contracts import Checks, PreflightContext, SourceConnector, TargetConnector
from anabranch.errors import (
    NOT_ADMITTED,
    AnabranchError,
    SourceError,
    SourceUnavailable,
    TargetError,
    TargetUnavailable,
)
from anabranch.model.checks import CheckResult, CheckVerdict
from anabranch.model.ids import TableId
from anabranch.model.schema import TableSchema
from anabranch.preflight.run import FULL_IMAGES, choices_of
from anabranch.rules.rule_set import RuleSet

PREFIX = "reverse."
READ, WRITTEN = "the target, as the source of the way back", "the source, as the target of the way back"
# Findings about what a load would make: everything stands already. Types are compared in rules/way_back.py.
NOT_MADE = frozenset(
    f"target.{name}"
    for name in (
        "types",
        "indexes",
        "checks",
        "foreign_keys",
        "computed",
        "defaults",
        "partitions",
        "definition",
        "script",
    )
)


@dataclass(frozen=True)
class OtherRoles:
    """`config`, `rules`: of the way back. `read`: the job's target as a source, `written`: its source as a target. `made`: the
    tables that stand at the target; `tables`: all that go back, those that do not stand yet as they are at the source."""

    config: JobConfig
    rules: RuleSet
    read: SourceConnector
    written: TargetConnector
    made: Mapping[TableId, TableSchema]
    tables: Mapping[TableId, TableSchema]

    def results(self) -> Iterator[CheckResult]:
        """Run the checks of both. Raises the error of an end that cannot be reached, as an error of the job's own end."""
        context = self._context()
        with target_asked():
            mine = replace(
                context, tables=self.made, targets={t: f for t, f in context.targets.items() if t in self.made}
            )
            yield from self._said(READ, self.read.checks(), mine)
        with source_asked():
            yield from self._said(WRITTEN, self.written.checks(), context)

    def _context(self) -> PreflightContext:
        targets = {}
        for table, schema in self.tables.items():
            try:
                targets[table] = self.rules.target_table(schema)
            except AnabranchError:
                continue  # the findings about definitions say so
        tables = {table: schema for table, schema in self.tables.items() if table in targets}
        return PreflightContext(
            self.config.name,
            choices_of(self.config, self.rules.target_name) | {FULL_IMAGES: ""},
            tables,
            targets,
            {table: self.rules.left_out(schema) for table, schema in tables.items()},
            loaded=frozenset(tables),
            logs_cascades=True,
        )

    def _said(self, where: str, checks: Checks, context: PreflightContext) -> Iterator[CheckResult]:
        try:
            found = checks.run(context)
        except (SourceError, TargetError) as error:
            if error.code != NOT_ADMITTED:
                raise
            role = "source" if where == READ else "target"
            yield CheckResult(f"{PREFIX}{role}.rights", CheckVerdict.FAILED, f"{where}: {error.message}", error.hint)
            return
        finally:
            checks.close()
        yield from self._named(where, [one for one in found if one.check not in NOT_MADE])

    def _named(self, where: str, found: Iterable[CheckResult]) -> Iterator[CheckResult]:
        names = {str(table): str(self.rules.target_of(table)) for table in self.tables}
        counts: Counter[CheckVerdict] = Counter()
        for one in found:
            counts[one.verdict] += 1
            if one.verdict is not CheckVerdict.OK:
                table = names.get(one.table, one.table)
                yield replace(one, check=PREFIX + one.check, message=f"{where}: {one.message}", table=table)
        role = "source" if where == READ else "target"
        if not counts[CheckVerdict.FAILED]:
            yield CheckResult(f"{PREFIX}{role}", CheckVerdict.OK, f"{where}: {counts[CheckVerdict.OK]} checks are ok")


@contextmanager
def target_asked() -> Iterator[None]:
    """Raise errors of a target that is asked as a source as what they are: the target's."""
    try:
        yield
    except SourceError as error:
        kind = TargetUnavailable if isinstance(error, SourceUnavailable) else TargetError
        raise _moved(error, kind) from error


@contextmanager
def source_asked() -> Iterator[None]:
    """Raise errors of a source that is asked as a target as the source's."""
    try:
        yield
    except TargetError as error:
        kind = SourceUnavailable if isinstance(error, TargetUnavailable) else SourceError
        raise _moved(error, kind) from error


def _moved(error: AnabranchError, kind: type[AnabranchError]) -> AnabranchError:
    hint = "" if error.hint == type(error).default_hint else error.hint
    return kind(error.message, hint=hint, job=error.job, table=error.table)
