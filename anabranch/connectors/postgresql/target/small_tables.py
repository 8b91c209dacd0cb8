"""Builds indexes, checks and foreign keys of small tables behind the consistent point: a script for each table, many tables
in one transaction.

Of a small table CONCURRENTLY costs more than it spares: the lock of a plain index is held for milliseconds. A script waits
for no lock: a table that somebody is at is left to `build` (load.py), as is whatever is not simply new, and what the
server refuses. So no two scripts and no other session ever wait for each other.
https://www.postgresql.org/docs/current/explicit-locking.html

What does not live here: what is planned (indexes.py, ddl.py), building large tables (constraints.py, structures.py).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import LiteralString

import psycopg

from anabranch.connectors.postgresql.connection import Connection
from anabranch.connectors.postgresql.errors import WAITED_FOR, meaning, state_of, translate, translated
from anabranch.connectors.postgresql.quoting import qualified
from anabranch.connectors.postgresql.target import ddl
from anabranch.connectors.postgresql.target.catalog import ExistingTable, may_bypass_constraints, read_tables
from anabranch.connectors.postgresql.target.constraints import serves
from anabranch.connectors.postgresql.target.indexes import plan_indexes
from anabranch.connectors.postgresql.target.planned import Planned, plan_checks, plan_foreign_key, validate
from anabranch.connectors.postgresql.target.structures import sequence_statements
from anabranch.connectors.postgresql.verbatim import NotCarried
from anabranch.contracts import ValueRules
from anabranch.model.ids import TableId
from anabranch.model.schema import TableSchema
from anabranch.rows.net import TargetTable

Tables = Sequence[tuple[TableSchema, TargetTable]]
Resolve = Callable[[TableId], TargetTable | None]

SMALL_BYTES = 1 << 20
LOCKED = "55P03"  # lock_not_available: what NOWAIT says, and nothing that has to be waited for here
PATIENCE = "SET LOCAL lock_timeout = '1s'"
SIZES: LiteralString = """
SELECT c.oid::bigint, pg_catalog.pg_relation_size(c.oid),
       ARRAY(SELECT k.conname::text FROM pg_catalog.pg_constraint k WHERE k.conrelid = c.oid)
  FROM pg_catalog.pg_class c WHERE c.oid = ANY (%s::oid[]) AND c.relkind = 'r'
"""
USED: LiteralString = """
SELECT n.nspname::text, c.relname::text FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
 WHERE c.relname = ANY (%s)
