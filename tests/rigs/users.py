"""Users who may log in at servers and do nothing more, for tests of rights."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager

from anabranch.testing.databases import Database

LOGIN = {
    "mysql": "CREATE USER '{0}'@'%' IDENTIFIED BY '{1}'",
    "mariadb": "CREATE USER '{0}'@'%' IDENTIFIED BY '{1}'",
    "postgresql": "CREATE ROLE \"{0}\" LOGIN PASSWORD '{1}'",
}
GONE = {
    "mysql": ("DROP USER '{0}'@'%'",),
    "mariadb": ("DROP USER '{0}'@'%'",),
    "postgresql": ('DROP OWNED BY "{0}" CASCADE', 'DROP ROLE "{0}"'),
}


@contextmanager
def user_at(*databases: Database) -> Iterator[tuple[str, str]]:
    """Yield a user who may log in at these servers, and do nothing more, with its password."""
    user, password = f"u{secrets.token_hex(5)}", "p"
    done = []
    try:
        for database in databases:
            database.execute(LOGIN[database.server.name].format(user, password))
            done.append(database)
        yield user, password
    finally:
        for database in done:
            database.execute(*(text.format(user) for text in GONE[database.server.name]))
