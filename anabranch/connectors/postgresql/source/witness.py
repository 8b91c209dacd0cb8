"""A lock that the source holds while a job begins: a target that sees it is the same database (target/own_source.py)."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager

from anabranch.connectors.postgresql.source.connection import open_session
from anabranch.connectors.postgresql.source.errors import translated
from anabranch.model.endpoint import Endpoint


@contextmanager
def witness(endpoint: Endpoint) -> Iterator[str]:
    """Yield the key of a lock that a session at this database holds meanwhile. A transaction holds it: poolers give
    sessions away.
    """
    key = str(secrets.randbits(63))
    with open_session(endpoint) as connection, translated("take a lock at the source"), connection.transaction():
        connection.execute("SELECT pg_catalog.pg_advisory_xact_lock(%s::bigint)", [key])
        yield key
