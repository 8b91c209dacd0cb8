"""Other writers to tables of this database: jobs, by the state that they keep here, and subscriptions of the server's
own.

A PostgreSQL source is asked for what may come back to it, a target for what writes beside the job. What does not live
here: other jobs at the target, and what a job may not do to their rows (shared_tables.py).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from anabranch.connectors.postgresql.connection import Connection
from anabranch.connectors.postgresql.quoting import quote
from anabranch.model.cutover import held
from anabranch.model.ids import TableId
from anabranch.model.markers import SCHEMA, TABLES
from anabranch.model.state import LEAVES_OUT, ORIGINS, PAIR
from anabranch.model.writers import SourceWriter, from_text, origins_of_text, with_held

_OPEN = ("GRANT USAGE ON SCHEMA anabranch TO {user}", "GRANT SELECT ON anabranch.job, anabranch.table_state TO {user}")
# No row: no job has its state here. to_regclass would raise an error for a schema that is closed to the user.
MAY_READ = """
SELECT bool_and(has_schema_privilege(n.oid, 'USAGE') AND has_table_privilege(c.oid, 'SELECT'))
  FROM pg_catalog.pg_namespace n JOIN pg_catalog.pg_class c ON c.relnamespace = n.oid
 WHERE n.nspname = 'anabranch' AND c.relname IN ('job', 'table_state') HAVING count(*) = 2
"""
# A table that was parked before its first load is written by nobody.
JOBS = """
SELECT 'the job ' || s.job, j.uuid, coalesce(j.source_identity, ''), j.facts ->> %s, j.facts ->> %s,
       s.source_table, s.target_table
  FROM anabranch.table_state s JOIN anabranch.job j USING (job)
 WHERE j.uuid IS NOT NULL AND (s.state <> 'parked' OR s.generation > 0) ORDER BY 1, 6
"""
MAY_READ_HELD = MAY_READ.replace("'job', 'table_state'", "'cutover', 'checkpoint'")
HELD = """
SELECT job, number, step, phase, noted_at FROM anabranch.cutover
 WHERE job IN (SELECT job FROM anabranch.checkpoint WHERE left(owner, 8) = 'cutover-')
   AND job NOT IN (SELECT job FROM anabranch.checkpoint WHERE left(owner, 8) <> 'cutover-') ORDER BY 1, 2
"""
# What jobs have noted of those that write to what they read.
PASSED_ON = """
SELECT 'the job ' || job, facts ->> %s FROM anabranch.job WHERE uuid IS NOT NULL AND facts ? %s ORDER BY 1
"""
# Before 14 only superusers may read the oids of pg_subscription; the view has them for all.
# https://www.postgresql.org/docs/current/catalog-pg-subscription.html
SUBSCRIPTIONS = """
SELECT DISTINCT 'the subscription ' || s.subname, coalesce(s.subslotname::text, ''), n.nspname::text, c.relname::text
  FROM pg_catalog.pg_subscription s JOIN pg_catalog.pg_database d ON d.oid = s.subdbid
  JOIN pg_catalog.pg_stat_subscription v ON v.subname = s.subname
  JOIN pg_catalog.pg_subscription_rel r ON r.srsubid = v.subid
  JOIN pg_catalog.pg_class c ON c.oid = r.srrelid JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
 WHERE d.datname = current_database() AND s.subenabled ORDER BY 1, 3, 4
"""
# The slot of a job ends with the first digits of its uuid.
READS_HERE = r"""
SELECT EXISTS (SELECT FROM pg_catalog.pg_replication_slots
 WHERE database = current_database() AND %(key)s <> ''
   AND (slot_name = %(key)s OR (slot_name LIKE 'anabranch\_%%' AND right(slot_name, 8) = left(%(key)s, 8))))
"""


def may_see_jobs(user: str) -> tuple[str, ...]:
    """Return the statements after which a user sees to which tables jobs write here."""
    return tuple(text.format(user=quote(user)) for text in _OPEN)


def may_read(connection: Connection) -> bool | None:
    """Return whether this user may see the state that jobs keep in the database; None where no job keeps any."""
    row = connection.execute(MAY_READ).fetchone()
    return bool(row[0]) if row else None


def writers(connection: Connection) -> list[SourceWriter]:
    """Return jobs, where this user may read their state, and subscriptions: whatever writes to tables here."""
    if not may_read(connection):
        return subscriptions(connection)
    rows, parse = connection.execute(JOBS, [LEAVES_OUT, PAIR]).fetchall(), TableId.parse
    found = [(*of, parse(read), parse(written)) for *of, read, written in rows]
    passed_on = connection.execute(PASSED_ON, [ORIGINS, ORIGINS]).fetchall()
    others = [writer for name, text in passed_on for writer in from_text(text, name)]
    return with_held(_grouped(found) + others, _held(connection)) + subscriptions(connection)


def _held(connection: Connection) -> frozenset[str]:
    """Return the jobs that a cut-over holds; none where this user may not read that."""
    row = connection.execute(MAY_READ_HELD).fetchone()
    return held(connection.execute(HELD).fetchall()) if row and row[0] else frozenset()


def subscriptions(connection: Connection) -> list[SourceWriter]:
    """Return subscriptions that are switched on. A table has one name at both ends of them."""
    rows = connection.execute(SUBSCRIPTIONS).fetchall()
    return _grouped((name, key, "", None, None, TableId(*table), TableId(*table)) for name, key, *table in rows)


# Names of publications end as slots do.
UNMARKED = r"""
SELECT p.pubname::text FROM pg_catalog.pg_publication p
 WHERE p.pubname LIKE 'anabranch\_%%' AND right(p.pubname, 8) = left(%s, 8) AND NOT p.puballtables
   AND (SELECT count(*) FROM pg_catalog.pg_publication_tables t
         WHERE t.pubname = p.pubname AND t.schemaname = %s AND t.tablename = ANY(%s)) < cardinality(%s::text[])
"""


def unmarked(connection: Connection, writer: SourceWriter) -> str:
    """Return the publication by which a job reads this database without the tables that say who has written a transaction, ""
    for none."""
    row = connection.execute(UNMARKED, [writer.key, SCHEMA, list(TABLES), list(TABLES)]).fetchone()
    return str(row[0]) if row else ""


def reads_here(connection: Connection, writer: SourceWriter) -> bool:
    """Return whether a subscription reads this database: its slot is there then."""
    row = connection.execute(READS_HERE, {"key": writer.key}).fetchone()
    return bool(row and row[0])


def _grouped(rows: Iterable[tuple[Any, ...]]) -> list[SourceWriter]:
    """Make one of all rows of a writer: name, key, source, what it leaves out, its pair, a table that it reads, one that it
    writes."""
    pairs = defaultdict(list)
    for name, key, source, leave_out, pair, read, written in rows:
        pairs[name, key, source, leave_out, pair].append((read, written))
    return [
        SourceWriter(name, key, tuple(found), source=source, leaves_out=origins_of_text(leave_out), pair=pair or "")
        for (name, key, source, leave_out, pair), found in pairs.items()
    ]
