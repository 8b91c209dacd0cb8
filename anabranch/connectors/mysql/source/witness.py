"""A lock that the source holds while a job begins: a target that sees it is the same server (target/own_source.py).

https://dev.mysql.com/doc/refman/8.0/en/locking-functions.html: a lock has a name, no right is needed, and the servers that
replicate from this one do not have it.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import closing, contextmanager

from anabranch.connectors.mysql.connection import ask, connect
from anabranch.connectors.mysql.registered import witness_lock
from anabranch.errors import SourceError
from anabranch.model.endpoint import Endpoint


@contextmanager
def witness(endpoint: Endpoint) -> Iterator[str]:
    """Yield the key of a lock that a session at this server holds meanwhile. It is a number, as other sources' keys are: a
    target of another kind may ask for it, and finds nothing."""
    key = str(secrets.randbits(63))
    with closing(connect(endpoint)) as connection:
        if ask(connection, "SELECT GET_LOCK(%s, 10)", witness_lock(key))[0][0] != 1:
            raise SourceError(
                "the source grants no lock by which a target can identify it", hint="GET_LOCK has to work there"
            )
        yield key
