"""The view `public.kafkaoffset`: the progress of jobs with the names, types and order of columns that programs for exBase know.

It is over `anabranch.checkpoint`, so that it needs no writes. It is known by its comment; whatever else has its name stays.
What does not live here: the checkpoint (`apply.py`), when the view is made and removed (`store.py`).
"""

from __future__ import annotations

from anabranch.connectors.postgresql.connection import Connection
from anabranch.errors import StateError

VIEW = "public.kafkaoffset"
COMMENT = "anabranch: progress of its jobs, as exBase shows it"
# The time is that of the commit in which the checkpoint moved, where the server keeps such times.
# https://www.postgresql.org/docs/current/runtime-config-replication.html#GUC-TRACK-COMMIT-TIMESTAMP
CREATE = f"""
CREATE VIEW {VIEW} AS
SELECT (job || '#incremental')::varchar(128) AS jobid, NULL::varchar(64) AS topic, sequence AS lastoffset,
       NULL::bigint AS lastsuboffset,
       CASE WHEN position ~ '^[0-9A-F]+/[0-9A-F]+$' THEN (position::pg_lsn - '0/0'::pg_lsn)::bigint END AS last_scn_number,
       NULL::bigint AS scnnumber, NULL::text AS transaction_id, at AS applytime, at AS updatetime, position AS commitposition
  FROM (SELECT job, sequence, checkpoint.position,
               CASE WHEN current_setting('track_commit_timestamp') = 'on'
                    THEN pg_xact_commit_timestamp(xmin) AT TIME ZONE 'UTC' END AS at
          FROM anabranch.checkpoint) AS c
"""
# kind and comment of what has the name, with what a view's owner has to be; no row: nothing has it.
SEEN = f"""
SELECT c.relkind = 'v' AND coalesce(obj_description(c.oid, 'pg_class'), '') = '{COMMENT}'
  FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname || '.' || c.relname = '{VIEW}'
"""
HINT = f"ALTER TABLE {VIEW} RENAME TO kafkaoffset_before, or leave [compat] exbase out"
TAKEN = f"{VIEW} is there, and is no view of ours"


def is_shown(connection: Connection) -> bool | None:
    """Return whether the view is there; None where something else has its name."""
    row = connection.execute(SEEN.encode()).fetchone()
    return False if row is None else (True if row[0] else None)


def show(connection: Connection) -> None:
    """Make the view, in the caller's transaction. Raises StateError where something else has its name."""
    found = is_shown(connection)
    if found is None:
        raise StateError(TAKEN, hint=HINT)
    if not found:
        connection.execute(CREATE.encode())
        connection.execute(f"COMMENT ON VIEW {VIEW} IS '{COMMENT}'".encode())


def hide(connection: Connection) -> None:
    """Remove the view where it is ours: the table below it could not be removed."""
    if is_shown(connection):
        connection.execute(f"DROP VIEW {VIEW}".encode())
