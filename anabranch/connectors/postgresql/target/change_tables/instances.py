"""Capture instances at a PostgreSQL: schema `cdc`, the change tables, what is known of them, the functions that read them.

What does not live here: rows (writer.py), names (names.py), the functions' statements (functions.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import LiteralString

import numpy as np

from anabranch import log
from anabranch.connectors.postgresql.connection import Connection, connect
from anabranch.connectors.postgresql.errors import translated
from anabranch.connectors.postgresql.quoting import literal, qualified, quote
from anabranch.connectors.postgresql.target import ddl, made_objects
from anabranch.connectors.postgresql.target.begin import ONE_CREATES, SEE_EXTENSIONS
from anabranch.connectors.postgresql.target.change_tables import functions
from anabranch.connectors.postgresql.target.change_tables.names import COLUMN_HINT, LONGEST, is_too_long, refused_names
from anabranch.connectors.postgresql.target.create_table import create_schema_unless_there
from anabranch.connectors.postgresql.target.typemap import EXTENSIONS
from anabranch.connectors.sql.change_tables import OTHER_NAME, instance_of, refuse_jobs, utc
from anabranch.connectors.sql.instances import BEGINS, ENDS, KEPT, KNOWN, TO_END, Wanted, ended, instances, to_follow
from anabranch.contracts import ValueRules
from anabranch.errors import TargetError
from anabranch.model.change_names import SCHEMA
from anabranch.model.endpoint import Endpoint
from anabranch.model.schema import TableSchema
from anabranch.rows.change_table import lsns
from anabranch.rows.net import TargetTable

# As SQL Server has them, and behind its columns: which job captures, and the source's position of a transaction.
# https://learn.microsoft.com/sql/relational-databases/system-tables/change-data-capture-tables-transact-sql
TABLES = (
    """
CREATE TABLE IF NOT EXISTS cdc.change_tables (
  capture_instance text PRIMARY KEY, source_schema text NOT NULL, source_table text NOT NULL, start_lsn bytea NOT NULL,
  end_lsn bytea, supports_net_changes boolean NOT NULL, role_name text, create_date timestamp NOT NULL, job text NOT NULL)
""",
    """
CREATE TABLE IF NOT EXISTS cdc.captured_columns (
  capture_instance text NOT NULL REFERENCES cdc.change_tables ON DELETE CASCADE, column_name text NOT NULL,
  column_type text NOT NULL, column_ordinal integer NOT NULL, PRIMARY KEY (capture_instance, column_ordinal))
""",
    """
CREATE TABLE IF NOT EXISTS cdc.index_columns (
  capture_instance text NOT NULL REFERENCES cdc.change_tables ON DELETE CASCADE, column_name text NOT NULL,
  index_ordinal integer NOT NULL, PRIMARY KEY (capture_instance, index_ordinal))
""",
    """
CREATE TABLE IF NOT EXISTS cdc.lsn_time_mapping (
  start_lsn bytea PRIMARY KEY, tran_begin_time timestamp, tran_end_time timestamp NOT NULL, tran_id bytea,
  tran_begin_lsn bytea, "position" text NOT NULL)
