"""Columns that the source has altered are altered in the target's table, between two epochs: ALTER TABLE commits by itself.

So what is there tells how far an attempt came: the steps of one statement come all at once, and the table is as it has to be
before them at the first attempt (`refuse_standing`). https://dev.mysql.com/doc/refman/8.0/en/implicit-commit.html
What does not live here: how a column is rendered (`ddl.py`), who notes that an attempt has begun (apply engine).
"""

from __future__ import annotations

from collections.abc import Iterator

import pymysql

from anabranch.connectors.mysql.target import ddl, defaults, ownership
from anabranch.connectors.mysql.target.attempts import IS_GONE, IS_THERE
from anabranch.connectors.mysql.target.columns import MadeColumn, made_columns
from anabranch.connectors.mysql.target.release import Release
from anabranch.connectors.mysql.target.session import Connection, run, table_name
from anabranch.connectors.mysql.target.structures import ExistingTable, read_table
from anabranch.contracts import Conflict, ValueRules
from anabranch.model.state import Checkpoint
from anabranch.rows.altered import AlteredTable, ColumnAdded

# Others that use the table are waited for so long, and let go on then: whoever comes behind us waits as well.
WAIT = "SET SESSION lock_wait_timeout = 3"


def refuse_standing(connection: Connection, altered: AlteredTable) -> None:
    """Raise Conflict where the table is not as it has to be before the steps: nobody knows what its rows have."""
    if found := list(_unlike_before(_existing(connection, altered), altered)):
        raise Conflict(altered.table.source, "; ".join(found))


def alter(connection: Connection, job: str, now: Checkpoint, altered: AlteredTable, rules: ValueRules) -> Checkpoint:
    """Carry out what is left of the steps, if the checkpoint stands at `now`; return where it stands. No transaction may be
    open. Raises Conflict where rows that are there cannot have the source's values. Driver errors pass."""
    found = ownership.checkpoint(connection, job)
    existing = _existing(connection, altered)
    statement = alter_statement(altered, rules, Release.of(connection))
    connection.commit()
    if (found.owner, found.epoch, found.position.sequence) != (now.owner, now.epoch, now.position.sequence):
        return found
    if not _is_behind(existing, altered):
        refuse_standing(connection, altered)
        connection.commit()
        run(connection, WAIT)
        try:
            run(connection, statement)
        except pymysql.err.Error as error:
            # An attempt whose line was lost had not ended yet, and has by now.
            if error.args[0] not in IS_THERE | IS_GONE or not _is_behind(_existing(connection, altered), altered):
                raise
    return found


def alter_statement(altered: AlteredTable, rules: ValueRules, release: Release) -> str:
    """Return the statement that carries out the steps. Raises Conflict, as `alter`, TargetError for a type that is refused."""
    ddl.refuse_names(altered.table)
    made = {column.source: column for column in made_columns(altered.schema, altered.table, rules, release)}
    lines = ", ".join(_lines(altered, made, release))
    return f"ALTER TABLE {table_name(altered.table.target)} {lines}"


# --- what stands ------------------------------------------------------------------------------------------------------


def _existing(connection: Connection, altered: AlteredTable) -> ExistingTable:
    existing = read_table(connection, altered.table.target)
    if existing is None:
        raise Conflict(altered.table.source, "the target has no such table")
    return existing


def _is_behind(existing: ExistingTable, altered: AlteredTable) -> bool:
    """Return whether the table has the columns that it has behind the steps, and none of those that go."""
    added = [altered.target(step.name) for step in altered.steps if isinstance(step, ColumnAdded)]
    return all(existing.column(name) for name in added)


def _unlike_before(existing: ExistingTable, altered: AlteredTable) -> Iterator[str]:
    added = [altered.target(step.name) for step in altered.steps if isinstance(step, ColumnAdded)]
    if there := [name for name in added if existing.column(name)]:
        yield f"the target's table has {', '.join(there)} already"


# --- the statement ----------------------------------------------------------------------------------------------------


def _lines(altered: AlteredTable, made: dict[str, MadeColumn], release: Release) -> Iterator[str]:
    for step in altered.steps:
        if not isinstance(step, ColumnAdded):
            raise Conflict(altered.table.source, f"{type(step).__name__} of {step.name} is not carried out here")
        yield _added(altered, step, made[step.name], release)


def _added(altered: AlteredTable, step: ColumnAdded, made: MadeColumn, release: Release) -> str:
    schema, table = altered.schema, altered.table
    column, logical = schema.column(step.name), table.type_of(made.name)
    if ddl.is_unsaid(made, release) or defaults.is_lost(schema, column, logical, made.native, release):
        raise Conflict(table.source, f"rows cannot have the default of {step.name} here: {column.default}")
    return f"ADD COLUMN {ddl.column_line(made, release)}"
