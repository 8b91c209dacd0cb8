"""The marker: a row of a job's state, the first change of every transaction that a job writes at its target (K21).

Whoever reads the target's log knows by it which job wrote the transaction. The tables stand in the schema (at MySQL and MariaDB
the database) `anabranch`, and their first column is `job`. A statement that commits by itself, as MySQL's TRUNCATE, says it in
a comment. What does not live here: where a log is asked (each source's assembler), when a marker is written (each target).
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from anabranch.model.ids import TableId

SCHEMA = "anabranch"
TABLES = ("checkpoint", "load_chunk")
MARKERS = frozenset(TableId(SCHEMA, name) for name in TABLES)
PREFIX = "anabranch:"  # of an origin that is a job
JOB_NAME = r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}"
_COMMENT = re.compile(rf"/\* {PREFIX}({JOB_NAME}) \*/\s*\Z")


def origin_of(job: str) -> str:
    """Return the origin of what this job has written."""
    return f"{PREFIX}{job}"


def is_job(origin: str | None) -> bool:
    return origin is not None and origin.startswith(PREFIX)


def jobs_among(origins: Iterable[str]) -> frozenset[str]:
    """Return the names of the jobs among origins."""
    return frozenset(origin.removeprefix(PREFIX) for origin in origins if origin.startswith(PREFIX))


def native_among(origins: Iterable[str]) -> frozenset[str]:
    """Return the origins that a log names by itself: servers, replication origins."""
    return frozenset(origin for origin in origins if not origin.startswith(PREFIX))


def comment(job: str) -> str:
    """Return the comment that ends a statement of this job which commits by itself."""
    return f"/* {origin_of(job)} */"


def commented(statement: str) -> str:
    """Return the job that a statement's comment names, "" for none."""
    found = _COMMENT.search(statement)
    return found[1] if found else ""
