"""TRUNCATE for a decoder that does not show it: a trigger of each table writes the table's name into one that is the job's own,
at that place of the log, and takes the row out again.

https://www.postgresql.org/docs/current/sql-createtrigger.html
What does not live here: the rest of what a job has at its source (slots.py), what reads the rows (decode_decoderbufs.py).
"""

from __future__ import annotations

from collections.abc import Iterable

from anabranch.connectors.postgresql.connection import Connection
from anabranch.connectors.postgresql.quoting import literal, qualified, quote
from anabranch.model.ids import TableId
from anabranch.model.steps import SetUpStep

SCHEMA = "anabranch"
_TRIGGERS = """
SELECT n.nspname::text, c.relname::text, t.tgenabled = 'A' FROM pg_catalog.pg_trigger t
  JOIN pg_catalog.pg_class c ON c.oid = t.tgrelid
  JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
 WHERE t.tgname = %s AND t.tgfoid = pg_catalog.to_regproc(%s)
"""
# Rights are those of who made it: whoever may truncate the table need not have any here.
_FUNCTION = """CREATE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS
$$BEGIN INSERT INTO {name} VALUES (TG_TABLE_SCHEMA, TG_TABLE_NAME); DELETE FROM {name}; RETURN NULL; END$$"""


def noted(name: str) -> TableId:
    """Return the job's table of truncated tables."""
    return TableId(SCHEMA, name)


def missing(connection: Connection, name: str, tables: Iterable[TableId]) -> list[SetUpStep]:
    """Return the steps before these tables tell when they are truncated, in order."""
    note, found = qualified(noted(name)), []
    if not _is_there(connection, name):
        found = [
            SetUpStep(f"CREATE SCHEMA IF NOT EXISTS {quote(SCHEMA)}"),
            SetUpStep(f"CREATE TABLE {note} (schema_name text, table_name text)"),
            SetUpStep(
                f"ALTER TABLE {note} REPLICA IDENTITY FULL"
            ),  # a publication of all tables would refuse the DELETE
            SetUpStep(_FUNCTION.format(name=note)),
        ]
    rows = connection.execute(_TRIGGERS, [name, note]).fetchall()
    is_always = {TableId(schema, table): enabled for schema, table, enabled in rows}
    for table in sorted(tables, key=str):
        if table not in is_always:
            make = f"CREATE TRIGGER {quote(name)} AFTER TRUNCATE ON {qualified(table)} EXECUTE PROCEDURE {note}()"
            found.append(SetUpStep(make, (table,)))
        if not is_always.get(table):
            always = f"ALTER TABLE {qualified(table)} ENABLE ALWAYS TRIGGER {quote(name)}"
            found.append(SetUpStep(always, (table,)))
    return found


def removal(connection: Connection, name: str) -> list[str]:
    """Return the statements that remove what `missing` made; the schema stays for others."""
    note = qualified(noted(name))
    return [f"DROP FUNCTION IF EXISTS {note}() CASCADE", f"DROP TABLE {note}"] if _is_there(connection, name) else []


def _is_there(connection: Connection, name: str) -> bool:
    query = f"SELECT pg_catalog.to_regclass({literal(qualified(noted(name)))}) IS NOT NULL"
    row = connection.execute(query.encode()).fetchone()
    return bool(row and row[0])