"""
HAS_TAKEN_OFF = "SELECT to_regclass('anabranch.taken_off') IS NOT NULL"
TAKEN_OFF = "SELECT DISTINCT source_table FROM anabranch.taken_off WHERE job = %s AND source_table = ANY (%s)"


class _NotNew(Exception):
    """Something that is planned stands there already, or something else has its name."""


@dataclass
class _Script:
    """`locks`: the mode that the statements need, by table."""

    statements: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    locks: dict[TableId, str] = field(default_factory=dict)

    def add(self, statement: str, *tables: TableId, mode: str = "SHARE ROW EXCLUSIVE") -> None:
        self.statements.append(statement)
        for table in tables:
            if self.locks.get(table) != "ACCESS EXCLUSIVE":
                self.locks[table] = mode

    def text(self, table: TableId) -> str:
        locks = [f"LOCK TABLE {qualified(t)} IN {mode} MODE NOWAIT" for t, mode in sorted(self.locks.items())]
        lines = [
            *locks,
            *self.statements,
            f"ANALYZE {qualified(table)}",
            "RELEASE SAVEPOINT small",
        ]
        return ";\n".join(lines)


def build_small(
    connection: Connection, job: str, tables: Tables, rules: ValueRules, resolve: Resolve
) -> dict[TableId, list[str]]:
    """Build tables in their order. Returns, for each table that is done, what could not be made and why; tables that are
    not in the answer are as they were. Once one is left, no table with foreign keys is built behind it, because keys that
    remove rows are built in the order of the tables."""
    with translated("read what is built"):
        plan = _Plan(connection, job, tables, rules, resolve)
        scripts = [(schema, table, plan.script(schema, table)) for schema, table in tables]
    done: dict[TableId, list[str]] = {}
    with translated("build small tables"), connection.transaction():
        connection.execute(PATIENCE)
        is_all = True
        for schema, table, script in scripts:
            if script is not None and (is_all or not schema.foreign_keys) and _run(connection, script, table):
                done[table.source] = script.problems
            else:
                is_all = False
    return done


def _run(connection: Connection, script: _Script, table: TargetTable) -> bool:
    """Run the script in one go, or not at all."""
    connection.execute("SAVEPOINT small")  # by itself: of a script with an error of syntax nothing is carried out
    try:
        connection.execute(script.text(table.target).encode(), prepare=False)
    except psycopg.Error as error:
        if meaning(error)[0] in WAITED_FOR and state_of(error) != LOCKED:
            raise translate(error, f"build what {table.target} still lacks") from None
        connection.execute("ROLLBACK TO SAVEPOINT small")
        return False
    return True


class _Plan:
    """The catalogue, read once for all of the tables."""

    def __init__(self, connection: Connection, job: str, tables: Tables, rules: ValueRules, resolve: Resolve) -> None:
        self.rules, self.resolve = rules, resolve
        self.existing = read_tables(connection, [table.target for _, table in tables])
        oids = [one.oid for one in self.existing.values()]
        rows = connection.execute(SIZES, [oids]).fetchall()
        self.constraints = {oid: frozenset(names) for oid, size, names in rows if size <= SMALL_BYTES}
        self.taken_off = _taken_off(connection, job, tables)
        self.used = _used(connection, tables)
        self.waits = any(schema.foreign_keys for schema, _ in tables) and not may_bypass_constraints(connection)
        self.sequences = sequence_statements(connection, [table for _, table in tables])

    def script(self, schema: TableSchema, table: TargetTable) -> _Script | None:
        existing = self.existing.get(table.target)
        if existing is None or existing.oid not in self.constraints or table.computed or table.source in self.taken_off:
            return None
        script = _Script()
        try:
            self._indexes(script, schema, table, existing)
            self._checks(script, schema, table, existing)
            self._foreign_keys(script, schema, table, existing)
        except _NotNew:
            return None
        there = {column.name for column in existing.columns if not column.has_default}
        for column, statement in ddl.default_statements(schema, table).items():
            if column in there:
                script.add(statement, table.target, mode="ACCESS EXCLUSIVE")
        for statement in self.sequences.get(table.target, ()):
            script.add(statement)
        return script

    def _indexes(self, script: _Script, schema: TableSchema, table: TargetTable, existing: ExistingTable) -> None:
        for index, planned in plan_indexes(schema, table):
            if isinstance(planned, NotCarried):
                script.problems.append(f"index {index.name} of {table.source} is not built: {planned}")
            elif not planned.served_by and not self._is_there(planned, existing):
                self._index(script, table, planned)

    def _is_there(self, planned: Planned, existing: ExistingTable) -> bool:
        names = (planned.name, planned.fallback)
        if any(index.constraint in names for index in existing.indexes if planned.constraint):
            return True
        if not planned.parts and not planned.exact and any(serves(planned, index) for index in existing.indexes):
            return True
        if any(index.name in names for index in existing.indexes):
            raise _NotNew
        return False

    def _index(self, script: _Script, table: TargetTable, planned: Planned) -> None:
        name = next((n for n in (planned.name, planned.fallback) if (table.target.schema, n) not in self.used), "")
        if not name:
            raise _NotNew
        self.used.add((table.target.schema, name))
        if not planned.is_made_by_constraint:
            script.add(planned.sql_index(table.target, name, concurrently=False), table.target)
        if planned.constraint:
            script.add(planned.sql_constraint(table, name), table.target, mode="ACCESS EXCLUSIVE")

    def _checks(self, script: _Script, schema: TableSchema, table: TargetTable, existing: ExistingTable) -> None:
        for name, planned in plan_checks(schema, table, self.rules).items() if schema.checks else ():
            if isinstance(planned, NotCarried):
                script.problems.append(f"check {name} of {table.source} is not built: {planned}")
                continue
            if planned.name in self.constraints[existing.oid]:
                raise _NotNew
            script.add(planned.add, table.target, mode="ACCESS EXCLUSIVE")
            if planned.is_valid:
                script.add(planned.validate, table.target)

    def _foreign_keys(self, script: _Script, schema: TableSchema, table: TargetTable, existing: ExistingTable) -> None:
        for key in schema.foreign_keys:
            try:
                planned = plan_foreign_key(key, table, self.resolve)
            except NotCarried as why:
                script.problems.append(f"foreign key {key.name} of {table.source} is not built: {why}")
                continue
            if planned.name in self.constraints[existing.oid]:
                raise _NotNew
            assert planned.parent is not None
            script.add(planned.sql_foreign_key(table, self.waits), table.target, planned.parent.target)
            if planned.is_valid:
                script.add(validate(table, planned.name), table.target)


def _taken_off(connection: Connection, job: str, tables: Tables) -> frozenset[TableId]:
    """Return tables whose keys were taken off for the load."""
    found = connection.execute(HAS_TAKEN_OFF).fetchone()
    if not found or not found[0]:
        return frozenset()
    names = [str(table.source) for _, table in tables]
    return frozenset(TableId.parse(name) for (name,) in connection.execute(TAKEN_OFF, [job, names]).fetchall())


def _used(connection: Connection, tables: Tables) -> set[tuple[str, str]]:
    """Return the names that indexes might get and other relations have, with their schemas."""
    names = [name for schema, table in tables for name in _names(plan_indexes(schema, table))]
    return {tuple(row) for row in connection.execute(USED, [names]).fetchall()} if names else set()


def _names(planned: Iterator[tuple[object, Planned | NotCarried]]) -> Collection[str]:
    return [name for _, one in planned if isinstance(one, Planned) for name in (one.name, one.fallback)]