""",
    "CREATE TABLE IF NOT EXISTS cdc.retention_marks (seconds bigint PRIMARY KEY, start_lsn bytea NOT NULL)",
    "CREATE INDEX IF NOT EXISTS lsn_time_mapping_nonunique_idx ON cdc.lsn_time_mapping (tran_end_time)",
)
HAS_INSTANCES: LiteralString = "SELECT to_regclass('cdc.change_tables') IS NOT NULL"
OTHERS: LiteralString = "SELECT DISTINCT job FROM cdc.change_tables WHERE job <> %s"
ADD_INSTANCE = """
INSERT INTO cdc.change_tables VALUES (%s, %s, %s, %s, NULL, %s, %s, now() AT TIME ZONE 'UTC', %s)
"""
ADD_COLUMN = "INSERT INTO cdc.captured_columns VALUES (%s, %s, %s, %s)"
ADD_KEY = "INSERT INTO cdc.index_columns VALUES (%s, %s, %s)"
ADD_PLACE = "INSERT INTO cdc.lsn_time_mapping VALUES (%s, NULL, %s, NULL, NULL, %s) ON CONFLICT DO NOTHING"


class PostgresChangeTables:
    """Creates change tables over one connection, all of them in one transaction."""

    def __init__(self, endpoint: Endpoint, rules: ValueRules) -> None:
        self._endpoint, self._rules = endpoint, rules
        self._open: Connection | None = None

    def begin(
        self, job: str, uuid: str, tables: Sequence[tuple[TableSchema, TargetTable]], at: int, commit_time: int
    ) -> None:
        connection = self._session(job)
        with translated("create change tables"), connection.transaction():
            connection.execute(ONE_CREATES)
            connection.execute(SEE_EXTENSIONS, [list(EXTENSIONS.values())])
            create_schema_unless_there(connection, SCHEMA)
            for statement in (*TABLES, *functions.SHARED):
                connection.execute(statement.encode())
            refuse_others(connection, uuid)
            known = {one.name for one in instances(connection.execute(KNOWN.encode()).fetchall())}
            start = lsns(np.array([at]))[0].as_py()
            for schema, table in tables:
                if instance_of(table.target) not in known:
                    self._create(connection, uuid, schema, table, start)
            connection.execute(ADD_PLACE.encode(), [start, utc(commit_time), str(at)])

    def _create(self, connection: Connection, uuid: str, schema: TableSchema, table: TargetTable, start: bytes) -> None:
        instance, name = instance_of(table.target), qualified(table.target)
        if is_too_long(table.target):
            what = f"the name of the capture instance is longer than {LONGEST} bytes: {instance}"
            raise TargetError(what, table=str(table.source), hint=OTHER_NAME)
        if why := refused_names(table):
            raise TargetError(why, table=str(table.source), hint=COLUMN_HINT)
        made_objects.make(connection, schema.needs)
        columns = [
            (target, ddl.native_type(schema, schema.column(source), table.type_of(target), self._rules))
            for source, target in ddl.target_columns(table).items()
        ]
        listed = "".join(f"{quote(column)} {native}, " for column, native in columns)
        for statement in (
            f"""
CREATE TABLE {name} ("__$start_lsn" bytea NOT NULL, "__$end_lsn" bytea, "__$seqval" bytea NOT NULL,
  "__$operation" integer NOT NULL, "__$update_mask" bytea, {listed}"__$command_id" integer)
""",
            f"""
CREATE INDEX {quote(instance + "_CT_idx")} ON {name} ("__$start_lsn", "__$command_id", "__$seqval", "__$operation")
""",
            *functions.of_instance(instance, name, columns, table.key),
            *(functions.gated(instance, name, bool(table.key), table.role) if table.role else ()),
            f"COMMENT ON TABLE {name} IS {literal(f'changes of {schema.id}')}",
        ):
            connection.execute(statement.encode())
        source = (schema.id.schema, schema.id.name)
        connection.execute(ADD_INSTANCE.encode(), [instance, *source, start, bool(table.key), table.role or None, uuid])
        for ordinal, (column, native) in enumerate(columns, 1):
            connection.execute(ADD_COLUMN.encode(), [instance, column, native, ordinal])
        for ordinal, column in enumerate(table.key, 1):
            connection.execute(ADD_KEY.encode(), [instance, column, ordinal])

    def follow(self, job: str, uuid: str, tables: Sequence[Wanted]) -> None:
        connection = self._session(job)
        with translated("create change tables"), connection.transaction():
            connection.execute(ONE_CREATES)
            refuse_others(connection, uuid)
            known = instances(connection.execute(KNOWN.encode()).fetchall())
            new, ending, kept = to_follow(known, tables)
            if new:
                connection.execute(SEE_EXTENSIONS, [list(EXTENSIONS.values())])
                for statement in functions.SHARED:
                    connection.execute(statement.encode())
            for schema, table in new:
                self._create(connection, uuid, schema, table, BEGINS)
            for name in ending:
                connection.execute(TO_END.encode(), [ENDS, name])
            for name in kept:
                if connection.execute(KEPT.encode(), [name, ENDS]).rowcount != 1:
                    raise ended(name)
        if new or ending or kept:
            told = [instance_of(table.target) for _, table in new]
            log.get(job=job).info("capture_instances_follow", new=told, ending=ending, kept=kept)

    def _session(self, job: str) -> Connection:
        if self._open is None or self._open.closed:
            self._open = connect(self._endpoint, f"anabranch-changes {job}")
        return self._open

    def close(self) -> None:
        if self._open is not None:
            self._open.close()
        self._open = None


def refuse_others(connection: Connection, uuid: str) -> None:
    """Raise StateError where a job other than this one captures into the database."""
    refuse_jobs([other for (other,) in connection.execute(OTHERS, [uuid]).fetchall()], "DROP SCHEMA cdc CASCADE")
