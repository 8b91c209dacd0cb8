"""Removal of changes that have been there for long enough, one piece after the other: first no reader may ask for them, then
they go, so that a reader gets an error and never a gap.

How long something is there is counted in the seconds for which apply has run since: no clock that somebody may set decides, and
what a job has missed while it stood still is there as long as everything else. `cdc.retention_marks` has the newest place of
then for each of these looks. What does not live here: statements that differ (a database's `target/change_tables/`).
"""

from __future__ import annotations

from typing import Any, Protocol

from anabranch.connectors.sql.instances import BEGINS
from anabranch.failpoints import reach
from anabranch.model.change_names import table_of_instance
from anabranch.model.ids import TableId

AT_ONCE = 5_000  # rows of one transaction
HOUR = 3_600  # seconds
LATEST = "SELECT seconds FROM cdc.retention_marks ORDER BY seconds DESC LIMIT 1"
MARK = """
INSERT INTO cdc.retention_marks (seconds, start_lsn)
SELECT %s, m.start_lsn FROM cdc.lsn_time_mapping m ORDER BY m.start_lsn DESC LIMIT 1
"""
OLD = "SELECT seconds, start_lsn FROM cdc.retention_marks WHERE seconds <= %s ORDER BY seconds DESC LIMIT 1"
FORGET = "DELETE FROM cdc.retention_marks WHERE seconds < %s"
IS_LEFT = "SELECT 1 FROM cdc.lsn_time_mapping WHERE start_lsn < %s LIMIT 1"
MOVE = "UPDATE cdc.change_tables SET start_lsn = %s WHERE start_lsn < %s"
# Without those that have not begun: they may begin, and have rows, before the next statement.
INSTANCES = "SELECT capture_instance, start_lsn FROM cdc.change_tables WHERE start_lsn < %s ORDER BY capture_instance"
PLACES, START = TableId("cdc", "lsn_time_mapping"), "start_lsn"


class Session(Protocol):
    """A connection outside of any transaction. Statements have `%s` for values."""

    def ask(self, sql: str, *values: object) -> list[tuple[Any, ...]]: ...

    def run(self, sql: str, *values: object) -> int:
        """Carry out a statement, and return how many rows it has found."""

    def remove(self, table: TableId, below: bytes, most: int) -> int:
        """Remove up to so many rows of places below this one. Returns how many; 0 where no such table is there."""

    def commit(self) -> None: ...


def piece(at: Session, hours: int, elapsed: int) -> bool:
    """Remove a piece of what has been there for `hours`, and return whether there may be more. `elapsed`: seconds for which
    apply has run since the last call that had some."""
    last = next((int(seconds) for (seconds,) in at.ask(LATEST)), 0)
    if elapsed > 0:
        at.run(MARK, last + elapsed)
    old = at.ask(OLD, last + elapsed - hours * HOUR)
    if not old:
        at.commit()
        return False
    (seconds, place) = old[0]
    low = bytes(place)
    at.run(FORGET, seconds)
    at.run(MOVE, low, low)
    at.commit()
    reach("changes.low_end_moved")
    return _remove(at, low)


def _remove(at: Session, low: bytes) -> bool:
    """Remove up to AT_ONCE rows of each table in front of its low end; places come last, by which is known what is left."""
    is_left = bool(at.ask(IS_LEFT, low))
    found = at.ask(INSTANCES, BEGINS) if is_left else []
    at.commit()
    is_full = False
    for instance, start in found:
        is_full |= at.remove(table_of_instance(str(instance)), bytes(start), AT_ONCE) >= AT_ONCE
        at.commit()
    reach("changes.removed")
    if is_left and not is_full:
        is_full = at.remove(PLACES, low, AT_ONCE) >= AT_ONCE
        at.commit()
    return is_full
