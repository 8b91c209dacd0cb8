"""Names of the fence around the tables of a PostgreSQL that is cut over from, for whoever raises it and whoever meets it."""

from __future__ import annotations

from psycopg import sql

from anabranch.connectors.postgresql.connection import job_digest

SCHEMA = "anabranch_fence"


def admitted(job: str) -> sql.Composable:
    """Return the condition under which a session is one of this job that writes to its target; none is where `job` is ""."""
    if not job:
        return sql.SQL("false")
    starts = sql.SQL("pg_catalog.starts_with(pg_catalog.current_setting('application_name'), {})")
    return sql.SQL(" OR ").join(starts.format(sql.Literal(name)) for name in prefixes(job))


def prefixes(job: str) -> list[str]:
    """Return how the names of a job's sessions may begin (`connection.session_name`)."""
    return [f"anabranch:{name}:" for name in (job, job_digest(job))]
