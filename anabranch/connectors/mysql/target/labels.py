"""Labels that a source's enum got after the target's columns were created.

A PostgreSQL log does not show a new label: the first row with it is refused, and then the label is added to the column, at the
same place among the others. Inserting it before others copies the table, appending it does not. A column whose other
labels differ from the source's, or have another order, is left unchanged: nobody can say which label is which.
https://dev.mysql.com/doc/refman/8.0/en/innodb-online-ddl-operations.html#online-ddl-column-operations
What does not live here: which enums are an enum(…) here (enums.py), the session in which rows are refused (apply.py).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass

import pymysql

from anabranch import log
from anabranch.connectors.mysql.connection import printed
from anabranch.connectors.mysql.target.attempts import LOCK_WAIT, attempt
from anabranch.connectors.mysql.target.enums import QUOTED, are_fit, declared, is_enum, is_part, merged
from anabranch.connectors.mysql.target.errors import NO_TABLE, translated
from anabranch.connectors.mysql.target.names import target_columns
from anabranch.connectors.mysql.target.session import Connection, ask, connect, job_digest, one, quoted, run, table_name
from anabranch.connectors.mysql.target.shared_tables import whose_rows
from anabranch.connectors.mysql.target.words import literal
from anabranch.errors import TargetBusy
from anabranch.model.datatype import Kind, LogicalType
from anabranch.model.endpoint import Endpoint
from anabranch.model.ids import TableId
from anabranch.model.schema import TableSchema
from anabranch.rows.net import TargetTable

SESSION = "anabranch-labels"
NO_DATABASE = 1049
_UNKNOWN = re.compile(r"\b1265\b")  # WARN_DATA_TRUNCATED: a value is none of the labels
_ENUM = re.compile(rf"enum\(({QUOTED.pattern}(?:,{QUOTED.pattern})*)\)", re.IGNORECASE | re.DOTALL)
UNFIT = "which an enum(…) here cannot have, or not at their place"
PATIENCE = 30  # seconds for another job that gives labels to the same table
REMEDY = (
    "anabranch load JOB --table {table} --recreate makes the table anew; while its first load is not through, first"
    ' [types.map] "{native}" = "varchar(63)" and anabranch plan JOB --execute'
)
BESIDE = "{whose}, and it is not made anew: {wider} adds these by hand"
TEXT = (
    '{whose}, and it is not made anew; varchar(63) for all of them: [types.map] "{native}" = "varchar(63)" in each job,'
    " anabranch plan JOB --execute, and {text}"
)


@dataclass(frozen=True, slots=True)
class Lack:
    """A column that lacks labels of the source, and the statement that gives them to it; "" where one of them cannot be.
    `remedy`: what a person does then."""

    table: TargetTable
    column: str
    labels: tuple[str, ...]
    statement: str
    remedy: str = ""

    @property
    def words(self) -> str:
        named = ", ".join(map(literal, self.labels))
        text = f"column {self.column} lacks labels that the source has: {named}"
        return text if self.statement else f"{text}, {UNFIT}: {self.remedy}"


def may_be_unknown(what: str, table: TargetTable) -> bool:
    """Return whether a row of this table was refused, in these words, for what may be a label."""
    return _UNKNOWN.search(what) is not None and any(map(is_enum, table.types))


def renamed(then: TableSchema, now: TableSchema) -> str:
    """Say which labels the source's enums had and have no longer, "" for none: rows that hold them are not in the log."""
    before = {column.name: column.type for column in then.columns}
    for column in now.columns:
        was = before.get(column.name)
        if column.type is None or was != column.type or was.kind is not Kind.ENUM:
            continue
        if lost := [label for label in was.values if label not in column.type.values]:
            return f"labels of {column.type.native} were renamed at the source, and with them rows: {', '.join(lost)}"
    return ""


def lacking(connection: Connection, schema: TableSchema, table: TargetTable) -> list[Lack]:
    """Return what the columns of a table lack of the labels that `schema`, the source's definition, has."""
    wanted = _enums(schema, table)
    if not wanted:
        return []

    def whose() -> str:
        return whose_rows(connection, table.target)

    return list(_lacking(_definition(connection, table), wanted, table, whose))


def _enums(schema: TableSchema, table: TargetTable) -> dict[str, LogicalType]:
    """Return the columns that are made an enum(…), with the source's types of now."""
    types = {column.name: column.type for column in schema.columns}
    return {
        name: type
        for source, name in target_columns(table).items()
        if (type := types.get(source)) and type.kind is Kind.ENUM and is_enum(table.type_of(name))
    }


def _definition(connection: Connection, table: TargetTable) -> str:
    """Return the statement that would make the table, "" where it is not there: it is made with all labels."""
    with translated(f"read the labels of {table.target}"):
        try:
            return printed(connection, table_name(table.target), ask)
        except pymysql.err.Error as error:
            if error.args[0] not in (NO_TABLE, NO_DATABASE):
                raise
            return ""


