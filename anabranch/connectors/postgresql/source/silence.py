"""Decision when a silent source counts as away.

https://www.postgresql.org/docs/current/protocol-replication.html: a keepalive that is asked for comes at once, but
while the server decodes what is not ours it looks up only now and then, by half of wal_sender_timeout, and with some
plugins never. What does not live here: asking for keepalives (capture.py), lines that are dead, which the system cuts
(connection.py).
"""

from __future__ import annotations

import math

import psycopg

from anabranch.connectors.postgresql.connection import parameters
from anabranch.connectors.postgresql.source.connection import NAME
from anabranch.errors import SourceUnavailable
from anabranch.model.endpoint import Endpoint

LEAST = 60.0  # seconds without an answer after which the line is lost though the server answers others, at least


class Silence:
    """Decides how long an answer over the log's line is waited for. `sender_timeout`: the server's, in seconds; infinity where
    it need not look up at all while it decodes."""

    def __init__(self, endpoint: Endpoint, sender_timeout: float) -> None:
        self._endpoint, self._limit = endpoint, endpoint.limits.silence
        self._most = max(self._limit, LEAST, 2 * sender_timeout)
        self._answered = -math.inf  # when another connection was, last

    def look(self, since: float, now: float, at: str) -> None:
        """Raise SourceUnavailable if the source is away. `since`: when something came last; `at`: how far the log is
        read.

        May take as long as opening a connection.
        """
        if now - since > self._most:
            raise SourceUnavailable(f"the source's log has been silent for {now - since:.0f} s", position=at)
        if now - max(since, self._answered) <= self._limit:
            return
        if not self._answers():
            what = f"the source has been silent for {now - since:.0f} s, and does not answer a second connection either"
            raise SourceUnavailable(what, position=at)
        self._answered = now

    def _answers(self) -> bool:
        """Return whether the server answers a second connection; a refusal is an answer."""
        try:
            psycopg.connect(**parameters(self._endpoint, NAME)).close()
        except psycopg.errors.ConnectionTimeout:
            return False
        except psycopg.Error:
            return True
        return True
