"""TargetTables of MySQL and MariaDB: tables made for a load, what belongs to them built behind it.

Each statement of DDL commits by itself: nothing here is in one transaction, and all of it may be repeated, whatever a process
that died has left. A table that is made anew is dropped under the lock of those that begin loads (`begin.py`), so that one who
stood still drops nothing that a later load has filled.
What does not live here: definitions (`ddl.py`), what is built and how it is found again (`building.py`), rows (`load.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace

import pymysql

from anabranch.connectors.mysql.target import altering_plan, ddl, labels, lost_triggers, sequences, standing, taken_off
from anabranch.connectors.mysql.target import shared_tables as shared
from anabranch.connectors.mysql.target.attempts import LOCK_WAIT, MADE, attempt
from anabranch.connectors.mysql.target.begin import one_begins
from anabranch.connectors.mysql.target.building import Building, is_all_there
from anabranch.connectors.mysql.target.counters import pass_counters
from anabranch.connectors.mysql.target.errors import translate, translated
from anabranch.connectors.mysql.target.own_source import OwnSource
from anabranch.connectors.mysql.target.release import Release
from anabranch.connectors.mysql.target.script import script
from anabranch.connectors.mysql.target.session import Connection, connect, one, run, table_name
from anabranch.connectors.mysql.target.structures import TABLE_TYPES, has_database, read_table, read_tables
from anabranch.contracts import Counter, CounterSet, ValueRules
from anabranch.errors import Fenced, TargetError, TargetUnavailable
from anabranch.model.altering_plan import AlteringPlan
from anabranch.model.endpoint import Endpoint
from anabranch.model.ids import TableId
from anabranch.model.schema import TableSchema
from anabranch.model.steps import DdlStep
from anabranch.rows.altered import AlteredTable
from anabranch.rows.net import TargetTable

SESSION = "anabranch-tables"
GENERATION = "SELECT generation FROM anabranch.table_state WHERE job = %s AND source_table = %s"


class MysqlTables:
    """Makes and builds tables over one connection, opened on first use and again after it was lost. It has foreign keys off: a
    key is added without copying the table, and its rows are asked for by a query of ours."""

    def __init__(self, endpoint: Endpoint, rules: ValueRules, family: str) -> None:
        self._endpoint, self._rules, self._family = endpoint, rules, family
        self._connection: Connection | None = None
        self._release: Release | None = None
        self._databases: set[str] = set()  # known to be there
        self._own_source = OwnSource()

    def create_table(
        self,
        schema: TableSchema,
        table: TargetTable,
        rules: ValueRules,
        recreate: bool,
        beside: Collection[TableId] = (),
        load: tuple[str, int] | None = None,
    ) -> None:
        """Create the table. Names that come with it are the table's own here, and take none of those `beside`."""
        ddl.refuse_names(table)  # a server may refuse to look for a table of such a name
        connection = self._session()
        with translated(f"create {table.target}"):
            if recreate:
                self._drop(connection, table, load)
            self._create_database(connection, table.target.schema)
            existing = read_table(connection, table.target)
            if existing is None:
                self._create(connection, schema, table, rules)
            elif other := standing.differences(schema, table, existing, rules, self._server(connection)):
                hint = standing.HINT.format(table=table.source.typed)
                raise TargetError(
                    f"{table.target} stays as it is: {'; '.join(other)}", hint=hint, table=str(table.source)
                )

    def differences(self, schema: TableSchema, table: TargetTable) -> Sequence[str]:
        connection = self._session()
        with translated(f"look at {table.target}"):
            existing = read_table(connection, table.target)
            if existing is None:
                return []
            return standing.differences(schema, table, existing, self._rules, self._server(connection))

    def run_statements(self, statements: Sequence[str]) -> None:
        connection = self._session()
        with translated("run the statements given"), connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)

    def stands(self, table: TargetTable) -> bool:
        connection = self._session()
        with translated(f"look at {table.target}"):
            return read_table(connection, table.target) is not None

    def plan_altering(self, altered: AlteredTable) -> AlteringPlan:
        connection = self._session()
        with translated(f"look at {altered.table.target}", altered.table.source):
            return altering_plan.plan(connection, altered, self._rules)

    def script(self, tables: Sequence[tuple[TableSchema, TargetTable]]) -> Iterator[DdlStep]:
        return script(tables, self._rules, self._family)

    def take_off_keys(self, job: str, table: TargetTable) -> None:
        connection = self._session()
        with translated(f"take keys off {table.target}"):
            self._own_source.refuse(connection, job, [table.target])
        taken_off.take_off(connection, job, table)

    def index_cascades(self, schema: TableSchema, table: TargetTable) -> None:
        if any(key.changes_rows for key in schema.foreign_keys):
            self._building(schema, table).cascade_indexes()

    def build(
        self, job: str, schema: TableSchema, table: TargetTable, resolve: Callable[[TableId], TargetTable | None]
    ) -> list[str]:
        connection, building = self._session(), replace(self._building(schema, table), job=job)
        with translated(f"build what belongs to {table.target}"):
            self._own_source.refuse(connection, job, [table.target])
        problems = taken_off.put_back(connection, job, table)
        problems += building.computed()
        problems += building.indexes()
        problems += building.checks()
        problems += building.foreign_keys(resolve)
        problems += building.defaults()
        problems += sequences.raise_sequences(connection, [table])
        problems += building.digits()
        attempt(
            connection, f"ANALYZE NO_WRITE_TO_BINLOG TABLE {table_name(table.target)}", str(table.target), "analyzed"
        )
        return list(dict.fromkeys(problems))

    def build_small(
        self,
        job: str,
        tables: Sequence[tuple[TableSchema, TargetTable]],
        resolve: Callable[[TableId], TargetTable | None],
    ) -> dict[TableId, list[str]]:
        """Tell which of the tables lack nothing, at once for all: here nothing is built faster together."""
        connection = self._session()
        with translated("build what belongs to small tables"):
            self._own_source.refuse(connection, job, [table.target for _, table in tables])
            there = read_tables(connection, [table.target for _, table in tables])
            kept = taken_off.sources_with_keys(connection, job, [table.source for _, table in tables])
        done = [t for schema, t in tables if is_all_there(schema, t) and t.target in there and t.source not in kept]
        problems = sequences.raise_sequences(connection, done) if done else []
        return {} if problems else {table.source: [] for table in done}

    def raise_sequences(self, tables: Sequence[TargetTable]) -> list[str]:
        return sequences.raise_sequences(self._session(), tables)

    def pass_counters(
        self, tables: Sequence[TargetTable], counters: Sequence[Counter], margin: int, is_rehearsed: bool = False
    ) -> list[CounterSet]:
        return pass_counters(self._session(), tables, counters, margin, is_rehearsed)

    # --- labels of a PostgreSQL's enums ----------------------------------------------------------------------------------

    def add_labels(self, tables: Sequence[tuple[TableSchema, TargetTable]]) -> Sequence[str]:
        return labels.add_labels(self._endpoint, tables)

    def why_not_added(self, refused: str, tables: Sequence[tuple[TableSchema, TargetTable]]) -> Sequence[str]:
        return labels.why_not_added(self._endpoint, refused, tables)

    def rename_labels(
        self, job: str, table: TargetTable, then: Collection[TableSchema], now: TableSchema
    ) -> Sequence[str]:
        """Add labels that were only added. Where some were renamed nothing is added, which is told: the table is made anew."""
        return labels.add_labels(self._endpoint, [(now, table)])

    def refuse_older_functions(self, then: Collection[TableSchema], now: TableSchema) -> None:
        """Do nothing: no function of a source is here."""

    def as_renamed(self, then: TableSchema, now: TableSchema) -> TableSchema:
        return then

    def close(self) -> None:
        if self._connection is not None and self._connection.open:
            self._connection.close()
        self._connection = None

    # --- making -------------------------------------------------------------------------------------------------------

    def _drop(self, connection: Connection, table: TargetTable, load: tuple[str, int] | None) -> None:
        """Drop the table for a load that makes it anew. Raises Fenced where that load has begun already, or a later one."""
        if load is None:
            self._drop_table(connection, None, table)
            return
        job, generation = load
        with one_begins(connection):
            self._own_source.refuse(connection, job, [table.target])
            last = int(one(connection, GENERATION, job, str(table.source)) or 0)
            if last >= generation:
                raise Fenced(f"load {generation} of the table was replaced by load {last}", table=str(table.source))
            shared.refuse_to_empty(connection, job, table)
            self._drop_table(connection, job, table)
            taken_off.forget(connection, job, table)  # behind it: a table that stays gets back what was taken off

    def _drop_table(self, connection: Connection, job: str | None, table: TargetTable) -> None:
        """Drop the table, and the foreign keys that refer to it: they are put back when it is built."""
        existing = read_table(connection, table.target)
        if existing is None:
            return
        for key in existing.referenced_by:
            if job is not None and key.child != table.target:
                taken_off.take_off_foreign_key(connection, job, table.source, key)
        if existing.type not in TABLE_TYPES:
            hint = "choose another name for the table ([[rules]] target), or drop it by hand"
            raise TargetError(f"{table.target} is a {existing.type.lower()}: it is not dropped", hint=hint)
        lost_triggers.tell(connection, table)
        if said := attempt(connection, f"DROP TABLE {table_name(table.target)}", str(table.target), "dropped"):
            raise TargetError(said[0], table=str(table.source))

    def _create_database(self, connection: Connection, name: str) -> None:
        """Create the database unless it is there: nobody then asks for the right to create it."""
        if name not in self._databases and not has_database(connection, name):
            run(connection, ddl.create_database(name, self._server(connection)))
        self._databases.add(name)

    def _create(self, connection: Connection, schema: TableSchema, table: TargetTable, rules: ValueRules) -> None:
        """Create the table. Computed columns that the server refuses are tried again, and told, when the rest is built."""
        release = self._server(connection)
        create = ddl.create_table(schema, table, rules, release)
        try:
            self._run_create(connection, create)
        except pymysql.err.Error as error:
            found = translate(error, f"create {table.target}", None)
            if not table.computed or isinstance(found, TargetUnavailable):
                raise
            self._run_create(connection, ddl.create_table(schema, table, rules, release, computes=False))
        for statement in ddl.complete_table(schema, table, rules, release):
            run(connection, statement)

    def _run_create(self, connection: Connection, statement: str) -> None:
        try:
            run(connection, statement)
        except pymysql.err.Error as error:
            if error.args[0] not in MADE:  # another process has made it meanwhile
                raise

    # --- the session --------------------------------------------------------------------------------------------------

    def _building(self, schema: TableSchema, table: TargetTable) -> Building:
        connection = self._session()
        return Building(connection, self._server(connection), schema, table, self._rules)

    def _server(self, connection: Connection) -> Release:
        if self._release is None:
            with translated("read the target's release"):
                self._release = Release.of(connection)
        return self._release

    def _session(self) -> Connection:
        if self._connection is None or not self._connection.open:
            self._connection = connect(self._endpoint, SESSION, autocommit=True, checks_keys=False)
            self._release = None
            self._databases.clear()
            with translated("begin a session"):
                run(self._connection, LOCK_WAIT)
        return self._connection
