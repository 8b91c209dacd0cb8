"""Errors of a PostgreSQL source, translated: the same classes as at a target (errors.py), other remedies.

Codes: https://www.postgresql.org/docs/current/errcodes-appendix.html
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg

from anabranch.connectors.postgresql.errors import (
    LOCKED,
    OTHER_KIND_OF_SERVER,
    PASSED_ON,
    Meaning,
    connect_grant,
    describe,
    meaning,
    state_of,
)
from anabranch.errors import NOT_ADMITTED, SourceBusy, SourceError, SourceUnavailable, ValueRefused
from anabranch.waits import said

_LATER = {Meaning.BUSY: SourceBusy, Meaning.AWAY: SourceUnavailable, Meaning.FULL: SourceUnavailable}
# Text that is none of its encoding, or has no character in UTF-8.
UNCONVERTED = frozenset(("22021", "22P05"))
# SQLSTATE, or its first characters; the longest entry wins
HINTS: dict[str, str] = {
    "08": "check that the source is running and reachable",
    "28": "check user, password and pg_hba.conf of the source (a line for the database replication is not needed)",
    "3D": "the source URL names a database that is not there",
    "42501": "grant the job's user this right at the source; anabranch setup JOB lists the statements",
    "42P01": "the table is gone at the source",
    "53100": "make room on the source's disk",
    "53300": "raise max_connections, or the user's limit, at the source, or lower [load] parallel",
    "53400": "raise max_replication_slots at the source",
    "55000": "wal_level = logical is needed at the source: anabranch preflight JOB says what is missing",
    "55006": "another process reads this slot: only one may",
    "58P01": "the decoder ([source.options] decoder) is not installed at the source, if that is the file that is missing",
    "58": "look at the log of the source's server",
    "POOLER": PASSED_ON,
    "OTHER": OTHER_KIND_OF_SERVER,
    "TLS": "check ssl_mode, ssl_ca, ssl_cert in the source's URL",
    "XX": "look at the log of the source's server",
}

# Our sessions do not let policies filter: https://www.postgresql.org/docs/current/runtime-config-client.html#GUC-ROW-SECURITY
FILTERED = "row-level security"
ROW_SECURITY = (
    "ALTER ROLE … BYPASSRLS for the job's user at the source: a policy would hide rows from it; preflight names it"
)


@contextmanager
def translated(doing: str) -> Iterator[None]:
    """Turn psycopg errors inside the block into ours; `doing` says what was being done."""
    try:
        yield
    except psycopg.Error as error:
        raise translate(error, doing) from None


def translate(error: psycopg.Error, doing: str) -> SourceError:
    kind, _ = meaning(error)
    hint = (said() if error.sqlstate == LOCKED else "") or hint_of(state_of(error))
    grant = connect_grant(error)
    if FILTERED in str(error):
        hint = ROW_SECURITY
    kind_of_error = _LATER.get(kind) or (ValueRefused if state_of(error) in UNCONVERTED else SourceError)
    made = kind_of_error(f"{doing}: {describe(error)}", hint=grant or hint)
    made.code = NOT_ADMITTED if grant else made.code
    return made


def hint_of(state: str) -> str:
    return HINTS.get(state) or HINTS.get(state[:2], "")
