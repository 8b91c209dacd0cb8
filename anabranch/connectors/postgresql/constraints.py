"""Secondary indexes, foreign keys and triggers around a load: taken off before it, off during it, built after it.

Everything here is found by name and definition, foreign keys by name, and may be repeated. What must not be lost when a
process dies, the definitions that were taken off, stands in `anabranch.taken_off` from the same transaction on until it
is back.
What does not live here: rendering (ddl.py), rows (load.py).
Locks: https://www.postgresql.org/docs/current/explicit-locking.html
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

import psycopg
from psycopg import sql

from anabranch.connectors.postgresql import ddl
from anabranch.connectors.postgresql.catalog import (
    ExistingIndex,
    ExistingTable,
    may_bypass_constraints,
    read_table,
    relation_table,
)
from anabranch.connectors.postgresql.connection import Connection, table_name
from anabranch.connectors.postgresql.errors import WAITED_FOR, describe, meaning, translate, translated
from anabranch.connectors.postgresql.indexes import plan_indexes, serves_cascade
from anabranch.connectors.postgresql.verbatim import NotCarried
from anabranch.connectors.postgresql.written import index_definition
from anabranch.errors import TargetBusy, TargetUnavailable
from anabranch.model.ids import TableId
from anabranch.model.schema import TableSchema
from anabranch.rows.net import TargetTable

# ADD FOREIGN KEY waits for the writers of both tables, and they would wait behind it: short waits, many of them
LOCK_WAIT_MS, LOCK_TRIES, LOCK_PAUSE_S = 1000, 60, 0.5

TAKEN_OFF = """
CREATE TABLE IF NOT EXISTS anabranch.taken_off (
  job text, source_table text, kind text, table_schema text, table_name text, name text, definition text NOT NULL,
  PRIMARY KEY (job, source_table, kind, table_schema, table_name, name))
"""
KEEP = "INSERT INTO anabranch.taken_off VALUES (%s, %s, %s, %s, %s, %s, %s) ON CONFLICT DO NOTHING"
KEPT = """
SELECT kind, table_schema, table_name, name, definition FROM anabranch.taken_off
 WHERE job = %s AND source_table = %s ORDER BY array_position(ARRAY['index', 'unique', 'foreign key'], kind), name
"""
BACK = """
DELETE FROM anabranch.taken_off WHERE job = %s AND source_table = %s
   AND kind = %s AND table_schema = %s AND table_name = %s AND name = %s
