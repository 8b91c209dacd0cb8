"""Capture instances of a table, where the target keeps changes as rows of tables: what the job file says of them, and the form
of the table that each has.

What does not live here: the change tables themselves (a database's `target/change_tables/`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from difflib import get_close_matches

from anabranch.config.sections.tables import CaptureInstance
from anabranch.errors import ConfigError, Problem
from anabranch.model.change_names import table_of_instance
from anabranch.model.ids import TableId
from anabranch.model.schema import TableSchema
from anabranch.rows.net import TargetTable


def instances_of(table: TargetTable, named: Iterable[CaptureInstance]) -> tuple[TargetTable, ...]:
    """Return the table once for each of its instances: the change table's name, and the columns that it has. Without a column
    of the key an instance has none, and no net changes. Columns that the table has not (any more) are left out."""
    return tuple(_form(table, one) for one in named) or (table,)


def _form(table: TargetTable, instance: CaptureInstance) -> TargetTable:
    sources = table.source_columns or table.columns
    kept = [at for at, name in enumerate(sources) if not instance.columns or name in instance.columns]
    columns = tuple(table.columns[at] for at in kept)
    return replace(
        table,
        target=table_of_instance(instance.name),
        columns=columns,
        types=tuple(table.types[at] for at in kept),
        key=table.key if set(table.key) <= set(columns) else (),
        source_columns=tuple(sources[at] for at in kept),
        role=instance.role,
    )


def unfit_columns(table: TargetTable, named: Iterable[CaptureInstance]) -> Iterator[str]:
    """Yield why instances cannot have the columns that the job file names for them."""
    known = table.source_columns or table.columns
    for one in named:
        for name in one.columns:
            if name not in known:
                nearest = "".join(f"; did you mean {n}?" for n in get_close_matches(name, known, 1))
                yield f"instance {one.name}: {table.source} has no column {name} that is replicated{nearest}"


def refuse_shared(forms: Iterable[tuple[TableSchema, TargetTable]]) -> None:
    """Raise ConfigError where instances of two tables have one name."""
    seen: dict[TableId, TableId] = {}
    shared = [(form, first) for _, form in forms if (first := seen.setdefault(form.target, form.source)) != form.source]
    if shared:
        problems = [
            Problem(f"{form.target} would get {first}, {form.source}", key="[[tables]] instances")
            for form, first in shared
        ]
        raise ConfigError(
            "several tables would go into one change table", problems=problems, hint="give them other names"
        )
