"""Columns that the source has added to a table are added to the target's, between two epochs: ALTER TABLE commits by itself.

So what is there tells how far an attempt came: the columns of one statement come all at once, and nobody else may add them
(`refuse_standing`, before the first attempt). https://dev.mysql.com/doc/refman/8.0/en/implicit-commit.html
What does not live here: how a column is rendered (`ddl.py`), who notes that an attempt has begun (apply engine).
"""

from __future__ import annotations

import pymysql

from anabranch.connectors.mysql.target import ddl, defaults, ownership
from anabranch.connectors.mysql.target.attempts import IS_THERE
from anabranch.connectors.mysql.target.columns import made_columns
from anabranch.connectors.mysql.target.release import Release
from anabranch.connectors.mysql.target.session import Connection, run, table_name
from anabranch.connectors.mysql.target.structures import read_table
from anabranch.contracts import Conflict, ValueRules
from anabranch.model.state import Checkpoint
from anabranch.rows.altered import AddedColumns

# Others that use the table are waited for so long, and let go on then: whoever comes behind us waits as well.
WAIT = "SET SESSION lock_wait_timeout = 3"


def standing(connection: Connection, added: AddedColumns) -> list[str]:
    """Return those of the columns that the target's table has. Raises Conflict where there is no table."""
    existing = read_table(connection, added.table.target)
    if existing is None:
        raise Conflict(added.table.source, "the target has no such table")
    return [name for name in added.targets if existing.column(name)]


def refuse_standing(connection: Connection, added: AddedColumns) -> None:
    """Raise Conflict for a column that stands already: nobody knows what its rows have."""
    if found := standing(connection, added):
        raise Conflict(added.table.source, f"the target's table has {', '.join(found)} already")


def add(connection: Connection, job: str, now: Checkpoint, added: AddedColumns, rules: ValueRules) -> Checkpoint:
    """Add the columns that are not there yet, if the checkpoint stands at `now`; return where it stands. No transaction may be
    open. Raises Conflict where one cannot have the source's values in rows that are there. Driver errors pass."""
    found = ownership.checkpoint(connection, job)
    there = standing(connection, added)
    statement = add_statement(added, rules, Release.of(connection))
    connection.commit()
    if (found.owner, found.epoch, found.position.sequence) == (now.owner, now.epoch, now.position.sequence):
        if not there:
            run(connection, WAIT)
            try:
                run(connection, statement)
            except pymysql.err.Error as error:
                # An attempt whose line was lost had not ended yet, and has by now.
                if error.args[0] not in IS_THERE or len(standing(connection, added)) < len(added.names):
                    raise
        elif len(there) < len(added.names):
            raise Conflict(added.table.source, f"the target's table has {', '.join(there)} already")
    return found


def add_statement(added: AddedColumns, rules: ValueRules, release: Release) -> str:
    """Return the statement that adds the columns. Raises Conflict, as `add`, and TargetError for a type that is refused."""
    schema, table = added.schema, added.table
    ddl.refuse_names(table)
    made = {column.source: column for column in made_columns(schema, table, rules, release)}
    for name in added.names:
        column, own = made[name], schema.column(name)
        logical = table.type_of(column.name)
        if ddl.is_unsaid(column, release) or defaults.is_lost(schema, own, logical, column.native, release):
            raise Conflict(table.source, f"rows cannot have the default of {name} here: {own.default}")
    lines = ", ".join(f"ADD COLUMN {ddl.column_line(made[name], release)}" for name in added.names)
    return f"ALTER TABLE {table_name(table.target)} {lines}"
