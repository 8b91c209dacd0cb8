"""Watch that the publication goes on showing the tables whose rows say which job has written a transaction (K21).

Each change is shown as the publication was when it was made. So a transaction that is read has its marker if the tables have
been published, with the same entries, ever since reading began: that is looked at behind what was read, and before it is given
to anybody. The log itself says nothing of it. What does not live here: adding the tables (marker_tables.py).
https://www.postgresql.org/docs/current/catalog-pg-publication-rel.html
"""

from __future__ import annotations

from anabranch.connectors.postgresql.connection import Connection
from anabranch.connectors.postgresql.source.errors import translated
from anabranch.errors import SourceError
from anabranch.model.ids import TableId
from anabranch.model.markers import SCHEMA, TABLES

# The entry of a table is another one when it was taken out and put in again, or got a filter.
_ENTRIES = """
SELECT c.relname::text, concat_ws(' ', r.oid, p.oid)
  FROM pg_catalog.pg_publication p JOIN pg_catalog.pg_publication_rel r ON r.prpubid = p.oid
  JOIN pg_catalog.pg_class c ON c.oid = r.prrelid JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
 WHERE p.pubname = %s AND p.pubinsert AND p.pubupdate AND n.nspname = %s AND c.relname = ANY(%s)
"""
Entries = dict[str, str]


def entries(connection: Connection, publication: str) -> Entries:
    """Return, for each of the tables that is published, what changes when it is taken out."""
    with translated("look at the tables that say who has written"):
        rows = connection.execute(_ENTRIES, [publication, SCHEMA, list(TABLES)]).fetchall()
    return dict(rows)


def refuse_changed(connection: Connection, publication: str, before: Entries, jobs: frozenset[str]) -> None:
    """Raise SourceError where the publication has not shown all of these tables since `before` was read."""
    now = entries(connection, publication)
    lost = sorted(str(TableId(SCHEMA, name)) for name in TABLES if name not in now or now[name] != before.get(name))
    if not lost:
        return
    whose = ", ".join(sorted(jobs))
    raise SourceError(
        f"the publication {publication} does not show {', '.join(lost)}, or not all the time: what {whose} has written since"
        " cannot be told from what others have",
        hint=f"if {whose} has not written meanwhile: anabranch setup JOB --execute adds them, then start again. Else its rows"
        " would come back: remove this job (anabranch drop JOB --execute) and begin it anew",
    )