"""


# --- switching off ----------------------------------------------------------------------------------------------------


def bypass(connection: Connection) -> None:
    """Foreign keys and triggers do not act for the rest of this transaction, where we may say so. Else triggers fire;
    foreign keys were taken off for the load."""
    if may_bypass_constraints(connection):
        connection.execute("SET LOCAL session_replication_role = replica")


def grant_statement(user: str) -> str:
    """Since PostgreSQL 15; before, only a superuser may."""
    return f"GRANT SET ON PARAMETER session_replication_role TO {ddl.quote(user)}"


# --- taking off and putting back --------------------------------------------------------------------------------------


def drop_table(connection: Connection, table: TableId) -> None:
    """The table and the foreign keys that refer to it; not the views on it, which refuse it."""
    existing = read_table(connection, table)
    if existing is None:
        return
    for key in existing.referenced_by:
        _drop_constraint(connection, key.child, key.name)
    connection.execute(sql.SQL("DROP TABLE {}").format(table_name(table)))


def take_off(connection: Connection, job: str, table: TargetTable, existing: ExistingTable) -> None:
    """Remove what rows of different moments may break, inside the caller's transaction: foreign keys at both ends and
    secondary unique keys. Their definitions are kept for `put_back`."""
    unique = existing.secondary_unique
    keys = {(key.child, key.name): key for key in (*existing.foreign_keys, *existing.referenced_by)}
    if unique or keys:
        connection.execute(TAKEN_OFF)
    for key in keys.values():
        definition = key.definition.removesuffix(" NOT VALID")
        _keep(connection, job, table, "foreign key", key.child, key.name, definition)
        _drop_constraint(connection, key.child, key.name)
    for index in unique:
        _keep(connection, job, table, "index", existing.id, index.name, index.definition)
        if index.constraint is None:
            connection.execute(sql.SQL("DROP INDEX {}").format(sql.Identifier(existing.id.schema, index.name)))
        else:
            suffix = "DEFERRABLE" * index.deferrable + " INITIALLY DEFERRED" * index.deferred
            _keep(connection, job, table, "unique", existing.id, index.constraint, suffix)
            _drop_constraint(connection, existing.id, index.constraint)


def put_back(connection: Connection, job: str, table: TargetTable) -> list[str]:
    """What `take_off` removed; what cannot be put back is said and tried again next time."""
    found = connection.execute("SELECT to_regclass('anabranch.taken_off') IS NOT NULL").fetchone()
    if not found or not found[0]:
        return []
    problems: list[str] = []
    missing: set[str] = set()
    for kind, schema, name_of_table, name, definition in connection.execute(KEPT, [job, str(table.source)]).fetchall():
        place = TableId(schema, name_of_table)
        if kind == "unique" and name in missing:  # its index was not built: that is said already
            continue
        said = _put_back_one(connection, kind, place, name, definition)
        problems += said
        if said:
            missing.add(name)
        else:
            connection.execute(BACK, [job, str(table.source), kind, schema, name_of_table, name])
    return problems


def _put_back_one(connection: Connection, kind: str, table: TableId, name: str, definition: str) -> list[str]:
    if kind == "index":
        concurrent = re.sub(r"^CREATE (UNIQUE )?INDEX ", r"CREATE \1INDEX CONCURRENTLY ", definition)
        return _create_index(connection, table, name, concurrent)
    alter = f"ALTER TABLE {ddl.qualified(table)} ADD CONSTRAINT {ddl.quote(name)} "
    if kind == "foreign key":
        return _add_foreign_key(connection, table, name, f"{alter}{definition} NOT VALID")
    existing = read_table(connection, table)
    if existing is None or any(i.constraint == name for i in existing.indexes):
        return []
    return attempt(connection, f"{alter}UNIQUE USING INDEX {ddl.quote(name)} {definition}", f"key {name} of {table}")


def _keep(
    connection: Connection, job: str, table: TargetTable, kind: str, place: TableId, name: str, definition: str
) -> None:
    connection.execute(KEEP, [job, str(table.source), kind, place.schema, place.name, name, definition])


def _drop_constraint(connection: Connection, table: TableId, name: str) -> None:
    drop = sql.SQL("ALTER TABLE {} DROP CONSTRAINT IF EXISTS {}")
    connection.execute(drop.format(table_name(table), sql.Identifier(name)))


# --- building ---------------------------------------------------------------------------------------------------------


def build_cascade_indexes(connection: Connection, schema: TableSchema, table: TargetTable) -> None:
    """The plain ones among the secondary indexes that begin with the columns of a foreign key that changes rows. Nobody
    writes to the table now; CONCURRENTLY would wait for every reader of the database."""
    for index, planned in plan_indexes(schema, table):
        if isinstance(planned, ddl.Planned) and not planned.served_by and serves_cascade(schema, index):
            _build_index(connection, table, planned, concurrently=False)


def build_indexes(connection: Connection, schema: TableSchema, table: TargetTable) -> list[str]:
    """The source's secondary indexes, one after another, while writers go on. Returns what was not made and why. One that
    another serves is built where that other one could not be."""
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


def _build_own(connection: Connection, table: TargetTable, planned: ddl.Planned) -> list[str]:
    """An index with the constraint that it stands for."""
    names = (planned.name, planned.fallback)
    if any(index.constraint in names for index in _indexes(connection, table.target)):
        return []
    name = planned.name
    if planned.is_made_by_constraint:
        name = planned.fallback if relation_table(connection, table.target.schema, name) else name
    elif said := _build_index(connection, table, planned):
        return said
    else:
        name = _name(connection, table.target, planned, _indexes(connection, table.target))
    return attempt(connection, planned.sql_constraint(table, name), f"key {name} of {table.target}")


def _indexes(connection: Connection, table: TableId) -> list[ExistingIndex]:
    with translated(f"read the indexes of {table}"):
        existing = read_table(connection, table)
    return existing.indexes if existing else []


def _build_index(
    connection: Connection, table: TargetTable, planned: ddl.Planned, concurrently: bool = True
) -> list[str]:
    with translated(f"read the indexes of {table.target}"):
        existing = read_table(connection, table.target)
        indexes = existing.indexes if existing else []
        if not planned.parts and not planned.exact and any(_serves(planned, i) for i in indexes):
            return []
    try:
        name = _name(connection, table.target, planned, indexes)
    except psycopg.Error as error:
        return [refused(error, f"index {planned.name} of {table.target}", "compared with what is there")]
    return _create_index(connection, table.target, name, planned.sql_index(table, name, concurrently), concurrently)


def _name(connection: Connection, table: TableId, planned: ddl.Planned, indexes: Iterable[ExistingIndex]) -> str:
    """The planned name, unless something else has it: another relation, or an index with another definition."""
    own = next((i for i in indexes if i.name == planned.name), None)
    if own is None:
        return planned.fallback if relation_table(connection, table.schema, planned.name) else planned.name
    if not own.valid:  # left behind by CONCURRENTLY
        return planned.name
    written = index_definition(connection, table, planned.body)
    is_it = own.unique == planned.unique and not own.primary and own.definition.endswith(f" {written}")
    return planned.name if is_it else planned.fallback


def _serves(planned: ddl.Planned, index: ExistingIndex) -> bool:
    """Is there an index already that does what the planned one would?"""
    usable = index.valid and not index.special and not index.deferrable and not index.ordered
    return usable and index.columns == planned.columns and (index.unique or not planned.unique)


def _create_index(
    connection: Connection, table: TableId, name: str, statement: str, concurrently: bool = True
) -> list[str]:
    """CREATE INDEX; an index of that name that CONCURRENTLY has left invalid is replaced."""
    with translated(f"build index {name} of {table}"):
        existing = read_table(connection, table)
        before = [i for i in existing.indexes if i.name == name] if existing else []
        if before and before[0].valid:
            return []
        if before:
            _drop_index(connection, table, name)
    problems = attempt(connection, statement, f"index {name} of {table}", patient=concurrently)
    if problems and concurrently:
        _drop_index(connection, table, name)
    return problems


def _drop_index(connection: Connection, table: TableId, name: str) -> None:
    """An apply whose place another one has taken may drop it at the same moment: to the second of the two the server says
    "tuple concurrently updated", an internal error."""
    drop = sql.SQL("DROP INDEX CONCURRENTLY IF EXISTS {}").format(sql.Identifier(table.schema, name))
    with translated(f"drop the invalid index {name}"), _lock_timeout(connection, 0):
        try:
            connection.execute(drop)
        except psycopg.errors.InternalError_ as error:
            raise TargetBusy(f"drop the invalid index {name}: {describe(error)}") from None


def build_foreign_keys(
    connection: Connection, schema: TableSchema, table: TargetTable, resolve: Callable[[TableId], TargetTable | None]
) -> list[str]:
    """The source's foreign keys: NOT VALID first, then validated; one with orphans stays NOT VALID and is reported. They
    can wait until the end of a transaction where we may not switch them off (K7)."""
    problems, waits = [], not may_bypass_constraints(connection)
    for key in schema.foreign_keys:
        try:
            planned = ddl.plan_foreign_key(key, table, resolve)
        except NotCarried as why:
            problems.append(f"foreign key {key.name} of {table.source} is not built: {why}")
        else:
            statement = planned.sql_foreign_key(table, waits)
            problems += _add_foreign_key(connection, table.target, planned.name, statement, planned.is_valid)
    return problems


def _add_foreign_key(
    connection: Connection, table: TableId, name: str, statement: str, is_valid: bool = True
) -> list[str]:
    """`is_valid`: else the source has not looked at the rows that were there, and nor do we."""
    problems = [] if _has_key(connection, table, name) else attempt(connection, statement, f"key {name} of {table}")
    return problems or (_validate(connection, table, name) if is_valid else [])


def _has_key(connection: Connection, table: TableId, name: str, valid: bool = False) -> bool:
    with translated(f"read the foreign keys of {table}"):
        existing = read_table(connection, table)
    keys = existing.foreign_keys if existing else []
    return any(key.name == name and (key.validated or not valid) for key in keys)


def _validate(connection: Connection, table: TableId, name: str) -> list[str]:
    if _has_key(connection, table, name, valid=True):
        return []
    validate = f"ALTER TABLE {ddl.qualified(table)} VALIDATE CONSTRAINT {ddl.quote(name)}"
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
    """A problem: what the server refuses whoever asks again. Raises TargetUnavailable for anything else."""
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
