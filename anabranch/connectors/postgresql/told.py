"""Sessions that tell the log, at the level `debug`, what they are asked: statements without their values.

The level is looked at with each statement: it can be switched while a session is open.
What does not live here: what the engines tell of their work.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import psycopg
from psycopg import sql

from anabranch import log

if TYPE_CHECKING:
    from anabranch.model.endpoint import Endpoint


class TellingCursor(psycopg.Cursor[tuple[Any, ...]]):
    """A cursor whose statements are told before they run."""

    def execute(self, query: Any, *arguments: Any, **options: Any) -> Self:
        self._tell(query)
        return super().execute(query, *arguments, **options)

    def executemany(self, query: Any, *arguments: Any, **options: Any) -> None:
        self._tell(query)
        super().executemany(query, *arguments, **options)

    def copy(self, statement: Any, *arguments: Any, **options: Any) -> Any:
        self._tell(statement)
        return super().copy(statement, *arguments, **options)

    def _tell(self, query: Any) -> None:
        if not log.is_detailed():
            return
        text = query.as_string(self) if isinstance(query, sql.Composable) else query
        text = text.decode(errors="replace") if isinstance(text, bytes) else text
        log.get(process=self.connection.info.backend_pid).debug("statement", sql=log.shape(text, '"'))


def tell(connection: psycopg.Connection[tuple[Any, ...]], endpoint: Endpoint, application: str) -> None:
    """Tell of a new session, and makes it tell its statements."""
    connection.cursor_factory = TellingCursor
    if log.is_detailed():
        facts = {"process": connection.info.backend_pid, "application": application}
        log.get().debug("connected", to=str(endpoint), encrypted=connection.pgconn.ssl_in_use, **facts)
