"""Secondary indexes, foreign keys and triggers of a loaded table: off during the load, built after it.

Everything here is found by name and definition, foreign keys by name, and may be repeated. What does not live here: keys that
were there before (taken_off.py), rendering (ddl.py, planned.py), rows (load.py).
Locks: https://www.postgresql.org/docs/current/explicit-locking.html
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

import psycopg
from psycopg import sql

from anabranch.connectors.postgresql.connection import Connection
from anabranch.connectors.postgresql.errors import WAITED_FOR, describe, meaning, translate, translated
from anabranch.connectors.postgresql.quoting import qualified, quote
from anabranch.connectors.postgresql.target import ddl
from anabranch.connectors.postgresql.target.catalog import (
    ExistingIndex,
    may_bypass_constraints,
    read_table,
    relation_table,
)
from anabranch.connectors.postgresql.target.indexes import plan_indexes, serves_cascade
from anabranch.connectors.postgresql.target.partitions import PARTITIONED, UNSEEN_KEYS_SINCE, at_once, leaves
from anabranch.connectors.postgresql.target.planned import Planned, plan_foreign_key
from anabranch.connectors.postgresql.target.printed_definitions import index_definition
from anabranch.connectors.postgresql.verbatim import NotCarried
from anabranch.errors import TargetBusy, TargetUnavailable
from anabranch.model.foreign_key_changes import by_source_name
from anabranch.model.ids import TableId
from anabranch.model.schema import TableSchema
from anabranch.rows.net import TargetTable

# ADD FOREIGN KEY waits for the writers of both tables, and they would wait behind it: short waits, many of them
LOCK_WAIT_MS, LOCK_TRIES, LOCK_PAUSE_S = 1000, 60, 0.5


# --- switching off ----------------------------------------------------------------------------------------------------


def bypass(connection: Connection) -> None:
    """Switch foreign keys and triggers off for the rest of this transaction, where we may. Else triggers fire; foreign
    keys were taken off for the load.
    """
    if may_bypass_constraints(connection):
        connection.execute("SET LOCAL session_replication_role = replica")


def grant_statement(user: str) -> str:
    """Return the GRANT that exists since PostgreSQL 15; before, only a superuser may."""
    return f"GRANT SET ON PARAMETER session_replication_role TO {quote(user)}"


# --- building ---------------------------------------------------------------------------------------------------------


def build_cascade_indexes(connection: Connection, schema: TableSchema, table: TargetTable) -> None:
    """Build the plain secondary indexes that begin with the columns of a foreign key that changes rows.

    Nobody writes to the table now, so they are not built CONCURRENTLY, which would wait for every reader of the
    database.
    """
    for index, planned in plan_indexes(schema, table):
        if isinstance(planned, Planned) and not planned.served_by and serves_cascade(schema, index):
            _build_index(connection, table, planned, concurrently=False)


def build_indexes(connection: Connection, schema: TableSchema, table: TargetTable) -> list[str]:
    """Build the source's secondary indexes, one after another, while writers go on. Returns what was not built and why.

    An index that another one serves is built only if that other one could not be.
    """
    problems, missing = [], set()
    for index, planned in plan_indexes(schema, table):
        if isinstance(planned, NotCarried):
            problems.append(f"index {index.name} of {table.source} is not built: {planned}")
        elif not planned.served_by or planned.served_by in missing:
            said = (
                _build_own(connection, table, planned)
                if planned.constraint
                else _build_index(connection, table, planned)
            )
            missing |= {index.name} if said else set()
            problems += said
    return problems


def _build_own(connection: Connection, table: TargetTable, planned: Planned) -> list[str]:
    """Build an index with the constraint that it stands for."""
    names = (planned.name, planned.fallback)
    if any(index.constraint in names for index in _indexes(connection, table.target)):
        return []
    name = planned.name
    with translated(f"read {table.target}"):
        existing = read_table(connection, table.target)
    is_divided = existing is not None and existing.kind == PARTITIONED
    if planned.is_made_by_constraint or is_divided:
        name = planned.fallback if relation_table(connection, table.target.schema, name) else name
    elif said := _build_index(connection, table, planned):
        return said
    else:
        name = _name(connection, table.target, planned, _indexes(connection, table.target))
    return attempt(connection, planned.sql_constraint(table, name, is_divided), f"key {name} of {table.target}")


def _indexes(connection: Connection, table: TableId) -> list[ExistingIndex]:
    with translated(f"read the indexes of {table}"):
        existing = read_table(connection, table)
    return existing.indexes if existing else []


def _build_index(connection: Connection, table: TargetTable, planned: Planned, concurrently: bool = True) -> list[str]:
    with translated(f"read the indexes of {table.target}"):
        existing = read_table(connection, table.target)
        indexes = existing.indexes if existing else []
        if not planned.parts and not planned.exact and any(serves(planned, i) for i in indexes):
            return []
    try:
        name = _name(connection, table.target, planned, indexes)
    except psycopg.Error as error:
        return [refused(error, f"index {planned.name} of {table.target}", "compared with what is there")]
    return create_index(connection, table.target, name, planned, concurrently)


def _name(connection: Connection, table: TableId, planned: Planned, indexes: Iterable[ExistingIndex]) -> str:
    """Return the planned name, unless something else has it: another relation, or an index with another definition."""
    own = next((i for i in indexes if i.name == planned.name), None)
    if own is None:
        return planned.fallback if relation_table(connection, table.schema, planned.name) else planned.name
    if not own.valid:  # left behind by CONCURRENTLY
        return planned.name
    written = index_definition(connection, table, planned.body)
    is_it = own.unique == planned.unique and not own.primary and own.definition.endswith(f" {written}")
    return planned.name if is_it else planned.fallback


def serves(planned: Planned, index: ExistingIndex) -> bool:
    """Return whether an existing index does what the planned one would."""
    usable = index.valid and not index.special and not index.deferrable and not index.ordered
    return usable and index.columns == planned.columns and (index.unique or not planned.unique)


def create_index(
    connection: Connection, table: TableId, name: str, planned: Planned, concurrently: bool = True
) -> list[str]:
    """Create an index; one of that name that CONCURRENTLY has left invalid is replaced.

    A partitioned table gets it CONCURRENTLY partition by partition: the table's own index then takes those that are
    there. https://www.postgresql.org/docs/current/ddl-partitioning.html#DDL-PARTITIONING-DECLARATIVE-MAINTENANCE
    """
    with translated(f"build index {name} of {table}"):
        existing = read_table(connection, table)
        before = [i for i in existing.indexes if i.name == name] if existing else []
        if before and before[0].valid:
            return []
        if concurrently and existing and existing.kind == PARTITIONED:
            if said := _create_on_leaves(connection, table, name, planned):
                return said
            concurrently = False
        elif before:
            _drop_index(connection, table, name)
    statement = planned.sql_index(table, name, concurrently)
    problems = attempt(connection, statement, f"index {name} of {table}", patient=concurrently)
    if problems and concurrently:
        _drop_index(connection, table, name)
    return problems


def _create_on_leaves(connection: Connection, table: TableId, name: str, planned: Planned) -> list[str]:
    """Create an index on all partitions or none: those on some would go on forbidding what the table does not."""
    names = {leaf: ddl.with_digest(f"{leaf.name}_{name}", f"{leaf}.{name}") for leaf in leaves(connection, table)}
    said = next(filter(None, (create_index(connection, *one, planned) for one in names.items())), [])
    for leaf, of_leaf in names.items() if said else ():
        _drop_index(connection, leaf, of_leaf)
    return said


def _drop_index(connection: Connection, table: TableId, name: str) -> None:
    """Drop an invalid index. Raises TargetBusy if an apply that was replaced drops it at the same moment.

    The server tells the second of the two "tuple concurrently updated", an internal error.
    """
    drop = sql.SQL("DROP INDEX CONCURRENTLY IF EXISTS {}").format(sql.Identifier(table.schema, name))
    with translated(f"drop the invalid index {name}"), _lock_timeout(connection, 0):
        try:
            connection.execute(drop)
        except psycopg.errors.InternalError_ as error:
            raise TargetBusy(f"drop the invalid index {name}: {describe(error)}") from None


def build_foreign_keys(
    connection: Connection, schema: TableSchema, table: TargetTable, resolve: Callable[[TableId], TargetTable | None]
) -> list[str]:
    """Build the source's foreign keys: NOT VALID first, then validated; one with orphans stays NOT VALID and is
    reported.

    They are deferrable where we may not switch them off (K7).
    """
    problems, waits = [], not may_bypass_constraints(connection)
    for key in schema.foreign_keys:
        try:
            planned = plan_foreign_key(key, table, resolve)
        except NotCarried as why:
            problems.append(f"foreign key {key.name} of {table.source} is not built: {why}")
        else:
            statement = planned.sql_foreign_key(table, waits)
            said = add_foreign_key(connection, table.target, planned.name, statement, planned.is_valid)
            problems += by_source_name(said, key.name, planned.name)
    return problems


def add_foreign_key(
    connection: Connection, table: TableId, name: str, statement: str, is_valid: bool = True
) -> list[str]:
    """Add a foreign key. With `is_valid` false the source has not checked the rows that were there, and nor do we."""
    with translated(f"read {table}"):
        existing = read_table(connection, table)
    if existing and existing.kind == PARTITIONED and connection.info.server_version < UNSEEN_KEYS_SINCE:
        statement = at_once(statement)
    problems = (
        [] if _has_key(connection, table, name) else attempt(connection, statement, f"foreign key {name} of {table}")
    )
    return problems or (_validate(connection, table, name) if is_valid else [])


def _has_key(connection: Connection, table: TableId, name: str, valid: bool = False) -> bool:
    with translated(f"read the foreign keys of {table}"):
        existing = read_table(connection, table)
    keys = existing.foreign_keys if existing else []
    return any(key.name == name and (key.validated or not valid) for key in keys)


def _validate(connection: Connection, table: TableId, name: str) -> list[str]:
    if _has_key(connection, table, name, valid=True):
        return []
    validate = f"ALTER TABLE {qualified(table)} VALIDATE CONSTRAINT {quote(name)}"
    try:
        connection.execute(validate.encode())
    except psycopg.errors.ForeignKeyViolation:
        return [f"foreign key {name} of {table} stays NOT VALID: rows without a parent, as at the source"]
    except psycopg.Error as error:
        return [refused(error, f"foreign key {name} of {table}", "validated")]
    return []


def attempt(connection: Connection, statement: str, what: str, patient: bool = False) -> list[str]:
    """Run a statement of DDL; what the server refuses for good is returned as a problem, other errors are raised.

    `patient` waits for locks without end (CONCURRENTLY, which holds nobody up); else short waits, again and again."""
    for _ in range(1 if patient else LOCK_TRIES):
        try:
            with _lock_timeout(connection, 0 if patient else LOCK_WAIT_MS):
                connection.execute(statement.encode())
            return []
        except psycopg.errors.LockNotAvailable:
            time.sleep(LOCK_PAUSE_S)
        except psycopg.Error as error:
            return [refused(error, what, "built")]
    raise TargetUnavailable(f"build {what}: its tables are locked", hint="end long transactions at the target")


def refused(error: psycopg.Error, what: str, done: str) -> str:
    """Describe what the server refuses for good. Raises TargetUnavailable for anything else."""
    if meaning(error)[0] in WAITED_FOR:
        raise translate(error, f"{what} could not be {done}") from None
    return f"{what} could not be {done}: {describe(error)}"


@contextmanager
def _lock_timeout(connection: Connection, milliseconds: int) -> Iterator[None]:
    connection.execute("SELECT set_config('lock_timeout', %s, false)", [str(milliseconds)])
    try:
        yield
    finally:
        if not connection.broken and not connection.closed:
            connection.execute("RESET lock_timeout")
