"""Keys that a load takes off an existing table, because rows of different moments may break them: foreign keys at both ends and
secondary unique keys. They are put back behind the load.

Their definitions stand in anabranch.taken_off before they are dropped, and until they are back: each DROP commits by itself,
and a process may die behind any of them. What does not live here: keys of the source (`building.py`).
"""

from __future__ import annotations

from collections.abc import Sequence

from anabranch.connectors.mysql.connection import printed
from anabranch.connectors.mysql.target.acting_keys import add_key, drop_key
from anabranch.connectors.mysql.target.attempts import attempt
from anabranch.connectors.mysql.target.errors import translated
from anabranch.connectors.mysql.target.orphans import without_parent
from anabranch.connectors.mysql.target.session import Connection, ask, column_list, one, quoted, run, table_name
from anabranch.connectors.mysql.target.structures import (
    TABLE_TYPES,
    ExistingForeignKey,
    ExistingIndex,
    ExistingTable,
    read_table,
)
from anabranch.errors import TargetError
from anabranch.model.ids import TableId
from anabranch.rows.net import TargetTable

UNIQUE, FOREIGN_KEY = "unique", "foreign key"
HAS_TABLE = "SELECT 1 FROM information_schema.TABLES WHERE TABLE_SCHEMA = 'anabranch' AND TABLE_NAME = 'taken_off'"
KEEP = """
INSERT INTO anabranch.taken_off (job, source_table, kind, table_schema, table_name, name, definition)
SELECT %s, %s, %s, %s, %s, %s, %s FROM DUAL WHERE NOT EXISTS (
  SELECT 1 FROM (SELECT * FROM anabranch.taken_off) AS t WHERE t.job = %s AND t.source_table = %s AND t.kind = %s
     AND t.table_schema = %s AND t.table_name = %s AND t.name = %s)
"""
# Unique keys first: a foreign key may need one.
KEPT = """
SELECT kind, table_schema, table_name, name, definition FROM anabranch.taken_off
 WHERE job = %s AND source_table = %s ORDER BY kind = 'foreign key', name
"""
NOT_BACK = """
SELECT kind, table_schema, table_name, name, definition FROM anabranch.taken_off
 WHERE job = %s ORDER BY kind = 'foreign key', table_schema, table_name, name
"""
BACK = """
DELETE FROM anabranch.taken_off WHERE job = %s AND source_table = %s
   AND kind = %s AND table_schema = %s AND table_name = %s AND name = %s
"""
FORGET = (
    "DELETE FROM anabranch.taken_off WHERE job = %s AND source_table = %s AND table_schema = %s AND table_name = %s"
)
TAKEN = "SELECT DISTINCT source_table FROM anabranch.taken_off WHERE job = %s AND source_table IN ({})"


def take_off(connection: Connection, job: str, table: TargetTable) -> None:
    """Remove foreign keys at both ends of the table, and its secondary unique keys."""
    with translated(f"take keys off {table.target}"):
        existing = read_table(connection, table.target)
        if existing is None or existing.type not in TABLE_TYPES:
            return
        keys = {(key.child, key.name): key for key in (*existing.foreign_keys, *existing.referenced_by)}
        for key in keys.values():
            take_off_foreign_key(connection, job, table.source, key)
        lines = _unique_lines(connection, existing) if existing.secondary_unique else {}
        for index in existing.secondary_unique:
            _keep(connection, job, table.source, UNIQUE, table.target, index.name, lines[index.name])
            _drop(connection, f"ALTER TABLE {table_name(table.target)} DROP INDEX {quoted(index.name)}", index.name)


def take_off_foreign_key(connection: Connection, job: str, source: TableId, key: ExistingForeignKey) -> None:
    """Drop a foreign key, whose definition is kept for the load of table `source`."""
    _keep(connection, job, source, FOREIGN_KEY, key.child, key.name, definition_of(key))
    _refuse(drop_key(connection, job, key), key.name)


def definition_of(key: ExistingForeignKey) -> str:
    """Return what follows the key's name in ADD CONSTRAINT."""
    parent = f"{table_name(key.parent)} ({column_list(key.parent_columns)})"
    actions = f"ON DELETE {key.on_delete} ON UPDATE {key.on_update}"
    return f"FOREIGN KEY ({column_list(key.columns)}) REFERENCES {parent} {actions}"


