"""Names and definitions of a source that its server cannot give as UTF-8: which one it is.

A database in SQL_ASCII, or with bytes that have no character, may hold them in any name, default, comment or label: the server
refuses the whole statement then, and names nothing. https://www.postgresql.org/docs/current/multibyte.html
What does not live here: values of rows (stored_text.py).
"""

from __future__ import annotations

import psycopg
from psycopg import sql
from psycopg.pq import TransactionStatus

from anabranch.connectors.postgresql.connection import Connection
from anabranch.connectors.postgresql.copy_out import copied
from anabranch.connectors.postgresql.source.errors import translate
from anabranch.connectors.postgresql.source.stored_text import (
    as_stored,
    codec_of,
    is_text,
    no_character,
    server_encoding,
)
from anabranch.errors import SourceError
from anabranch.rows.lines import unescape
from anabranch.rows.refused import readable

REMEDY = (
    "give it other text at the source (ALTER … RENAME, ALTER … SET DEFAULT, COMMENT ON, DROP …): names and definitions of all"
    " tables are read as UTF-8, also of those that the job leaves out"
)
# What it is, where, and its text. Names come first: they stand in what follows.
_TEXTS = """
COPY (
WITH ours AS (SELECT oid, nspname FROM pg_catalog.pg_namespace
               WHERE nspname NOT LIKE 'pg\\_%' AND nspname <> 'information_schema'),
     tables AS (SELECT c.oid, c.oid::regclass::text AS name, c.relname, c.relnamespace FROM pg_catalog.pg_class c
                 WHERE c.relnamespace IN (SELECT oid FROM ours) AND c.relkind IN ('r', 'p'))
SELECT 'the name of a schema', '', nspname::text FROM ours
UNION ALL SELECT 'the name of a table', 'in schema ' || nspname, relname::text
  FROM tables JOIN ours ON ours.oid = relnamespace
UNION ALL SELECT 'the name of a column', 'of ' || name, attname::text
  FROM tables JOIN pg_catalog.pg_attribute ON attrelid = tables.oid WHERE attnum > 0 AND NOT attisdropped
UNION ALL SELECT 'a label', 'of the type ' || enumtypid::regtype, enumlabel::text FROM pg_catalog.pg_enum
UNION ALL SELECT 'the default', 'of ' || name || '.' || attname, pg_catalog.pg_get_expr(adbin, adrelid)
  FROM tables JOIN pg_catalog.pg_attrdef ON adrelid = tables.oid
  JOIN pg_catalog.pg_attribute ON attrelid = adrelid AND attnum = adnum
UNION ALL SELECT 'the constraint ' || conname, 'of ' || name, pg_catalog.pg_get_constraintdef(c.oid)
  FROM tables JOIN pg_catalog.pg_constraint c ON conrelid = tables.oid
UNION ALL SELECT 'the index ' || indexrelid::regclass, 'of ' || name, pg_catalog.pg_get_indexdef(indexrelid)
  FROM tables JOIN pg_catalog.pg_index ON indrelid = tables.oid
UNION ALL SELECT 'the comment', 'of ' || name || coalesce('.' || attname, ''), description
  FROM tables JOIN pg_catalog.pg_description d ON d.objoid = tables.oid AND d.classoid = 'pg_catalog.pg_class'::regclass
  LEFT JOIN pg_catalog.pg_attribute ON attrelid = tables.oid AND attnum = nullif(objsubid, 0)
UNION ALL SELECT 'the function', proname::text, prosrc
  FROM pg_catalog.pg_proc WHERE pronamespace IN (SELECT oid FROM ours)
) TO STDOUT
"""


def refusal(connection: Connection, error: psycopg.Error, doing: str) -> SourceError:
    """Find what the server could not convert, with its place, over the same session."""
    made = translate(error, doing)
    if connection.info.transaction_status == TransactionStatus.IDLE:
        encoding = server_encoding(connection)
        if found := _found(connection, encoding):
            made.message = f"{doing}: {found} holds {no_character(encoding)}"
    made.hint = REMEDY
    return made


def _found(connection: Connection, encoding: str) -> str:
    """Return the first name or definition that is none, as people can read it; "" where it is not found."""
    before = connection.info.parameter_status("client_encoding") or "UTF8"
    try:
        connection.execute(as_stored(encoding))
        codec = codec_of(connection)
        bad = [
            line
            for block in copied(connection, sql.SQL(_TEXTS).format())
            for line in block.splitlines()
            if not is_text(line, codec)
        ]
        connection.execute(as_stored(before))
    except psycopg.Error:
        return ""
    return _said(bad[0]) if bad else ""


def _said(line: bytes) -> str:
    """Return the text itself where it is a name; any other text may say too much."""
    kind, place, text = (readable(unescape(cell)) for cell in line.split(b"\t"))
    shown = f" {text}" if kind.startswith("the name") or kind == "a label" else ""
    return " ".join(filter(None, (f"{kind}{shown}", place)))
