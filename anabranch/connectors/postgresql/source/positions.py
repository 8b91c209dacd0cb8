"""Places in a PostgreSQL's log: an LSN, or what a snapshot contains (K14). Pure.

What does not live here: asking a server for them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from anabranch.model.position import LogMark

_LSN = re.compile(r"([0-9A-F]{1,8})/([0-9A-F]{1,8})", re.IGNORECASE)
_SNAPSHOT = re.compile(r"\d+:\d+:[\d,]*", re.ASCII)
_LATER = ("newest", "began")  # a release before them reads marks that have them not
_HALF, _WHOLE = 1 << 31, 1 << 32  # transaction ids in messages have 32 bits, in snapshots 64


def lsn_of(text: str) -> int:
    """Return the number of `16/B374D848`. Raises ValueError."""
    found = _LSN.fullmatch(text)
    if not found:
        raise ValueError(f"{text!r} is no LSN, like 16/B374D848")
    high, low = (int(part, 16) for part in found.groups())
    return high << 32 | low


def lsn_text(lsn: int) -> str:
    return f"{lsn >> 32:X}/{lsn & 0xFFFFFFFF:X}"


def nearest(xid: int, near: int) -> int:
    """Return, of the numbers that a message's `xid` may stand for, the nearest one to `near`."""
    whole = near & ~(_WHOLE - 1) | xid
    if whole - near > _HALF:
        return whole - _WHOLE
    return whole + _WHOLE if near - whole > _HALF else whole


def left_at(history: Sequence[tuple[int, int]], timeline: int) -> int | None:
    """Return where a server's history left an earlier timeline; None for one that it has never been on."""
    return next((place for number, place in history if number == timeline), None)


def began(history: Sequence[tuple[int, int]], timeline: int) -> str:
    """Return where a timeline begins in a server's history, as `PARENT@LSN`; "" for the first one, and where it is not told.

    Numbers are not enough: two standbys of one primary that are promoted apart both call theirs 2.
    """
    before = [f"{number}@{lsn_text(place)}" for number, place in history if number < timeline]
    return before[-1] if before else ""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Transactions whose changes are seen, as pg_current_snapshot() says it: those below `xmin`, and those below `xmax` that
    are not in `open`. https://www.postgresql.org/docs/current/functions-info.html#FUNCTIONS-PG-SNAPSHOT"""

    xmin: int
    xmax: int
    open: frozenset[int] = frozenset()

    @classmethod
    def parse(cls, text: str) -> Snapshot:
        """Parse `10:20:10,14,15`. Raises ValueError."""
        low, high, some = text.split(":")
        return cls(int(low), int(high), frozenset(map(int, filter(None, some.split(",")))))

    def __str__(self) -> str:
        return f"{self.xmin}:{self.xmax}:{','.join(map(str, sorted(self.open)))}"

    def sees(self, xid: int) -> bool:
        """Return whether the snapshot has the changes of the transaction that a message calls `xid`.

        A message has 32 bits of the number: the one nearest to `xmax` is meant.
        """
        whole = nearest(xid, self.xmax)
        return whole < self.xmin or (whole < self.xmax and whole not in self.open)


@dataclass(frozen=True, slots=True)
class Place:
    """`identity`: of the server's data and the database. `lsn`: all that committed up to here is contained, and with a
    `snapshot` (its text) what this says instead: then all of it is before `lsn`. `timeline`: the one
    that this was read on, 0 where nobody asked. `newest`: of a log's end, the first transaction id that the server
    had not completed, 0 where nobody asked. `began`: where the timeline began, as the function gives it. The last
    two stand in no mark that is kept where they are empty."""

    identity: str
    lsn: int
    snapshot: str = ""
    timeline: int = 0
    newest: int = 0
    began: str = ""

    def at(self, lsn: int) -> Place:
        """Return the same place with another `lsn`. Called for each transaction, for which dataclasses.replace takes
        too long.
        """
        return Place(self.identity, lsn, self.snapshot, self.timeline, 0, self.began)

    def mark(self, commit_time: int = 0) -> LogMark:
        facts = {name: value for name, value in asdict(self).items() if value or name not in _LATER}
        return LogMark(lsn_text(self.lsn), json.dumps(facts, sort_keys=True), commit_time)


def place_of(resume: str) -> Place:
    """Parse what Place.mark gives. Raises ValueError."""
    try:
        return Place(**json.loads(resume))
    except TypeError as error:
        raise ValueError(f"{resume!r} is no place in a PostgreSQL's log") from error


class WalOrder:
    """LogOrder. The `gtid` of a transaction is its id, as messages have it."""

    def mark(self, resume: str) -> LogMark:
        return place_of(resume).mark()

    def place(self, text: str, now: LogMark) -> LogMark:
        """Parse an LSN, or what pg_current_snapshot() says in the snapshot that rows were read in."""
        end = place_of(now.resume)
        if _SNAPSHOT.fullmatch(text):
            snapshot = Snapshot.parse(text)
            if snapshot.xmin > snapshot.xmax:
                raise ValueError(f"{text!r} is no snapshot, like 10:20:10,14")
            if end.newest and snapshot.xmax > end.newest:
                raise ValueError(f"the source has not come to transaction {snapshot.xmax}, it is at {end.newest}")
            return Place(end.identity, end.lsn, str(snapshot), end.timeline, began=end.began).mark()
        lsn = lsn_of(text)
        if lsn > end.lsn:
            raise ValueError(f"the source's log has not come to {text}, it is at {now.native}")
        return Place(end.identity, lsn, timeline=end.timeline, began=end.began).mark()

    def includes(self, mark: LogMark, native: str, gtid: str | None) -> bool:
        place = place_of(mark.resume)
        if lsn_of(native) > place.lsn:  # of a snapshot: whatever it has is before
            return False
        return not place.snapshot or gtid is None or Snapshot.parse(place.snapshot).sees(int(gtid))

    def server(self, mark: LogMark) -> str:
        return place_of(mark.resume).identity

    def is_set(self, mark: LogMark) -> bool:
        return bool(place_of(mark.resume).snapshot)

    def lacks(self, mark: LogMark, begun: LogMark) -> str:
        return ""  # whoever sees a transaction sees those that committed before it: it is enough to ask for the first

    def bytes_between(self, native: str, later: LogMark, sizes: Mapping[str, int] | None = None) -> int:
        return max(0, place_of(later.resume).lsn - lsn_of(native))