def _lacking(told: str, wanted: dict[str, LogicalType], table: TargetTable, whose: Callable[[], str]) -> Iterator[Lack]:
    """`whose`: tells of rows that are not this job's, for which a table is not made anew."""
    lines = [line.strip().removesuffix(",") for line in told.split("\n")]
    for name, type in wanted.items():
        head = f"{quoted(name)} enum(".lower()
        line = next((line for line in lines if line.lower().startswith(head)), "")
        if (found := _ENUM.search(line, max(len(head) - len("enum("), 0))) is None:
            continue  # somebody has made it a column of another type
        here, there = declared(found[1]), [literal(label) for label in type.values]
        missing = tuple(label for label in type.values if literal(label) not in here)
        if not missing:
            continue
        before, behind = line[: found.start()], line[found.end() :]
        alter = f"ALTER TABLE {table_name(table.target)} MODIFY {before}"
        if are_fit(type.values) and is_part(here, there):
            yield Lack(table, name, missing, f"{alter}enum({','.join(there)}){behind}")
        elif not (rows := whose()):
            yield Lack(table, name, missing, "", REMEDY.format(table=table.source.typed, native=type.native))
        elif (both := merged(here, there)) and are_fit(type.values):
            wider = f"{alter}enum({','.join(both)}){behind}"
            yield Lack(table, name, missing, "", BESIDE.format(whose=rows, wider=wider))
        else:
            text = TEXT.format(whose=rows, native=type.native, text=f"{alter}varchar(63){behind}")
            yield Lack(table, name, missing, "", text)


def lacking_now(endpoint: Endpoint, schema: TableSchema, table: TargetTable) -> tuple[list[Lack], dict[str, str]]:
    """Return the same, and the enums as they are spelled, over a session of its own."""
    with closing(connect(endpoint, SESSION, autocommit=True)) as connection:
        found = lacking(connection, schema, table)
        with translated(f"read the labels of {table.target}"):
            rows = ask(connection, ENUMS, table.target.schema, table.target.name)
        return found, {str(name).lower(): str(spelled) for name, spelled in rows}


ENUMS = """
SELECT COLUMN_NAME, COLUMN_TYPE FROM information_schema.COLUMNS
 WHERE TABLE_SCHEMA = %s AND TABLE_NAME = %s AND DATA_TYPE = 'enum'
"""


def add_labels(endpoint: Endpoint, tables: Sequence[tuple[TableSchema, TargetTable]]) -> list[str]:
    """Give columns the labels that they lack. Returns the statements that were carried out. Raises TargetUnavailable or
    TargetBusy."""
    done: list[str] = []
    with closing(connect(endpoint, SESSION, autocommit=True, checks_keys=False)) as connection:
        for schema, table in tables:
            if _enums(schema, table):
                with _one_widens(connection, table.target):
                    done += widen(connection, lacking(connection, schema, table))
    return done


def why_not_added(endpoint: Endpoint, said: str, tables: Sequence[tuple[TableSchema, TargetTable]]) -> list[str]:
    """Return what columns lack that they cannot get, and what a person does then, where a row was refused in these words for
    what may be a label."""
    asked = [(schema, table) for schema, table in tables if may_be_unknown(said, table)]
    if not asked:
        return []
    with closing(connect(endpoint, SESSION, autocommit=True)) as connection:
        lacks = (lack for schema, table in asked for lack in lacking(connection, schema, table))
        return [lack.words for lack in lacks if not lack.statement]


@contextmanager
def _one_widens(connection: Connection, table: TableId) -> Iterator[None]:
    """Let no other session of ours read and alter the labels of this table until the block ends: of two that have read the same
    definition the later would take away what the first has added. Raises TargetBusy where one goes on for long."""
    name = f"anabranch-labels-{job_digest(str(table).lower())}"
    if one(connection, "SELECT GET_LOCK(%s, %s)", name, PATIENCE) != 1:
        raise TargetBusy(f"another job gives labels to {table}", hint="it is tried again")
    try:
        yield
    finally:
        with suppress(pymysql.err.Error, OSError):  # it went with the session
            if connection.open:
                one(connection, "SELECT RELEASE_LOCK(%s)", name)


def widen(connection: Connection, lacks: Sequence[Lack]) -> list[str]:
    """Carry out the statements; what the server refuses is told, and left as it is."""
    done = []
    with translated("begin a session"):
        run(connection, LOCK_WAIT)
    for lack in lacks:
        if not lack.statement:
            log.get().warning("label_is_not_added", reason=lack.words, statement="")
        elif said := attempt(connection, lack.statement, f"labels of {lack.column}", "added", is_single=False):
            log.get().warning("label_is_not_added", reason=said[0], statement=lack.statement)
        else:
            log.get().warning("label_added", statement=lack.statement)
            done.append(lack.statement)
    return done
