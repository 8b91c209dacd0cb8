"""The deployment script of change tables at a SQL Server, as Attunity's designer exports it: a database for the job, mirror
tables that stay empty, capture instances over them, Attunity's tables, and who may do what.

A contract: the script is held against a parser and the vendor's pages, and no SQL Server has run it here. What does not live
here: types (`tsql_types.py`), the definitions it is made of (`job/deploying.py`).
https://learn.microsoft.com/sql/relational-databases/track-changes/about-change-data-capture-sql-server
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from anabranch.model.change_names import COLUMNS
from anabranch.model.datatype import LogicalType
from anabranch.model.ids import TableId
from anabranch.recipe.tsql_types import bytes_of, type_of

GO = "GO"
CLUSTERED, NONCLUSTERED = 900, 1700  # bytes of a key
# https://learn.microsoft.com/sql/sql-server/maximum-capacity-specifications-for-sql-server
MOST_KEY_COLUMNS, MOST_COLUMNS, LONGEST_NAME, LONGEST_INSTANCE = 32, 1024, 128, 100
SERVICE_USER = "cdc_service"
SERVICE_ROLES = ("db_datareader", "db_datawriter", "db_ddladmin")
OWN_SCHEMA = "dbo"  # which each database has
_OWN_COLUMNS = {name.lower() for name in COLUMNS}
ATTUNITY = """
CREATE TABLE [cdc].[xdbcdc_config] (
  [version] bigint NOT NULL DEFAULT 1,
  [connect_string] nvarchar(2000) NOT NULL,
  [use_windows_authentication] bit NOT NULL DEFAULT 0,
  [username] nvarchar(128) NULL,
  [password] varbinary(max) NULL,
  [transaction_staging_timeout] int NOT NULL DEFAULT 120,
  [memory_limit] int NOT NULL DEFAULT 50,
  [options] nvarchar(max) NULL
);
GO
CREATE TRIGGER [cdc].[xdbcdc_config_one_row] ON [cdc].[xdbcdc_config] AFTER INSERT AS
BEGIN
  IF (SELECT COUNT(*) FROM [cdc].[xdbcdc_config]) > 1
  BEGIN
    RAISERROR(N'cdc.xdbcdc_config has one row: update it', 16, 1);
    ROLLBACK TRANSACTION;
  END;
