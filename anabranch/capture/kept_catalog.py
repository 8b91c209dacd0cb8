"""The source's catalogue while statements come that alter tables, one after the other: over a connection that is kept between
them, since a new one costs more than all that is asked.

Nothing that it has said is kept: each statement is asked for anew, once the log has given it. A connection that an earlier
statement has left may know other rights than a new one would have, or may be lost: what fails over it, or is not certain, is
asked again over a new one. It is closed wherever the log is opened again, since the server may be another one.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from anabranch.contracts import NamingCatalog
from anabranch.errors import SourceError

if TYPE_CHECKING:
    from collections.abc import Collection

    from anabranch.contracts import SourceCatalog, SourceConnector
    from anabranch.model.ids import TableId
    from anabranch.model.schema import TableSchema

IDLE_SECONDS = 5.0  # without a question, after which the connection is closed
OLDEST_SECONDS = 30.0  # after which it is opened again: rights of a user may be those of the time when it was opened
# For so long a catalogue that still shows the former definition is asked again. It may show a statement later than the log
# while a replica is waited for that has to answer first. Behind a statement that is older than `YOUNG_SECONDS` this is rare.
BEHIND_SECONDS, OLD_SECONDS = 5.0, 0.5
PAUSE = 0.05
YOUNG_SECONDS = 30.0  # clocks of two machines may differ by as much
T = TypeVar("T")


class KeptCatalog:
    """Asks over one connection. Not for two threads."""

    def __init__(self, source: SourceConnector) -> None:
        self.source = source
        self._open: SourceCatalog | None = None
        self._opened = self._asked = 0.0  # time.monotonic()
        self._is_older = False  # was it opened for an earlier statement?

    def begin(self) -> None:
        """Begin to ask for a statement of the log."""
        self._close_if(time.monotonic() - self._opened > OLDEST_SECONDS)
        self._is_older = self._open is not None

    def ask(self, question: Callable[[SourceCatalog], T]) -> T:
        """Return what the catalogue says. Raises SourceError, SourceUnavailable, over a new connection as well."""
        try:
            return self._ask(question)
        except SourceError:
            if not self._is_older:
                raise
        self._is_older = False
        return self._ask(question)

    def table(self, table: TableId) -> TableSchema | None:
        """Return a table as it is now, None where there is none. Raises as `ask`."""
        return self.ask(lambda catalog: named(catalog, (table,)).get(table))

    def renew(self) -> bool:
        """Close a connection that an earlier statement has left, so that the same can be asked over a new one. Returns whether
        it was one."""
        was, self._is_older = self._is_older, False
        self._close_if(was)
        return was

    def close_idle(self) -> None:
        """Close the connection where nothing was asked for a while."""
        self._close_if(time.monotonic() - self._asked > IDLE_SECONDS)

    def close(self) -> None:
        if self._open is not None:
            self._open.close()
            self._open = None

    def _close_if(self, is_over: bool) -> None:
        if is_over:
            self.close()

    def _ask(self, question: Callable[[SourceCatalog], T]) -> T:
        if self._open is None:
            self._open, self._opened = self.source.catalog(), time.monotonic()
        self._asked = time.monotonic()
        try:
            return question(self._open)
        except SourceError:
            self.close()
            raise


def named(catalog: SourceCatalog, tables: Collection[TableId]) -> dict[TableId, TableSchema]:
    """Return those of these tables that are there, as they are now. Raises SourceError, SourceUnavailable."""
    return catalog.named(tables) if isinstance(catalog, NamingCatalog) else catalog.tables(tables.__contains__)


def waits_behind(commit_time: int) -> float:
    """Return for how many seconds a catalogue is asked that does not show a statement yet. `commit_time`: in microseconds, 0 if
    unknown."""
    is_young = not commit_time or time.time() - commit_time / 1e6 < YOUNG_SECONDS
    return BEHIND_SECONDS if is_young else OLD_SECONDS
