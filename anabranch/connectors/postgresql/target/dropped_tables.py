"""Tables that the source has dropped are dropped here, or get another name, inside the epoch.

https://www.postgresql.org/docs/current/sql-droptable.html: never with CASCADE, so that the server refuses what others need.
What does not live here: when it comes, and whose rows are in the table (apply engine).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import psycopg

from anabranch.connectors.postgresql.connection import Connection
from anabranch.connectors.postgresql.quoting import qualified, quote
from anabranch.connectors.postgresql.target import altered_indexes, aside, ddl
from anabranch.connectors.postgresql.target.altered_columns import WAIT
from anabranch.connectors.postgresql.target.catalog import ExistingTable, read_tables
from anabranch.connectors.postgresql.target.store import FORGET_TABLE, FORGET_VERIFIED
from anabranch.contracts import Conflict
from anabranch.model.ids import TableId
from anabranch.rows.dropped import DroppedTable

TABLES = ("table", "partitioned table")  # RELATION_KINDS
IS_VERIFIED = "SELECT to_regclass('anabranch.verified') IS NOT NULL"


def drop(connection: Connection, dropped: Sequence[DroppedTable]) -> None:
    """Drop the tables, or rename them, in the open transaction. Raises Conflict. Driver errors pass."""
    connection.execute(WAIT)
    there = read_tables(connection, [one.table.target for one in dropped])
    for existing in there.values():
        if existing.kind in TABLES:
            connection.execute(f"LOCK TABLE {qualified(existing.id)} IN ACCESS EXCLUSIVE MODE".encode())
    there = read_tables(connection, there)
    taken = read_tables(connection, [one.kept for one in dropped if one.kept])
    for one in dropped:
        if unlike := list(_unlike(one, there, taken)):
            raise Conflict(one.table.source, "; ".join(unlike))
    gone = [one.table.target for one in dropped if one.kept is None and one.table.target in there]
    try:
        if gone:
            connection.execute(f"DROP TABLE {', '.join(map(qualified, gone))}".encode())
    except psycopg.errors.DependentObjectsStillExist as error:  # names alone are in its words
        said = ", ".join((error.diag.message_detail or "").splitlines())
        raise Conflict(dropped[0].table.source, f"the target does not drop it: {said}") from None
    for one in dropped:
        if one.kept is not None and one.table.target in there:
            connection.execute(f"ALTER TABLE {qualified(one.table.target)} RENAME TO {quote(one.kept.name)}".encode())
            if one.altered is not None:  # an index has its table's name before its own: a later statement is about that
                altered_indexes.alter(connection, one.altered)
    connection.execute("RESET lock_timeout")


def _unlike(
    one: DroppedTable, there: dict[TableId, ExistingTable], taken: dict[TableId, ExistingTable]
) -> Iterator[str]:
    """Say what keeps the table from going."""
    existing = there.get(one.table.target)
    if existing is None:
        if one.goes_on and one.kept not in taken:
            yield f"the target has no table {one.table.target}"
        return
    if existing.kind not in TABLES:
        yield f"{existing.id} is a {existing.kind} at the target"
    if one.kept in taken:
        yield f"the target has a table {one.kept} already"
    if one.kept is not None and not ddl.fits(one.kept.name):
        yield f"{one.kept.name}: longer than {ddl.NAME_BYTES} bytes"
    if one.goes_on:
        return  # what refers to it follows the name
    ours = {*one.table.columns, *(name for _, name in one.table.computed)}
    if others := [column.name for column in existing.columns if column.name not in ours]:
        yield f"the target's table has columns that the job does not write: {', '.join(others)}"
    if refers := sorted({str(key.child) for key in existing.referenced_by if key.child not in there}):
        yield f"foreign keys of {', '.join(refers)} refer to it at the target"


def kept_name(table: TableId, suffix: str) -> TableId:
    """Return the name with this at its end, cut where it is too long."""
    room = ddl.NAME_BYTES - len(suffix.encode())
    return TableId(table.schema, table.name.encode()[:room].decode(errors="ignore") + suffix)


def forget(connection: Connection, job: str, table: TableId) -> None:
    """Remove a table's state, its ledger, and what is set aside of it, in the open transaction."""
    aside.forget(connection, job, table)
    for statement in FORGET_TABLE:
        connection.execute(statement, [job, str(table)])
    found = connection.execute(IS_VERIFIED).fetchone()
    if found and found[0]:
        connection.execute(FORGET_VERIFIED, [job, str(table)])
