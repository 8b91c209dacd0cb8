"""Notes that the source writes of each ALTER TABLE into its log, at its place, where somebody has set that up: an event trigger
gives a message with the table's columns behind the statement. Optional, one for all jobs of a database.

A message takes no table, no row that has to be removed, and no right of those who alter tables. PostgreSQL 14 and later give it
to whoever reads the log by pgoutput. https://www.postgresql.org/docs/current/event-triggers.html
https://www.postgresql.org/docs/current/functions-admin.html#FUNCTIONS-REPLICATION (pg_logical_emit_message)

What does not live here: what a table is behind a note (redefined_columns.py), where notes stand in the log (relations.py).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from anabranch.connectors.postgresql.connection import Connection
from anabranch.model.ids import TableId

PREFIX = "anabranch:ddl"
CAST, NEW = "cast", "new"  # Note.values: what a statement has made of the values of a column whose type it gives anew
SINCE = 140_000  # https://www.postgresql.org/docs/14/release-14.html: pgoutput gives messages
TRIGGERS = ["anabranch_ddl", "anabranch_rewrite"]
# A failure of the note must not be one of the statement: it is a warning, and the job goes by rows and catalogue. The handler
# is a subtransaction. The server (seen: 18.4) orders those of a transaction by places of the log, and a message has the place
# where it ends, at which the next row may begin: so a second one stands between the two.
SET_UP = (
    "CREATE SCHEMA IF NOT EXISTS anabranch",
    """CREATE OR REPLACE FUNCTION anabranch.note_rewrite() RETURNS event_trigger LANGUAGE plpgsql
SET search_path = pg_catalog AS $$
BEGIN
  IF pg_event_trigger_table_rewrite_reason() & 4 <> 0 THEN
    PERFORM set_config('anabranch.retyped', coalesce(current_setting('anabranch.retyped', true), '')
      || format('/%s=%s/', c.oid, c.relfilenode), true) FROM pg_class c WHERE c.oid = pg_event_trigger_table_rewrite_oid();
  END IF;
EXCEPTION WHEN OTHERS THEN
  RAISE WARNING 'anabranch does not know which table this statement writes anew: %', SQLERRM;
  PERFORM set_config('anabranch.retyped', coalesce(current_setting('anabranch.retyped', true), '') || '/0=1/', true);
END $$""",
    """CREATE OR REPLACE FUNCTION anabranch.note_ddl() RETURNS event_trigger LANGUAGE plpgsql
SET search_path = pg_catalog SET datestyle = 'ISO, YMD' SET intervalstyle = 'postgres' SET timezone = 'UTC'
SET bytea_output = 'hex' SET extra_float_digits = 3 SET quote_all_identifiers = off SET standard_conforming_strings = on AS $$
DECLARE note json; context text; is_plain boolean;
BEGIN
  GET DIAGNOSTICS context = PG_CONTEXT;
  is_plain := position(chr(10) IN context) = 0 AND current_query() !~* '[[:<:]]using[[:>:]]'
    AND NOT EXISTS (SELECT FROM pg_event_trigger_ddl_commands() AS c WHERE c.in_extension);
  FOR note IN
    SELECT json_build_object('oid', r.oid::bigint, 'schema', n.nspname, 'name', r.relname, 'numbers', r.relnatts,
                             'file', r.relfilenode::bigint, 'retyped',
             coalesce(substring(current_setting('anabranch.retyped', true) FROM format('/%s=([0-9]+)/', r.oid)),
                      substring(current_setting('anabranch.retyped', true) FROM '/0=([0-9]+)/'))::bigint,
                             'cast', coalesce(is_plain, false), 'defaults', coalesce((
             SELECT json_object_agg(d.adnum, pg_get_expr(d.adbin, d.adrelid)) FROM pg_attrdef d WHERE d.adrelid = r.oid), '{}'),
                             'columns', (
             SELECT json_agg(json_build_array(a.attnum, a.attname, format_type(a.atttypid, a.atttypmod),
                      a.attnotnull AND NOT EXISTS (SELECT FROM pg_constraint u
                         WHERE u.conrelid = r.oid AND u.contype = 'n' AND NOT u.convalidated
                           AND u.conkey = ARRAY[a.attnum]), a.atthasmissing) ORDER BY a.attnum)
               FROM pg_attribute a
              WHERE a.attrelid = r.oid AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = ''))
      FROM (SELECT c.objid FROM pg_event_trigger_ddl_commands() AS c
             WHERE c.classid = 'pg_class'::regclass AND c.object_type IN ('table', 'table column') UNION
            SELECT m[1]::oid FROM regexp_matches(current_setting('anabranch.retyped', true), '/([0-9]+)=', 'g') AS m) AS altered
      JOIN pg_class r ON r.oid = altered.objid AND r.relpersistence = 'p' JOIN pg_namespace n ON n.oid = r.relnamespace
  LOOP
    PERFORM pg_logical_emit_message(true, 'anabranch:ddl', convert_to(note::text, 'UTF8'));
    PERFORM pg_logical_emit_message(true, 'anabranch:ddl', 'end'::text);
    PERFORM set_config('anabranch.retyped', regexp_replace(current_setting('anabranch.retyped', true),
                                                           format('/%s=[0-9]+/', note->>'oid'), ''), true);
  END LOOP;
