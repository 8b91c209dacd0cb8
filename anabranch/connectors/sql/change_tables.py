"""Change tables, whatever database has them: names of an instance and of what belongs to it, as SQL Server's change data
capture gives them, and the checks that need no server.

https://learn.microsoft.com/sql/relational-databases/system-stored-procedures/sys-sp-cdc-enable-table-transact-sql
What does not live here: statements, and how long a name may be (a database's `target/change_tables/`), rows (`appended.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from anabranch.connectors.sql.findings import failed, warning
from anabranch.contracts import PreflightContext
from anabranch.errors import StateError
from anabranch.model.change_names import SCHEMA, SUFFIX
from anabranch.model.checks import CheckResult
from anabranch.model.ids import TableId
from anabranch.model.schema import TableSchema

ALL, NET = "fn_cdc_get_all_changes_", "fn_cdc_get_net_changes_"
OUT_OF_RANGE = "CD313"  # our SQLSTATE for SQL Server's error 313, whose words programs look for
REFUSED = "An insufficient number of arguments were supplied for the procedure or function cdc.{} ... ."
OTHER_NAME = (
    "give it another name in the job file: [[tables]] instances, or [[rules]] target where the table has no such line"
)
RESERVED = f"the source's schema is called {SCHEMA}, as that of change tables is"
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def instance_of(table: TableId) -> str:
    """Return the capture instance of a change table."""
    return table.name.removesuffix(SUFFIX)


def utc(commit_time: int) -> datetime:
    """Return a time in UTC, without a zone. `commit_time`: microseconds since 1970."""
    return (EPOCH + timedelta(microseconds=commit_time)).replace(tzinfo=None)


def refuse_jobs(others: list[str], remedy: str) -> None:
    """Raise StateError where jobs other than this one capture into the database: places of two logs have no common order."""
    if others:
        raise StateError(
            f"schema cdc has change tables of another job ({', '.join(others)}): a database has those of one",
            hint=f"use a database of its own; or, if that job is gone and nobody reads them, {remedy}",
        )


def by_instance(context: PreflightContext) -> list[PreflightContext]:
    """Return the context as the checks of single tables want it: with the first instance of each table for its form at the
    target, and with the second one of those that have two."""
    forms = context.instances or {source: (table,) for source, table in context.targets.items()}
    most = max(map(len, forms.values()), default=0)
    return [
        replace(context, targets={source: some[at] for source, some in forms.items() if len(some) > at})
        for at in range(max(1, most))
    ]


def with_names_of_instances(found: Iterator[CheckResult]) -> Iterator[CheckResult]:
    """Yield findings about names; of a change table's own the hint is about its instance, since no rule names change tables."""
    for result in found:
        yield replace(result, hint=OTHER_NAME) if result.hint.startswith("before the other rules") else result


def check_rows(context: PreflightContext) -> Iterator[CheckResult]:
    """Check that no foreign key changes rows without the log telling of it (K1)."""
    for table in context.targets.values():
        acting = [] if context.logs_cascades else [*_acting(context.tables[table.source])]
        if acting:
            why = f"the source's log does not have the rows that {', '.join(acting)} removes or changes"
            hint = "leave the table out ([[rules]] exclude), or let the application remove such rows"
            yield failed("change_tables", why, hint, table)
        if table.computed:
            names = ", ".join(name for name, _ in table.computed)
            why = f"the source's log does not have computed columns: {names} will not be in the change table"
            yield warning("change_tables", why, "compute them from the others", table)


def _acting(schema: TableSchema) -> Iterator[str]:
    for key in schema.foreign_keys:
        if key.changes_rows:
            yield f"foreign key {key.name}"