END;
GO
CREATE TABLE [cdc].[xdbcdc_state] (
  [status] nvarchar(16) NOT NULL,
  [sub_status] nvarchar(64) NOT NULL,
  [active] bit NOT NULL,
  [error] bit NOT NULL,
  [status_message] nvarchar(max) NULL,
  [timestamp] datetime NULL,
  [active_capture_node] nvarchar(256) NULL,
  [last_transaction_timestamp] datetime NULL,
  [last_change_timestamp] datetime NULL,
  [transaction_log_head_cn] varchar(255) NULL,
  [transaction_log_tail_cn] varchar(255) NULL,
  [current_cn] varchar(255) NULL,
  [software_version] nvarchar(64) NULL,
  [completed_transactions] bigint NOT NULL,
  [written_changes] bigint NOT NULL,
  [read_changes] bigint NOT NULL,
  [staged_transactions] int NOT NULL
);
GO
CREATE TABLE [cdc].[xdbcdc_trace] (
  [timestamp] datetime NOT NULL,
  [type] varchar(8) NOT NULL,
  [node] nvarchar(256) NOT NULL,
  [status] nvarchar(16) NOT NULL,
  [sub_status] nvarchar(64) NOT NULL,
  [status_message] nvarchar(max) NULL,
  [data] varbinary(max) NULL
);
CREATE INDEX [xdbcdc_trace_idx] ON [cdc].[xdbcdc_trace] ([timestamp]);
GO
CREATE TABLE [cdc].[xdbcdc_staged_transactions] (
  [transaction_id] varchar(255) NOT NULL,
  [seq_num] int NOT NULL,
  [data_start_cn] varchar(255) NULL,
  [data_end_cn] varchar(255) NULL,
  [data] varbinary(max) NULL,
  CONSTRAINT [xdbcdc_staged_transactions_pk] PRIMARY KEY ([transaction_id], [seq_num])
);
"""


@dataclass(frozen=True, slots=True)
class MirrorColumn:
    """A column of a mirror table. One of a key is not `nullable`."""

    name: str
    type: LogicalType
    nullable: bool


@dataclass(frozen=True, slots=True)
class TsqlInstance:
    """A capture instance: `columns` that it has, `role` who alone may read it, "" for whoever may read the mirror."""

    name: str
    columns: tuple[str, ...]
    role: str = ""


@dataclass(frozen=True, slots=True)
class Mirror:
    """A table of the source as it stands, empty, at the SQL Server."""

    table: TableId
    columns: tuple[MirrorColumn, ...]
    key: tuple[str, ...]
    instances: tuple[TsqlInstance, ...]


def script_of(database: str, login: str, mirrors: Sequence[Mirror]) -> Iterator[str]:
    """Yield the lines of the script. `database`: of the job alone; `login`: the one that anabranch logs in with."""
    yield f"-- Change tables of the job {_comment(database)} at a SQL Server."
    yield "-- Run it as a member of sysadmin with: sqlcmd -x -b -i FILE"
    yield "-- A contract: held against a parser of T-SQL and the vendor's pages, not run by this release's tests."
    yield from _batch(
        f"IF DB_ID({text(database)}) IS NOT NULL", "  RAISERROR(N'the database is there already', 16, 1);"
    )
    yield from _batch(f"CREATE DATABASE {quoted(database)};")
    yield from _batch(f"USE {quoted(database)};")
    yield from _batch("EXEC sys.sp_cdc_enable_db;")
    yield from _service(login)
    for schema in sorted({one.table.schema for one in mirrors if one.table.schema.lower() != OWN_SCHEMA}):
        yield from _batch(f"CREATE SCHEMA {quoted(schema)} AUTHORIZATION [dbo];")
    for mirror in mirrors:
        yield from _mirror(mirror)
    yield ""
    yield "-- Nobody but the service writes change tables and cleans them up: the server's own jobs would read empty tables."
    for job in ("capture", "cleanup"):
        yield from _batch(f"EXEC sys.sp_cdc_drop_job @job_type = {text(job)};")
    yield from ATTUNITY.strip().splitlines()
    yield GO


def problems_of(mirrors: Sequence[Mirror]) -> Iterator[tuple[TableId, str]]:
    """Yield tables that cannot be captured there, and why."""
    names: dict[str, TableId] = {}
    tables: dict[str, TableId] = {}
    schemas: dict[str, str] = {}
    for mirror in mirrors:
        table = mirror.table
        if table.schema.lower() == "cdc":
            yield table, "the source's schema is called cdc, as that of change tables is"
        if len(mirror.columns) > MOST_COLUMNS:
            yield table, f"it has {len(mirror.columns)} columns, and a SQL Server's table up to {MOST_COLUMNS}"
        yield from ((table, why) for why in _names(mirror))
        if (schema := schemas.setdefault(table.schema.lower(), table.schema)) != table.schema:
            yield table, f"its schema and {schema} are one name to a server whose names have no case"
        if (other := tables.setdefault(str(table).lower(), table)) != table:
            yield table, f"it and {other} are one name to a server whose names have no case"
        if len(mirror.instances) > 2:
            yield table, "a table has two capture instances at most"
        for one in mirror.instances:
            if len(one.name) > LONGEST_INSTANCE:
                yield table, f"the name of the capture instance {one.name} is longer than {LONGEST_INSTANCE} characters"
            if (other := names.setdefault(one.name.lower(), table)) != table:
                yield table, f"its capture instance {one.name} has the name of one of {other}"


def _names(mirror: Mirror) -> Iterator[str]:
    """Yield why names of a table cannot stand in a script, or in a change table."""
    columns = [column.name for column in mirror.columns]
    roles = [one.role for one in mirror.instances]
    for name in (mirror.table.schema, mirror.table.name, *columns, *roles, *(one.name for one in mirror.instances)):
        if len(name) > LONGEST_NAME:
            yield f"the name {name} is longer than {LONGEST_NAME} characters"
        if is_broken(name):
            yield f"the name {name!r} has a line break or another control character"
    folded = [name.lower() for name in columns]
    for name in columns:
        if folded.count(name.lower()) > 1:
            yield f"its column {name} differs from another one by case alone"
        if name.lower() in _OWN_COLUMNS:
            yield f"its column {name} is called like one that a change table has"


def is_broken(name: str) -> bool:
    """Return whether a name has characters that would end a line of the script."""
    return any(not sign.isprintable() and sign not in " \u00a0" for sign in name)


def _service(login: str) -> Iterator[str]:
    yield ""
    yield "-- The service's user; whoever owns the database needs none."
    yield from _batch(
        f"IF SUSER_SNAME((SELECT owner_sid FROM sys.databases WHERE database_id = DB_ID())) <> {text(login)}",
        "BEGIN",
        f"  CREATE USER {quoted(SERVICE_USER)} FOR LOGIN {quoted(login)};",
        *(f"  ALTER ROLE {quoted(role)} ADD MEMBER {quoted(SERVICE_USER)};" for role in SERVICE_ROLES),
        "END;",
    )


def _mirror(mirror: Mirror) -> Iterator[str]:
    name = f"{quoted(mirror.table.schema)}.{quoted(mirror.table.name)}"
    yield ""
    yield f"-- {_comment(str(mirror.table))}"
    types = {column.name: type_of(column.type) for column in mirror.columns}
    for column in mirror.columns:
        if lost := types[column.name][1]:
            yield f"-- {_comment(column.name)}: {lost}"
    key, why = _key(mirror, {column: native for column, (native, _) in types.items()})
    if why:
        yield f"-- no primary key, and no net changes: {why}"
    lines = [
        f"  {quoted(one.name)} {types[one.name][0]} {'NULL' if one.nullable and one.name not in mirror.key else 'NOT NULL'}"
        for one in mirror.columns
    ]
    body = ",\n".join([*lines, *([f"  {key}"] if key else [])])
    yield from _batch(f"CREATE TABLE {name} (", *body.splitlines(), ");")
    yield from _batch(f"DENY INSERT, UPDATE, DELETE ON {name} TO [public];")
    for instance in mirror.instances:
        yield from _instance(mirror, instance, name, bool(key))


def _key(mirror: Mirror, types: dict[str, str]) -> tuple[str, str]:
    """Return the clause of the primary key, and why there is none though the source has one."""
    if not mirror.key:
        return "", ""
    sizes = [bytes_of(types[column]) for column in mirror.key]
    total = sum(size or 0 for size in sizes)
    if None in sizes or total > NONCLUSTERED or len(sizes) > MOST_KEY_COLUMNS:
        return "", f"the key may have more than {NONCLUSTERED} bytes"
    kind = "CLUSTERED" if total <= CLUSTERED else "NONCLUSTERED"
    name = quoted(f"PK_{mirror.table.name}"[:LONGEST_NAME])
    return f"CONSTRAINT {name} PRIMARY KEY {kind} ({', '.join(map(quoted, mirror.key))})", ""


def _instance(mirror: Mirror, instance: TsqlInstance, name: str, has_key: bool) -> Iterator[str]:
    net = has_key and {*mirror.key} <= {*instance.columns}
    role = text(instance.role) if instance.role else "NULL"
    if instance.role:
        yield from _batch(
            f"IF DATABASE_PRINCIPAL_ID({role}) IS NULL",
            f"  CREATE ROLE {quoted(instance.role)};",
            f"GRANT SELECT ON {name} ({', '.join(map(quoted, instance.columns))}) TO {quoted(instance.role)};",
        )
    yield from _batch(
        "EXEC sys.sp_cdc_enable_table",
        f"  @source_schema = {text(mirror.table.schema)},",
        f"  @source_name = {text(mirror.table.name)},",
        f"  @capture_instance = {text(instance.name)},",
        f"  @role_name = {role},",
        f"  @supports_net_changes = {int(net)},",
        f"  @captured_column_list = {text(', '.join(map(quoted, instance.columns)))};",
    )


def quoted(name: str) -> str:
    """Return a name in brackets."""
    return "[" + name.replace("]", "]]") + "]"


def text(value: str) -> str:
    """Return a text as a literal."""
    return "N'" + value.replace("'", "''") + "'"


def _comment(value: str) -> str:
    return " ".join(value.split())


def _batch(*lines: str) -> Iterator[str]:
    yield from lines
    yield GO
