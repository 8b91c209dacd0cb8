"""Other programs that do what a workload measures, on the same servers, in turns with ours.

One file or package per peer; what they share: this page, `install.py` how they come here, `place.py` accounts, copies, and
how the end of a backlog is seen. Nothing of them is imported by the product, nor by its tests.
"""

from __future__ import annotations

from typing import Protocol

from anabranch.testing.databases import Database
from bench.orders import Orders
from bench.processes import Cost
from bench.stand import Stand


class Peer(Protocol):
    """Has a name for figures: "debezium"."""

    name: str

    def missing(self, stand: Stand) -> str:
        """Why it cannot take part with this source, in one line; "" when it can. Installs nothing."""


class Loader(Peer, Protocol):
    """W1."""

    table: str  # where the rows come, with its schema

    def load(self, stand: Stand, source: Database, target: Database) -> Cost:
        """Table `orders` with its primary key into `target`, which this program makes by itself, where it stands already, too.
        The time is of the whole command, and all its processes count. Raises ProgramFailed, also where rows are missing."""


class Reader(Peer, Protocol):
    """W2: from a recorded place of the source's log to a consumer in the same process, which only counts."""

    def begin(self, stand: Stand, orders: Orders) -> None:
        """Records the place: here. It may add rows of its own before that, to be warm. The source is quiet."""

    def read(self, changes: int) -> Cost:
        """From the recorded place, all of so many changes: the time from the first event to the last. May be called again
        and begins at the same place each time. Raises ProgramFailed when they are fewer or more."""

    def stop(self) -> None:
        """Nothing of it is left at the source."""


class Follower(Peer, Protocol):
    """W3 and W4: changes of one table from the source's log to a table that is there already, with the same rows."""

    def start(self, stand: Stand, source: Database, target: Database, table: str) -> None:
        """It follows from here. The source is quiet, the target's table in schema public is the same. Returns when a change
        that is made now will come."""

    def pause(self) -> None:
        """It has stored its place, which is behind all changes until now, and reads nothing; its process stays up, warm."""

    def resume(self) -> None:
        """From its stored place."""

    def processes(self) -> list[int]:
        """Process ids, of all of it."""

    def check(self) -> None:
        """Raises ProgramFailed when it does not follow any more."""

    def stop(self) -> None:
        """Nothing of it runs, nothing is left at the source. Also where `start` did not succeed."""
