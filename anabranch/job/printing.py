"""`schema print`: the statements of a job's load, from the source's present definitions. The target is not asked."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from anabranch.contracts import PreflightContext
from anabranch.errors import SchemaError
from anabranch.model.checks import CheckVerdict
from anabranch.model.ids import TableId
from anabranch.model.schema import TableSchema
from anabranch.model.steps import DdlStep
from anabranch.model.writers import own_targets
from anabranch.view.identity import trail_uuid
from anabranch.view.opened import catalog_of, source_of, target_of
from anabranch.view.options import value_rules

if TYPE_CHECKING:
    from anabranch.view.job_view import JobView

VERSION = 1
STRUCTURES = "source.not_carried"  # checks of a source that say what it has beside tables


@dataclass(frozen=True)
class Script:
    """The statements of a load. `left_out`: what the source's databases have beside tables, by message and names."""

    job: str
    steps: tuple[DdlStep, ...]
    left_out: tuple[tuple[str, tuple[str, ...]], ...] = ()

    def to_json(self) -> dict[str, Any]:
        statements = [
            {"when": step.when, "table": str(step.table) if step.table else None, "sql": step.sql}
            for step in self.steps
            if step.sql
        ]
        left_out: list[dict[str, Any]]
        left_out = [{"table": str(step.table), "what": step.note} for step in self.steps if step.note]
        left_out += [{"table": None, "what": message, "names": list(names)} for message, names in self.left_out]
        return {"version": VERSION, "job": self.job, "statements": statements, "left_out": left_out}

    def lines(self) -> list[str]:
        """Return the script as lines of SQL, with comments on what is left out. No transaction is put around it:
        CONCURRENTLY refuses that."""
        found = [f"-- The target's definitions of job {self.job}: what a load into an empty database runs."]
        when = ""
        for step in self.steps:
            if step.when != when:
                when = step.when
                found += ["", f"-- {when}"]
            found.append(f"{step.sql};" if step.sql else _comment(f"not carried over: {step.table}: {step.note}"))
        if self.left_out:
            found += ["", "-- not carried over, beside the tables"]
            found += [_comment(f"{message.partition(':')[0]}: {', '.join(names)}") for message, names in self.left_out]
        return found


def _comment(text: str) -> str:
    return "-- " + " ".join(text.split())


def script(job: JobView, table: TableId | None) -> Script:
    """Return the script of a load at this target; of a job with several, seen as a whole, at the first. Raises ConfigError,
    SchemaError for what a load would refuse."""
    definitions = source_definitions(job, table)
    job.rules.targets(definitions)
    tables = [(schema, job.rules.target_table(schema)) for _, schema in sorted(definitions.items())]
    with closing(target_of(job.targets()[0]).tables(value_rules(job))) as target:
        steps = list(target.script(tables))
        if table is not None:  # its foreign keys need the others' names
            alone = target.script([(s, t) for s, t in tables if s.id == table])
            steps = [step for step in alone if step.table is None] + [step for step in steps if step.table == table]
    return Script(job.config.name, tuple(steps), () if table else _left_out(job, definitions))


def source_definitions(job: JobView, table: TableId | None) -> dict[TableId, TableSchema]:
    """Return the job's tables, or one, as the source has them now. Raises ConfigError, SchemaError where there is none."""
    if table is not None and not job.rules.includes(table):
        raise job.rules.not_replicated(table)
    with catalog_of(source_of(job)) as catalog:
        own = own_targets(catalog.writers(), trail_uuid(job) or "")
        found = catalog.tables(lambda table: table not in own and job.rules.includes(table))
    if table is not None and table not in found:
        raise SchemaError("the source has no such table", table=str(table), hint="check the name and the user's grants")
    if not found:
        raise SchemaError("the rules include no table of the source", hint="anabranch preflight JOB says more")
    return found


def _left_out(job: JobView, definitions: dict[TableId, TableSchema]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    with closing(source_of(job).checks()) as checks:
        results = checks.run(PreflightContext(job.config.name, {}, definitions, {}))
    return tuple((r.message, r.names) for r in results if r.check == STRUCTURES and r.verdict != CheckVerdict.OK)