def forget(connection: Connection, job: str, table: TargetTable) -> None:
    """Forget what was taken off a table that is created anew: it gets what the source has. Keys of others to it are kept."""
    if has_any(connection):
        run(connection, FORGET, job, str(table.source), table.target.schema, table.target.name)


def has_any(connection: Connection) -> bool:
    return one(connection, HAS_TABLE) is not None


def sources_with_keys(connection: Connection, job: str, sources: Sequence[TableId]) -> frozenset[TableId]:
    """Return those of these source tables whose loads have taken something off."""
    if not sources or not has_any(connection):
        return frozenset()
    places = ", ".join(["%s"] * len(sources))
    rows = ask(connection, TAKEN.format(places), job, *map(str, sources))
    return frozenset(TableId.parse(str(name)) for (name,) in rows)


def put_back(connection: Connection, job: str, table: TargetTable) -> list[str]:
    """Put back what was taken off. Returns what could not be, and foreign keys that stand unvalidated: both are looked at again
    next time."""
    with translated("read the keys that were taken off"):
        if not has_any(connection):
            return []
        kept = ask(connection, KEPT, job, str(table.source))
    problems: list[str] = []
    for kind, schema, name_of_table, name, definition in kept:
        said = _put_back_one(connection, job, kind, TableId(schema, name_of_table), name, definition)
        problems += said
        if not said:
            with translated("forget a key that is back"):
                run(connection, BACK, job, str(table.source), kind, schema, name_of_table, name)
    return problems


def _put_back_one(connection: Connection, job: str, kind: str, table: TableId, name: str, definition: str) -> list[str]:
    with translated(f"read {table}"):
        existing = read_table(connection, table)
    if existing is None:
        return []
    statement = _missing(existing, kind, name, definition)
    what = f"key {name} of {table}"
    if statement and kind == FOREIGN_KEY:
        said = add_key(connection, job, statement, table, what, "put back")
    else:
        said = attempt(connection, statement, what, "put back") if statement else []
    if said:
        return said
    return _unvalidated(connection, table, name) if kind == FOREIGN_KEY else []


def statements(connection: Connection, job: str) -> list[str]:
    """Return what would put back everything that loads of the job took off and that is not back, in its order."""
    if not has_any(connection):
        return []
    found = []
    for kind, schema, table, name, definition in ask(connection, NOT_BACK, job):
        existing = read_table(connection, TableId(schema, table))
        found.append(_missing(existing, kind, name, definition) if existing else "")
    return list(filter(None, found))


def _missing(existing: ExistingTable, kind: str, name: str, definition: str) -> str:
    """Return the statement that adds a key, "" where the table has it."""
    names = existing.foreign_keys if kind == FOREIGN_KEY else existing.indexes
    if any(one_of.name == name for one_of in names):
        return ""
    add = f"ADD CONSTRAINT {quoted(name)} {definition}" if kind == FOREIGN_KEY else f"ADD {definition}"
    return f"ALTER TABLE {table_name(existing.id)} {add}"


def _unvalidated(connection: Connection, table: TableId, name: str) -> list[str]:
    with translated(f"read {table}"):
        existing = read_table(connection, table)
    keys = [key for key in existing.foreign_keys if key.name == name] if existing else []
    return [problem for key in keys for problem in without_parent(connection, key)]


def _unique_lines(connection: Connection, table: ExistingTable) -> dict[str, str]:
    """Return the unique keys as SHOW CREATE TABLE has them, one line each, by name: prefixes, orders, expressions included."""
    create = printed(connection, table_name(table.id), ask)
    lines = [line.strip().removesuffix(",") for line in create.split("\n")]
    return {index.name: _line(lines, index) for index in table.secondary_unique}


def _line(lines: Sequence[str], index: ExistingIndex) -> str:
    return next(line for line in lines if line.startswith(f"UNIQUE KEY {quoted(index.name)} "))


def _keep(
    connection: Connection, job: str, source: TableId, kind: str, place: TableId, name: str, definition: str
) -> None:
    row = (job, str(source), kind, place.schema, place.name, name)
    run(connection, KEEP, *row, definition, *row)


def _drop(connection: Connection, statement: str, name: str) -> None:
    _refuse(attempt(connection, statement, f"key {name}", "taken off"), name)


def _refuse(said: list[str], name: str) -> None:
    if said:
        raise TargetError(said[0], hint="drop it at the target by hand, and add it again behind the load")