EXCEPTION WHEN OTHERS THEN
  RAISE WARNING 'anabranch has no note of this statement: %', SQLERRM;
END $$""",
    "CREATE EVENT TRIGGER anabranch_ddl ON ddl_command_end WHEN TAG IN ('ALTER TABLE')"
    " EXECUTE FUNCTION anabranch.note_ddl()",
    "ALTER EVENT TRIGGER anabranch_ddl ENABLE ALWAYS",
    "CREATE EVENT TRIGGER anabranch_rewrite ON table_rewrite EXECUTE FUNCTION anabranch.note_rewrite()",
    "ALTER EVENT TRIGGER anabranch_rewrite ENABLE ALWAYS",
)
UNDO = (
    "DROP EVENT TRIGGER IF EXISTS anabranch_ddl",
    "DROP EVENT TRIGGER IF EXISTS anabranch_rewrite",
    "DROP FUNCTION IF EXISTS anabranch.note_ddl()",
    "DROP FUNCTION IF EXISTS anabranch.note_rewrite()",
)
# Both triggers, with functions as SET_UP makes them: an earlier release's note_ddl tells nothing of rows written anew.
WHOLE = """
SELECT count(*) AS number, min(least(pg_catalog.age(e.xmin), pg_catalog.age(p.xmin))) AS age
  FROM pg_catalog.pg_event_trigger e JOIN pg_catalog.pg_proc p ON p.oid = e.evtfoid
 WHERE e.evtname = ANY (%s) AND e.evtenabled <> 'D' AND pg_catalog.strpos(p.prosrc, 'anabranch.retyped') > 0
   AND (e.evtname <> 'anabranch_ddl' OR pg_catalog.strpos(p.prosrc, 'in_extension') > 0)
"""
_TELLS_DEFAULTS = """
SELECT count(*) FROM pg_catalog.pg_event_trigger e JOIN pg_catalog.pg_proc p ON p.oid = e.evtfoid
 WHERE e.evtname = 'anabranch_ddl' AND pg_catalog.strpos(p.prosrc, '''defaults''') > 0
"""


@dataclass(frozen=True, slots=True)
class NotedColumn:
    """A column that is not computed. `has_constant`: rows of before it was added have a constant in it."""

    number: int
    name: str
    native: str
    not_null: bool
    has_constant: bool


@dataclass(frozen=True, slots=True)
class Note:
    """A table behind a statement. `numbers`: the highest that a column has had; `file`: with its rows, as TableSchema.file.

    `values`: what became of rows that the statement wrote anew for a column's type: CAST, as the server casts them, or NEW,
    which may be an expression's (USING); "" where it did not, or the source does not note that. `before`: the file of then.
    `defaults`: of columns, by their numbers, as expressions, which are not to be run; None: the source does not note them."""

    table: TableId
    oid: int
    numbers: int
    file: int
    columns: tuple[NotedColumn, ...]
    values: str = ""
    before: int = 0
    defaults: Mapping[int, str] | None = None


def read_note(content: bytes | str) -> Note | None:
    """Read the content of a message with this PREFIX; None for one that is none of ours: anybody may write such."""
    try:
        found: dict[str, Any] = json.loads(content if isinstance(content, str) else content.decode())
        columns = tuple(NotedColumn(int(n), str(c), str(t), bool(m), bool(h)) for n, c, t, m, h in found["columns"])
        table = TableId(str(found["schema"]), str(found["name"]))
        before = int(found.get("retyped") or 0)
        values = (CAST if found.get("cast") is True else NEW) if before else ""
        listed = found.get("defaults")
        defaults = None if listed is None else {int(number): str(text) for number, text in listed.items()}
        return Note(
            table, int(found["oid"]), int(found["numbers"]), int(found["file"]), columns, values, before, defaults
        )
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
        return None


def is_set_up(connection: Connection) -> bool:
    """Return whether the source notes its statements, and whether these write rows anew. Driver errors pass."""
    return bool(connection.execute(WHOLE.encode(), [TRIGGERS]).fetchall()[0][0] == len(TRIGGERS))


def tells_defaults(connection: Connection) -> bool:
    """Return whether the notes have defaults, as those of earlier releases have not. Driver errors pass."""
    return bool(connection.execute(_TELLS_DEFAULTS.encode()).fetchall()[0][0])
