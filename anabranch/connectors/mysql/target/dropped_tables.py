"""Tables that the source has dropped are dropped here, or get another name, between two epochs: both statements commit by
themselves. https://dev.mysql.com/doc/refman/8.0/en/implicit-commit.html

A table that is not there any more is one that an attempt before has dropped or renamed: that one began with all of them as they
have to be (`refuse`), and the table's state says so. What does not live here: when it comes, and whose rows are in the table
(apply engine).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pymysql

from anabranch.connectors.mysql.target import aside, ownership, verified
from anabranch.connectors.mysql.target.attempts import IS_GONE
from anabranch.connectors.mysql.target.names import NAME_CHARACTERS, fits
from anabranch.connectors.mysql.target.session import Connection, run, table_name
from anabranch.connectors.mysql.target.states import FORGET_TABLE
from anabranch.connectors.mysql.target.structures import TABLE_TYPES, ExistingTable, read_tables
from anabranch.contracts import Conflict
from anabranch.model.ids import TableId
from anabranch.model.state import Checkpoint
from anabranch.rows.dropped import DroppedTable

# Others that use a table are waited for so long, and let go on then. With checks on the server refuses to drop a table to which
# another one refers: https://dev.mysql.com/doc/refman/8.0/en/create-table-foreign-keys.html
SESSION = "SET SESSION lock_wait_timeout = 3, foreign_key_checks = 1"


def refuse(connection: Connection, dropped: Sequence[DroppedTable]) -> None:
    """Raise Conflict where one of the tables may not go."""
    there = read_tables(connection, [one.table.target for one in dropped])
    taken = read_tables(connection, [one.kept for one in dropped if one.kept])
    for one in dropped:
        if unlike := list(_unlike(one, there, taken)):
            raise Conflict(one.table.source, "; ".join(unlike))


def drop(connection: Connection, job: str, now: Checkpoint, dropped: Sequence[DroppedTable]) -> Checkpoint:
    """Drop or rename those that are still there, children before their parents as they are given, if the checkpoint stands at
    `now`; return where it stands. No transaction may be open. Raises Conflict as `refuse`. Driver errors pass."""
    found = ownership.checkpoint(connection, job)
    connection.commit()
    if (found.owner, found.epoch, found.position.sequence) != (now.owner, now.epoch, now.position.sequence):
        return found
    run(connection, SESSION)
    refuse(connection, dropped)
    there = read_tables(connection, [one.table.target for one in dropped])
    connection.commit()
    for one in dropped:
        if one.table.target not in there:
            continue
        try:
            if one.kept is None:
                run(connection, f"DROP TABLE {table_name(one.table.target)}")
            else:
                run(connection, f"RENAME TABLE {table_name(one.table.target)} TO {table_name(one.kept)}")
        except pymysql.err.Error as error:  # an attempt whose line was lost had not ended yet, and has by now
            if error.args[0] not in IS_GONE or read_tables(connection, [one.table.target]):
                raise
    return found


def _unlike(
    one: DroppedTable, there: dict[TableId, ExistingTable], taken: dict[TableId, ExistingTable]
) -> Iterator[str]:
    """Say what keeps the table from going."""
    existing = there.get(one.table.target)
    if existing is None:
        if one.goes_on and one.kept not in taken:
            yield f"the target has no table {one.table.target}"
        return
    if existing.type not in TABLE_TYPES:
        yield f"{existing.id} is a {existing.type} at the target"
    if one.kept in taken:
        yield f"the target has a table {one.kept} already"
    if one.kept is not None and not fits(one.kept.name):
        yield f"{one.kept.name} is no name that the target takes"
    if one.goes_on:
        return  # what refers to it follows the name
    ours = {name.lower() for name in (*one.table.columns, *(name for _, name in one.table.computed))}
    others = [column.name for column in existing.columns if column.name.lower() not in ours and not column.invisible]
    if others:
        yield f"the target's table has columns that the job does not write: {', '.join(others)}"
    if refers := sorted({str(key.child) for key in existing.referenced_by if key.child not in there}):
        yield f"foreign keys of {', '.join(refers)} refer to it at the target"


def kept_name(table: TableId, suffix: str) -> TableId:
    """Return the name with this at its end, cut where it is too long."""
    return TableId(table.schema, table.name[: NAME_CHARACTERS - len(suffix)] + suffix)


def forget(connection: Connection, job: str, table: TableId) -> None:
    """Remove a table's state, its ledger, and what is set aside of it, in the open transaction."""
    aside.forget(connection, job, table)
    for statement in FORGET_TABLE:
        run(connection, statement, job, str(table))
    verified.forget(connection, job, table)
