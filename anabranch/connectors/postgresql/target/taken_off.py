"""Keys and indexes that a load takes off its table before it begins, and what puts them back.

What must not be lost when a process dies, the definitions that were taken off, stands in `anabranch.taken_off` from the same
transaction on until it is back. What does not live here: building what the source has (constraints.py), rows (load.py).
"""

from __future__ import annotations

from typing import LiteralString

from psycopg import sql

from anabranch.connectors.postgresql.connection import Connection, table_name
from anabranch.connectors.postgresql.quoting import qualified, quote
from anabranch.connectors.postgresql.target.catalog import ExistingIndex, ExistingTable, read_table, read_tables
from anabranch.connectors.postgresql.target.constraints import add_foreign_key, attempt, create_index
from anabranch.connectors.postgresql.target.partitions import PARTITIONED, leaves
from anabranch.connectors.postgresql.target.planned import Planned
from anabranch.model.ids import TableId
from anabranch.rows.net import TargetTable

KEEP = "INSERT INTO anabranch.taken_off VALUES (%s, %s, %s, %s, %s, %s, %s) ON CONFLICT DO NOTHING"
KEPT = """
SELECT kind, table_schema, table_name, name, definition FROM anabranch.taken_off
 WHERE job = %s AND source_table = %s ORDER BY array_position(ARRAY['index', 'unique', 'foreign key'], kind), name
"""
NOT_BACK = """
SELECT kind, table_schema, table_name, name, definition FROM anabranch.taken_off
 WHERE job = %s ORDER BY array_position(ARRAY['index', 'unique', 'foreign key'], kind), table_schema, table_name, name
"""
BACK = """
DELETE FROM anabranch.taken_off WHERE job = %s AND source_table = %s
   AND kind = %s AND table_schema = %s AND table_name = %s AND name = %s
"""
FORGET = "DELETE FROM anabranch.taken_off WHERE job = %s AND source_table = %s AND kind <> 'foreign key'"
CONSTRAINT: LiteralString = "SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conrelid = %s AND conname = %s"


def drop_table(connection: Connection, table: TargetTable, job: str | None) -> None:
    """Drop the target table and the foreign keys that refer to it, which are kept for `put_back` if a `job` drops it; views on
    it refuse that."""
    existing = read_table(connection, table.target)
    if existing is None:
        return
    for key in existing.referenced_by:
        if job is not None and key.child != existing.id:
            _keep(connection, job, table, "foreign key", key.child, key.name, key.definition.removesuffix(" NOT VALID"))
        _drop_constraint(connection, key.child, key.name)
    connection.execute(sql.SQL("DROP TABLE {}").format(table_name(table.target)))


def take_off(connection: Connection, job: str, table: TargetTable, existing: ExistingTable) -> None:
    """Remove what rows of different moments may break, inside the caller's transaction: foreign keys at both ends and
    secondary unique keys. Their definitions are kept for `put_back`."""
    parts = read_tables(connection, leaves(connection, existing.id)) if existing.kind == PARTITIONED else {}
    unique = [(existing, index) for index in existing.secondary_unique]
    unique += [(part, index) for part in parts.values() for index in part.secondary_unique if not index.of_whole]
    keys = {(key.child, key.name): key for key in (*existing.foreign_keys, *existing.referenced_by)}
    for key in keys.values():
        definition = key.definition.removesuffix(" NOT VALID")
        _keep(connection, job, table, "foreign key", key.child, key.name, definition)
        _drop_constraint(connection, key.child, key.name)
    for holder, index in unique:
        _take_off_index(connection, job, table, holder, index)


def _take_off_index(
    connection: Connection, job: str, table: TargetTable, holder: ExistingTable, index: ExistingIndex
) -> None:
    if index.constraint is None:
        _keep(connection, job, table, "index", holder.id, index.name, index.definition)
        connection.execute(sql.SQL("DROP INDEX {}").format(sql.Identifier(holder.id.schema, index.name)))
        return
    if holder.kind == PARTITIONED:  # its constraints are made with their indexes
        how = _definition(connection, holder, index)
    else:
        _keep(connection, job, table, "index", holder.id, index.name, index.definition)
        how = "DEFERRABLE" * index.deferrable + " INITIALLY DEFERRED" * index.deferred
    _keep(connection, job, table, "unique", holder.id, index.constraint, how)
    _drop_constraint(connection, holder.id, index.constraint)


def forget(connection: Connection, job: str, table: TargetTable) -> None:
    """Forget keys that were taken off a table which is created anew: they come with it."""
    if connection.execute("SELECT to_regclass('anabranch.taken_off')").fetchone() != (None,):
        connection.execute(FORGET, [job, str(table.source)])


def _definition(connection: Connection, existing: ExistingTable, index: ExistingIndex) -> str:
    """Return what follows ADD CONSTRAINT."""
    row = connection.execute(CONSTRAINT, [existing.oid, index.constraint]).fetchone()
    assert row is not None
    return str(row[0])


def put_back(connection: Connection, job: str, table: TargetTable) -> list[str]:
    """Put back what `take_off` removed. Returns what could not be put back; it is tried again next time."""
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
        head, _, body = definition.partition(" USING ")
        wanted = Planned(name, name, (), unique=head.startswith("CREATE UNIQUE"), definition=f"USING {body}")
        return create_index(connection, table, name, wanted)
    alter = f"ALTER TABLE {qualified(table)} ADD CONSTRAINT {quote(name)} "
    if kind == "foreign key":
        return add_foreign_key(connection, table, name, f"{alter}{definition} NOT VALID")
    existing = read_table(connection, table)
    if existing is None or any(i.constraint == name for i in existing.indexes):
        return []
    return attempt(connection, alter + _as_constraint(name, definition), f"key {name} of {table}")


def _as_constraint(name: str, definition: str) -> str:
    """Return what follows the name of a unique constraint; of one that has its index already how it is deferred is kept."""
    return definition if definition.startswith("UNIQUE") else f"UNIQUE USING INDEX {quote(name)} {definition}".rstrip()


def not_back(connection: Connection, job: str) -> list[str]:
    """Return the statements that would put back everything that loads of the job took off and that is not back, in order."""
    if connection.execute("SELECT to_regclass('anabranch.taken_off')").fetchone() == (None,):
        return []
    kept = connection.execute(NOT_BACK, [job]).fetchall()
    return [
        said
        for kind, schema, *rest in kept
        if (said := _missing(connection, kind, TableId(schema, rest[0]), *rest[1:]))
    ]


def _missing(connection: Connection, kind: str, table: TableId, name: str, definition: str) -> str:
    """Return the statement that adds a key, "" where the table, or what it names, is there no more, or the key is."""
    existing = read_table(connection, table)
    if existing is None:
        return ""
    alter = f"ALTER TABLE {qualified(table)} ADD CONSTRAINT {quote(name)} "
    if kind == "index":
        return "" if any(index.name == name for index in existing.indexes) else definition
    if kind == "foreign key":
        return "" if any(key.name == name for key in existing.foreign_keys) else alter + definition
    is_there = any(index.constraint == name for index in existing.indexes)
    return "" if is_there else alter + _as_constraint(name, definition)


def _keep(
    connection: Connection, job: str, table: TargetTable, kind: str, place: TableId, name: str, definition: str
) -> None:
    connection.execute(KEEP, [job, str(table.source), kind, place.schema, place.name, name, definition])


def _drop_constraint(connection: Connection, table: TableId, name: str) -> None:
    drop = sql.SQL("ALTER TABLE {} DROP CONSTRAINT IF EXISTS {}")
    connection.execute(drop.format(table_name(table), sql.Identifier(name)))
