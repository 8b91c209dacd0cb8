"""`schema print --dialect tsql`: the deployment script of a job's change tables at a SQL Server, from the source's present
definitions. No SQL Server is asked.

What does not live here: the script's statements (`recipe/tsql_script.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from shlex import quote
from typing import TYPE_CHECKING

from anabranch.connectors.sql.change_tables import instance_of
from anabranch.errors import ConfigError, Problem
from anabranch.job.printing import source_definitions
from anabranch.recipe.tsql_script import Mirror, MirrorColumn, TsqlInstance, is_broken, problems_of, script_of

if TYPE_CHECKING:
    from anabranch.model.ids import TableId
    from anabranch.model.schema import TableSchema
    from anabranch.view.job_view import JobView


def deployment(job: JobView, table: TableId | None, login: str) -> list[str]:
    """Return the script as lines. Raises ConfigError for a job that keeps rows, and for tables that cannot be captured
    there."""
    if not job.config.has_change_tables:
        hint = f'set [target] form = "change_tables", or print what a load runs: anabranch schema print {quote(str(job.path))}'
        raise ConfigError("a SQL Server's layout is there for change tables", job=job.config.name, hint=hint)
    definitions = source_definitions(job, table)
    mirrors = [_mirror(job, schema) for name, schema in sorted(definitions.items()) if table in (None, name)]
    if is_broken(login):
        raise ConfigError("--login has a line break or another control character", job=job.config.name)
    if found := list(problems_of(mirrors)):
        problems = [Problem(f"{name}: {why}") for name, why in found]
        hint = "leave these tables out ([[rules]] exclude), or give the instance another name ([[tables]] instances)"
        raise ConfigError("a SQL Server cannot capture these tables", problems=problems, hint=hint)
    return list(script_of(job.config.name, login, mirrors))


def _mirror(job: JobView, schema: TableSchema) -> Mirror:
    table, forms = job.rules.target_table(schema), job.rules.instances(schema, strict=True)
    sources = table.source_columns or table.columns
    columns = tuple(_columns(schema, dict(zip(table.columns, sources, strict=True))))
    instances = tuple(TsqlInstance(instance_of(form.target), form.columns, form.role) for form in forms)
    return Mirror(schema.id, columns, table.key, instances)


def _columns(schema: TableSchema, sources: dict[str, str]) -> Iterator[MirrorColumn]:
    for name, source in sources.items():
        column = schema.column(source)
        assert column.type is not None, "the rules leave out columns without a type"
        yield MirrorColumn(name, column.type, column.nullable)
