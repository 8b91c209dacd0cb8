"""Sessions that are kept from one call of a test to its next: opening one costs both sides ten times what a statement does.

A kept session must be nothing that a test could notice. So it is the main thread's alone, is given to statements only that ask
for nothing of a session and change nothing of it (`is_plain`), and goes as soon as anything else is done, or somebody opens a
session of his own. What does not live here: how a session is opened (databases.py).
"""

from __future__ import annotations

import os
import re
import select
import threading
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakSet

_PLAIN = re.compile(
    r"\s*(?:(?:CREATE|ALTER|DROP)\s+(?:UNIQUE\s+)?(?:TABLE|INDEX|TYPE|DOMAIN|VIEW|SEQUENCE)|INSERT|UPDATE|DELETE|REPLACE|TRUNCATE"
    r"|SELECT|WITH)\b",
    re.IGNORECASE,
)
# Of settings, of the session itself, of what sessions do, of locks that it would hold; or several statements in one.
_OF_A_SESSION = re.compile(
    r"@|;|setting|set_config|_lock|terminate|kill|pid\b|_id\s*\(|row_count|found_rows|pg_stat|processlist|currval|lastval",
    re.IGNORECASE,
)


def is_plain(statement: str) -> bool:
    """Return whether it does the same in any session of its user, whatever was done there before, and leaves nothing in it."""
    return bool(_PLAIN.match(statement)) and not _OF_A_SESSION.search(statement)


@dataclass
class Kept:
    """Sessions by what `get` is asked for, each of the thread and the process that has opened it."""

    _sessions: dict[tuple[Hashable, ...], Any] = field(default_factory=dict)

    @contextmanager
    def get(self, opened: Callable[[], Any], *key: Hashable) -> Iterator[Any]:
        """Give the session that is kept for `key`; a new one where there is none, or where the server has ended it.

        One in which something fails is not kept."""
        mine = (os.getpid(), threading.get_ident(), *key)
        connection = self._sessions.pop(mine, None)
        if connection is None or _is_over(connection):
            self._close(_is_over)
            connection = opened()
        try:
            yield connection
        except BaseException:  # whatever it was: the session is not kept, and it is passed on
            connection.close()
            raise
        self._sessions[mine] = connection

    def close(self) -> None:
        """Close all that this thread has."""
        self._close(lambda _: True)

    def _close(self, which: Callable[[Any], bool]) -> None:
        for key, connection in list(self._sessions.items()):
            if key[:2] == (os.getpid(), threading.get_ident()) and which(connection):
                del self._sessions[key]
                connection.close()


@dataclass
class Plain:
    """Sessions for plain statements of the main thread, as long as nothing else is done there."""

    _kept: Kept = field(default_factory=Kept)
    _others: WeakSet[Any] = field(default_factory=WeakSet)

    @contextmanager
    def get(self, opened: Callable[[], Any], statements: Sequence[str], *key: Hashable) -> Iterator[Any]:
        """Give a session for these statements: the kept one, or one that is closed behind them."""
        if not _is_main():
            with closing(opened()) as connection:
                yield connection
        elif any(map(_is_open, self._others)) or not all(map(is_plain, statements)):
            self.close()
            with closing(opened()) as connection:
                yield connection
        else:
            with self._kept.get(opened, *key) as connection:
                yield connection

    def somebody_has(self, connection: Any) -> None:
        """Note that somebody has opened a session of his own: while it is open, none is kept."""
        if _is_main():
            self.close()
            self._others.add(connection)

    def close(self) -> None:
        """Keep none from here on to the next plain statement."""
        if _is_main():
            self._kept.close()


def _is_main() -> bool:
    return threading.current_thread() is threading.main_thread()


def _is_open(connection: Any) -> bool:
    return bool(connection.open if hasattr(connection, "open") else not connection.closed)


def _is_over(connection: Any) -> bool:
    """Return whether the server has ended a session that is asked nothing: only its end makes it readable."""
    poll = select.poll()  # not select, which takes no descriptor over 1,023
    poll.register(connection if hasattr(connection, "fileno") else connection._sock, select.POLLIN)
    return bool(poll.poll(0))
