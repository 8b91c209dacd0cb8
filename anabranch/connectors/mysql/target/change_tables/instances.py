"""Capture instances at a MySQL or MariaDB: database `cdc`, the change tables, what is known of them, what reads them.

A statement that makes a table or a routine commits, so what is to come is noted first, in one transaction: instances with
their columns, and where they begin. A call that was killed is made again: nothing is appended before a call has ended, so it
takes back what it finds of the former one, and makes all of it as the job file says by then.
What does not live here: rows (`writer.py`), routines (`functions.py`, `procedures.py`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from anabranch import log
from anabranch.connectors.mysql.target import ddl
from anabranch.connectors.mysql.target.begin import one_begins
from anabranch.connectors.mysql.target.change_tables import functions, procedures
from anabranch.connectors.mysql.target.change_tables.names import (
    COLUMN_HINT,
    LONGEST,
    folded,
    is_too_long,
    refused_columns,
)
from anabranch.connectors.mysql.target.collations import by_bytes
from anabranch.connectors.mysql.target.columns import MadeColumn, plain_columns
from anabranch.connectors.mysql.target.errors import translated
from anabranch.connectors.mysql.target.release import Release
from anabranch.connectors.mysql.target.session import (
    Connection,
    ask,
    connect,
    one,
    quoted,
    run,
    table_name,
    transaction,
)
from anabranch.connectors.mysql.target.structures import has_database, holds_rows, read_table
from anabranch.connectors.mysql.target.words import literal
from anabranch.connectors.sql.appended import last_before
from anabranch.connectors.sql.change_tables import ALL, NET, OTHER_NAME, instance_of, refuse_jobs, utc
from anabranch.connectors.sql.instances import (
    BEGINS,
    ENDS,
    KEPT,
    KNOWN,
    MADE,
    NOT_MADE,
    TO_END,
    Instance,
    ended,
    instances,
    to_follow,
)
from anabranch.connectors.sql.instances import Wanted as Following
from anabranch.contracts import ValueRules
from anabranch.errors import TargetError
from anabranch.failpoints import reach
from anabranch.model.change_names import COLUMNS, SCHEMA, table_of_instance
from anabranch.model.endpoint import Endpoint
from anabranch.model.ids import TableId
from anabranch.model.schema import TableSchema
from anabranch.rows.net import TargetTable

SESSION = "anabranch-changes"
# As SQL Server has them, and behind its columns: which job captures, and the source's position of a transaction.
# https://learn.microsoft.com/sql/relational-databases/system-tables/change-data-capture-tables-transact-sql
TABLES = {
    "change_tables": f"""
  capture_instance {functions.TEXT} NOT NULL PRIMARY KEY, source_schema {functions.COLUMN} NOT NULL,
  source_table {functions.COLUMN} NOT NULL, start_lsn BINARY(10) NOT NULL, end_lsn BINARY(10) NULL,
  supports_net_changes TINYINT(1) NOT NULL, role_name {functions.TEXT} NULL, create_date DATETIME(6) NOT NULL,
  job CHAR(36) CHARACTER SET ascii NOT NULL""",
    "captured_columns": f"""
  capture_instance {functions.TEXT} NOT NULL, column_name {functions.COLUMN} NOT NULL, column_type LONGTEXT NOT NULL,
  column_ordinal INT NOT NULL, PRIMARY KEY (capture_instance, column_ordinal)""",
    "index_columns": f"""
  capture_instance {functions.TEXT} NOT NULL, column_name {functions.COLUMN} NOT NULL, index_ordinal INT NOT NULL,
  PRIMARY KEY (capture_instance, index_ordinal)""",
    "retention_marks": "seconds BIGINT NOT NULL PRIMARY KEY, start_lsn BINARY(10) NOT NULL",
    "lsn_time_mapping": """
  start_lsn BINARY(10) NOT NULL PRIMARY KEY, tran_begin_time DATETIME(6) NULL, tran_end_time DATETIME(6) NOT NULL,
  tran_id VARBINARY(10) NULL, tran_begin_lsn BINARY(10) NULL, `position` LONGTEXT NOT NULL,
  KEY lsn_time_mapping_nonunique_idx (tran_end_time)""",
}
HAS_INSTANCES = (
    "SELECT 1 FROM information_schema.TABLES WHERE TABLE_SCHEMA = 'cdc' AND LOWER(TABLE_NAME) = 'change_tables'"
)
OTHERS = "SELECT DISTINCT job FROM cdc.change_tables WHERE job <> %s"
ADD_INSTANCE = "INSERT INTO cdc.change_tables VALUES (%s, %s, %s, %s, NULL, %s, %s, UTC_TIMESTAMP(6), %s)"
ADD_COLUMN = "INSERT INTO cdc.captured_columns VALUES (%s, %s, %s, %s)"
ADD_KEY = "INSERT INTO cdc.index_columns VALUES (%s, %s, %s)"
TAKE_BACK = (
    "DELETE FROM cdc.change_tables WHERE capture_instance = %s AND start_lsn = %s AND COALESCE(end_lsn, %s) = %s"
)
TAKE_BACK_REST = tuple(
    f"DELETE FROM cdc.{name} WHERE capture_instance = %s" for name in ("captured_columns", "index_columns")
)
ADD_PLACE = """
INSERT INTO cdc.lsn_time_mapping VALUES (%s, NULL, %s, NULL, NULL, %s) ON DUPLICATE KEY UPDATE start_lsn = VALUES(start_lsn)
"""
COMMENTS = "SELECT ROUTINE_COMMENT FROM information_schema.ROUTINES WHERE ROUTINE_SCHEMA = 'cdc'"
SHOWN = ("change_tables", "captured_columns", "index_columns", "lsn_time_mapping")  # to whoever reads
# https://mariadb.com/kb/en/sql-mode/#no_auto_create_user
NO_NEW_USERS = "SET SESSION sql_mode = CONCAT(@@sql_mode, ',NO_AUTO_CREATE_USER')"
DIGEST = 40  # characters, of a comment's 64 at the oldest servers
LSN, END, SEQVAL, OPERATION, MASK, COMMAND = COLUMNS
# What stands around a table's own columns in its change table.
HEAD = (
    MadeColumn(LSN, LSN, "binary(10)", False),
    MadeColumn(END, END, "binary(10)", True),
    MadeColumn(SEQVAL, SEQVAL, "binary(10)", False),
    MadeColumn(OPERATION, OPERATION, "int", False),
    MadeColumn(MASK, MASK, "varbinary(128)", True),
)
FOOT = (MadeColumn(COMMAND, COMMAND, "int", True),)
KEY = (LSN, SEQVAL, OPERATION)

Wanted = tuple[TableSchema, TargetTable, list[MadeColumn]]


class MysqlChangeTables:
    """Creates change tables over one connection, one session at a time on a server."""

    def __init__(self, endpoint: Endpoint, rules: ValueRules) -> None:
        self._endpoint, self._rules = endpoint, rules
        self._open: Connection | None = None

    def begin(
        self, job: str, uuid: str, tables: Sequence[tuple[TableSchema, TargetTable]], at: int, commit_time: int
    ) -> None:
        connection = self._session()
        with translated("create change tables"), one_begins(connection):
            release = Release.of(connection)
            wanted = self._wanted(tables, release)
            _make_room(connection, release)
            refuse_others(connection, uuid)
            former = instances(ask(connection, KNOWN))  # of a call that was killed: there has been no epoch
            _refuse_names(wanted)
            _drop(connection, former, wanted)
            _refuse_standing(connection, wanted)
            with transaction(connection):
                start = last_before(at + 1)
                _note_anew(connection, uuid, former, wanted, start)
                run(connection, ADD_PLACE, start, utc(commit_time), str(at))
            reach("changes.noted")
            _create_all(connection, wanted, release)

    def follow(self, job: str, uuid: str, tables: Sequence[Following]) -> None:
        """Make instances and let others end (FollowsInstances). All are marked as not made until the last of them is there."""
        connection = self._session()
        with translated("create change tables"), one_begins(connection):
            refuse_others(connection, uuid)
            known = instances(ask(connection, KNOWN))
            found, ending, kept = to_follow(known, tables)
            if not (found or ending or kept):
                return
            release = Release.of(connection)
            wanted = self._wanted(found, release)
            names = [instance_of(table.target) for _, table, _ in wanted]
            former = [was for was in known if was.start == NOT_MADE and was.name in names]
            _refuse_names(wanted, [one for one in known if one.name not in names])
            _refuse_standing(connection, wanted, former)
            with transaction(connection):
                _note_anew(connection, uuid, former, wanted, NOT_MADE)
            reach("changes.following")
            if wanted:
                _drop(connection, former, wanted)
                _create_all(connection, wanted, release)
            with transaction(connection):
                for name in names:
                    run(connection, MADE, BEGINS, name, NOT_MADE)
                for name in ending:
                    run(connection, TO_END, ENDS, name)
                for name in kept:
                    if run(connection, KEPT, name, ENDS) != 1:
                        raise ended(name)
        log.get(job=job).info("capture_instances_follow", new=names, ending=ending, kept=kept)

    def _wanted(self, tables: Sequence[Following], release: Release) -> list[Wanted]:
        return [(schema, table, captured(schema, table, self._rules, release)) for schema, table in tables]

    def _session(self) -> Connection:
        if self._open is None or not self._open.open:
            self._open = connect(self._endpoint, SESSION, autocommit=True)
        return self._open

    def close(self) -> None:
        if self._open is not None and self._open.open:
            self._open.close()
        self._open = None


def captured(schema: TableSchema, table: TargetTable, rules: ValueRules, release: Release) -> list[MadeColumn]:
    """Return the columns of a change table, each of which may be NULL. Raises TargetError for a type that is refused."""
    own = plain_columns(schema, table, rules, release)
    return [MadeColumn(c.source, c.name, c.native, True, c.charset, c.collation) for c in own]


def has_instances(connection: Connection) -> bool:
    return one(connection, HAS_INSTANCES) is not None


def refuse_others(connection: Connection, uuid: str) -> None:
    """Raise StateError where a job other than this one captures into the server."""
    refuse_jobs([str(other) for (other,) in ask(connection, OTHERS, uuid)], "DROP DATABASE cdc")


def _make_room(connection: Connection, release: Release) -> None:
    """Make the database and the tables that tell of instances. Each of these statements may be repeated."""
    if not has_database(connection, SCHEMA):
        run(connection, ddl.create_database(SCHEMA, release))
    for name, columns in TABLES.items():
        run(connection, f"CREATE TABLE IF NOT EXISTS cdc.{name} ({columns}){options_of(release)}")


def _refuse_names(new: Sequence[Wanted], others: Sequence[Instance] = ()) -> None:
    """Raise TargetError for names that cannot be, beside those of the other instances that are there."""
    seen = {folded(table_of_instance(other.name)): other.name for other in others}
    for _, table, _ in new:
        ddl.refuse_names(table)
        instance = instance_of(table.target)
        if is_too_long(table.target):
            what = f"the name of the capture instance is longer than {LONGEST} characters: {instance}"
            raise TargetError(what, table=str(table.source), hint=OTHER_NAME)
        if (other := seen.setdefault(folded(table.target), instance)) != instance:
            what = f"{instance} and {other} are one name to this server"
            raise TargetError(what, table=str(table.source), hint=OTHER_NAME)
        if why := refused_columns(table):
            raise TargetError(why, table=str(table.source), hint=COLUMN_HINT)


def _refuse_standing(connection: Connection, wanted: Sequence[Wanted], former: Sequence[Instance] = ()) -> None:
    """Raise TargetError where something that is nobody's change table has the name of one, or one of the `former` instances,
    which have not begun, has rows."""
    noted = {one.name for one in former}
    for _, table, _ in wanted:
        if instance_of(table.target) not in noted and read_table(connection, table.target) is not None:
            what = f"{table.target} is there, and is no change table of {table.source}"
            raise TargetError(what, table=str(table.source), hint=f"drop it, or {OTHER_NAME}")
    _standing(connection, former)


def _standing(connection: Connection, former: Sequence[Instance]) -> list[TableId]:
    """Return the change tables that are there of instances that have not begun. Raises TargetError for one that has rows."""
    tables = [table_of_instance(one.name) for one in former]
    standing = [table for table in tables if read_table(connection, table) is not None]
    for table in standing:
        if holds_rows(connection, table):
            what = f"{table} has rows, and its capture instance has not begun"
            raise TargetError(what, hint="if nobody needs them, drop it; then it is made anew")
    return standing


def _drop(connection: Connection, former: Sequence[Instance], wanted: Sequence[Wanted]) -> None:
    """Drop what a call that was killed has made, except for procedures that come again: readers may have rights on them."""
    for table in _standing(connection, former):
        run(connection, f"DROP TABLE {table_name(table)}")
    again = {called + instance_of(to.target) for _, to, _ in wanted for called in ((ALL, NET) if to.key else (ALL,))}
    for name in [called + instance.name for instance in former for called in (ALL, NET)]:
        if name not in again:
            run(connection, f"DROP PROCEDURE IF EXISTS cdc.{quoted(name)}")


def _note_anew(
    connection: Connection, uuid: str, former: Sequence[Instance], wanted: Sequence[Wanted], start: bytes
) -> None:
    """Note what is wanted in place of what a call that was killed has noted. Raises StateError for one of these that has ended
    since it was read."""
    for was in former:
        if run(connection, TAKE_BACK, was.name, was.start, NOT_MADE, was.end or NOT_MADE) != 1:
            raise ended(was.name)
        for statement in TAKE_BACK_REST:
            run(connection, statement, was.name)
    for instance in wanted:
        _note(connection, uuid, instance, start)


def _note(connection: Connection, uuid: str, wanted: Wanted, start: bytes) -> None:
    schema, table, columns = wanted
    instance = instance_of(table.target)
    source = (schema.id.schema, schema.id.name)
    run(connection, ADD_INSTANCE, instance, *source, start, bool(table.key), table.role or None, uuid)
    for ordinal, column in enumerate(columns, 1):
        run(connection, ADD_COLUMN, instance, column.name, column.native, ordinal)
    for ordinal, name in enumerate(table.key, 1):
        run(connection, ADD_KEY, instance, name, ordinal)


def _create_all(connection: Connection, wanted: Sequence[Wanted], release: Release) -> None:
    routines = _Routines(connection)
    for instance in wanted:
        _create(connection, routines, instance, release)
    for name, statement in functions.shared():
        routines.make("FUNCTION", name, statement)
    if gated := [table for _, table, _ in wanted if table.role]:
        if release.family == "mariadb":  # which else makes a user of a role that is not there
            run(connection, NO_NEW_USERS)
        for table in gated:
            _give(connection, table)


def _give(connection: Connection, table: TargetTable) -> None:
    """Give an instance to its role: the right to call is for all of them, and what is called reads with the rights of who
    calls."""
    to = literal(table.role)
    run(connection, f"GRANT EXECUTE ON cdc.* TO {to}")
    for name in (*(f"cdc.{name}" for name in SHOWN), table_name(table.target)):
        run(connection, f"GRANT SELECT ON {name} TO {to}")


def _create(connection: Connection, routines: _Routines, wanted: Wanted, release: Release) -> None:
    schema, table, columns = wanted
    instance, name = instance_of(table.target), table_name(table.target)
    run(connection, create_table(schema.id, table.target, columns, release))
    for called, statement in procedures.of_instance(instance, name, columns, table.key):
        routines.make("PROCEDURE", called, statement)


def create_table(source: TableId, target: TableId, columns: Sequence[MadeColumn], release: Release) -> str:
    """Return the statement that makes a change table. Its key is the order in which rows come, and are read and removed."""
    lines = [ddl.column_line(column, release) for column in (*HEAD, *columns, *FOOT)]
    lines.append(f"PRIMARY KEY ({', '.join(map(quoted, KEY))})")
    comment = f" COMMENT={literal(f'changes of {source}')}"
    return (
        f"CREATE TABLE IF NOT EXISTS {table_name(target)} (\n  "
        + ",\n  ".join(lines)
        + f"\n){options_of(release)}{comment}"
    )


def options_of(release: Release) -> str:
    how = " ROW_FORMAT=DYNAMIC" if release.has("long index rows") else ""
    return f" ENGINE=InnoDB{how} DEFAULT CHARSET=utf8mb4 COLLATE={by_bytes(release.collations)}"


class _Routines:
    """Makes routines. Each tells by its comment what it was made of: one that is the same stays, with the rights that readers
    have been given on it; what a call that was killed has left may be of another release, and is made anew."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._there = {str(comment) for (comment,) in ask(connection, COMMENTS)}

    def make(self, kind: str, name: str, statement: str) -> None:
        mark = f"anabranch {hashlib.sha256(statement.encode()).hexdigest()[:DIGEST]}"
        if mark in self._there:
            return
        run(self._connection, f"DROP {kind} IF EXISTS cdc.{quoted(name)}")
        run(self._connection, statement)
        run(self._connection, f"ALTER {kind} cdc.{quoted(name)} COMMENT {literal(mark)}")
