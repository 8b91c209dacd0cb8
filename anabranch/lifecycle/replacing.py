"""A change of a definition that a person carries out at the target in our place: the person's statements, and a look at what
the target's table is then.

What does not live here: waiting and going on (`ddl_decisions.py`, `apply/altering.py`), what is wrong with a table that stands
(the target's checks).
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING

from anabranch import log
from anabranch.contracts import PreflightContext, RunsStatements, SeenTables, longest_of
from anabranch.errors import ConfigError
from anabranch.model.checks import CheckVerdict
from anabranch.preflight.run import choices_of
from anabranch.view.opened import source_of, target_of
from anabranch.view.options import value_rules

if TYPE_CHECKING:
    from anabranch.model.schema import TableSchema
    from anabranch.view.job_view import JobView

AGAIN = "mend that, and say anabranch ddl replace JOB N once more, without statements that are done"


def run(job: JobView, statements: Sequence[str]) -> None:
    """Run a person's statements at the target. Raises ConfigError for a target that cannot, TargetError for what it refuses."""
    if not statements:
        return
    with closing(target_of(job).tables(value_rules(job))) as tables:
        if not isinstance(tables, RunsStatements):
            raise ConfigError("this target runs no statements", job=job.config.name, hint="alter its table by hand")
        log.get(job=job.config.name).info("statements_run", statements=list(statements))
        tables.run_statements(statements)


def refuse_unlike(job: JobView, schema: TableSchema) -> None:
    """Raise ConfigError where the target's table does not take rows of this definition, with what differs."""
    if told := unlike(job, schema):
        there = job.rules.target_table(schema).target
        raise ConfigError(
            "\n".join([f"{there} does not take the rows behind the change:", *told]), job=job.config.name, hint=AGAIN
        )


def unlike(job: JobView, schema: TableSchema) -> list[str]:
    """Return why the target's table does not take rows of this definition, each with what mends it. Raises ConfigError where it
    is not there."""
    table = job.rules.target_table(schema)
    target, source = target_of(job), source_of(job)
    with closing(target.tables(value_rules(job))) as tables:
        if isinstance(tables, SeenTables) and not tables.stands(table):
            raise ConfigError(f"there is no {table.target} at the target", job=job.config.name, hint=AGAIN)
    context = PreflightContext(
        job.config.name,
        choices_of(job.config, job.target),
        {schema.id: schema},
        {schema.id: table},
        loaded=frozenset((schema.id,)),
        filtered=frozenset((schema.id,)) if job.rules.has_filter(schema.id) else frozenset(),
        longest=partial(longest_of, source),
    )
    with closing(target.checks()) as checks:
        results = checks.run(context)
    wrong = [one for one in results if one.table == str(schema.id) and one.verdict is CheckVerdict.FAILED]
    return [f"{one.message}: {one.hint}" if one.hint else one.message for one in wrong]
