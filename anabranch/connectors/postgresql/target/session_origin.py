"""Says of what a session commits that it comes from elsewhere: the server writes it into its log, once for each transaction.

https://www.postgresql.org/docs/current/replication-origins.html
What does not live here: where a job stands, which is a row of ours and no origin's progress (`apply.py`).
"""

from __future__ import annotations

from psycopg import errors

from anabranch.connectors.postgresql.connection import Connection, one
from anabranch.connectors.postgresql.errors import translated
from anabranch.errors import TargetError

KNOWN = "SELECT EXISTS (SELECT FROM pg_catalog.pg_replication_origin WHERE roname = %s)"
CREATE = "SELECT pg_catalog.pg_replication_origin_create(%s)"
SET_UP = "SELECT pg_catalog.pg_replication_origin_session_setup(%s)"
RESET = "SELECT pg_catalog.pg_replication_origin_session_reset()"
# Before 14 the server asks for a superuser, whatever was granted.
FUNCTIONS = (
    "pg_replication_origin_create(text), pg_replication_origin_session_setup, pg_replication_origin_session_reset()"
)


class SessionOrigin:
    """Sets the origin of one session. The server gives an origin to one session at a time."""

    def __init__(self) -> None:
        self._name = ""

    def take(self, connection: Connection, name: str) -> None:
        """Set the origin of what this session commits from here on; "": this server. Not within a transaction."""
        if name == self._name:
            return
        try:
            with translated(f"write as {name or 'oneself'}"):
                self._change(connection, name)
        except TargetError as error:
            if isinstance(error.__context__, errors.InsufficientPrivilege):
                error.hint = self._grant(connection)
            raise

    def _change(self, connection: Connection, name: str) -> None:
        if self._name:
            connection.execute(RESET)
            self._name = ""
        if name:
            if not one(connection, KNOWN, [name]):
                connection.execute(CREATE, [name])
            connection.execute(SET_UP, [name])
        connection.commit()
        self._name = name

    @staticmethod
    def _grant(connection: Connection) -> str:
        return f'GRANT EXECUTE ON FUNCTION {FUNCTIONS} TO "{connection.info.user}" (PostgreSQL 14 and later)'
