"""Places in a binary log and sets of GTIDs: text forms, membership, order. Pure; nobody here asks a server.

A mark's `native` is `file:offset`. Its `resume` is JSON: `identity` and `family` of the server, `file`, `offset`,
`created` (when the server began that file, 0 = not known), `gtid` (everything contained, normalised, "" = the server has
none), `gtid_only` for a mark that is the set, `anonymous` where transactions without GTIDs may be contained that the set
does not name, and `by_gtid` where the log has to be entered by the set: another server's may have what the set
contains behind what it does not.
MySQL's sets: https://dev.mysql.com/doc/refman/8.0/en/replication-gtids-concepts.html
MariaDB's: https://mariadb.com/kb/en/gtid/
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Protocol

from anabranch.connectors.mysql.source.gtid_bytes import TAG, decode_set, encode_set
from anabranch.errors import LogLost
from anabranch.model.position import LogMark


class GtidSet(Protocol):
    """The operations that both families' sets have."""

    def add(self, gtid: str) -> None:
        """Put one transaction's id in. Raises ValueError for text that is none."""

    def contains(self, gtid: str) -> bool: ...

    def missing_from(self, other: str) -> str:
        """Return, as text, the part of this set that is not in `other` (text); "" when `other` contains this set."""


class MysqlGtids:
    """`uuid:1-5:7:tag:1-3` lists. A source is a uuid, or `uuid:tag`: what stands behind a tag is counted by itself. Intervals
    are kept sorted, disjoint and not adjacent; both ends belong to them. Raises ValueError for text that is no such list."""

    def __init__(self, text: str = "") -> None:
        self._intervals: dict[str, list[list[int]]] = {}
        for part in text.replace("\n", "").split(","):
            if part.strip():
                uuid, *items = part.strip().lower().split(":")
                source = uuid
                for item in items:
                    if TAG.fullmatch(item):
                        source = f"{uuid}:{item}"
                    else:
                        first, _, last = item.partition("-")
                        self.add_interval(source, int(first), int(last or first))

    def add(self, gtid: str) -> None:
        source, _, number = gtid.lower().rpartition(":")
        self.add_interval(source, int(number), int(number))

    def add_interval(self, source: str, first: int, last: int) -> None:
        intervals = self._intervals.setdefault(source, [])
        if intervals and intervals[-1][1] + 1 == first:  # the log's own order: nearly always
            intervals[-1][1] = last
            return
        low = [i for i in intervals if i[1] + 1 < first]
        high = [i for i in intervals if i[0] > last + 1]
        touched = intervals[len(low) : len(intervals) - len(high)]
        merged = [min([first, *(i[0] for i in touched)]), max([last, *(i[1] for i in touched)])]
        self._intervals[source] = [*low, merged, *high]

    def update(self, text: str) -> None:
        """Add everything in `text`."""
        for source, intervals in MysqlGtids(text)._intervals.items():
            for first, last in intervals:
                self.add_interval(source, first, last)

    def contains(self, gtid: str) -> bool:
        source, _, number = gtid.lower().rpartition(":")
        return self._has(source, int(number), int(number))

    def missing_from(self, other: str) -> str:
        having, missing = MysqlGtids(other), MysqlGtids()
        for source, intervals in self._intervals.items():
            for first, last in intervals:
                for gap_first, gap_last in having._gaps(source, first, last):
                    missing.add_interval(source, gap_first, gap_last)
        return str(missing)

    def _has(self, source: str, first: int, last: int) -> bool:
        return not self._gaps(source, first, last)

    def _gaps(self, source: str, first: int, last: int) -> list[tuple[int, int]]:
        """Return the parts of first..last that are not contained."""
        intervals, gaps = self._intervals.get(source, []), []
        for low, high in intervals[max(bisect_right(intervals, [first]) - 1, 0) :]:
            if low > last:
                break
            if first < low:
                gaps.append((first, low - 1))
            first = max(first, high + 1)
        return [*gaps, (first, last)] if first <= last else gaps

    def encode(self) -> bytes:
        """Encode the set for COM_BINLOG_DUMP_GTID."""
        return encode_set(self._intervals)

    @classmethod
    def decode(cls, data: bytes) -> MysqlGtids:
        """Decode what `encode` gives: the body of a PREVIOUS_GTIDS event. Raises ValueError for other bytes."""
        made = cls()
        for source, first, last in decode_set(data):
            made.add_interval(source, first, last)
        return made

    def __str__(self) -> str:
        parts: dict[str, list[str]] = {}
        for source, intervals in sorted(self._intervals.items()):
            uuid, _, tag = source.partition(":")
            if intervals:
                told = parts.setdefault(uuid, [uuid])
                told += [tag] * bool(tag)
                told += [str(first) if first == last else f"{first}-{last}" for first, last in intervals]
        return ",".join(":".join(told) for told in parts.values())


class MariadbGtids:
    """`domain-server-sequence` lists: per domain the last transaction, which contains all before it."""

    def __init__(self, text: str = "") -> None:
        self._last: dict[int, tuple[int, int]] = {}
        self.update(text)

    def add(self, gtid: str) -> None:
        domain, server, sequence = (int(part) for part in gtid.split("-"))
        self.add_number(domain, server, sequence)

    def add_number(self, domain: int, server: int, sequence: int) -> None:
        self._last[domain] = (server, sequence)

    def update(self, text: str) -> None:
        """Add everything in `text`."""
        for part in filter(None, (p.strip() for p in text.split(","))):
            domain, server, sequence = (int(number) for number in part.split("-"))
            if sequence >= self._last.get(domain, (0, 0))[1]:
                self.add_number(domain, server, sequence)

    def contains(self, gtid: str) -> bool:
        domain, _, sequence = (int(part) for part in gtid.split("-"))
        return domain in self._last and sequence <= self._last[domain][1]

    def missing_from(self, other: str) -> str:
        having = MariadbGtids(other)
        return ",".join(gtid for gtid in str(self).split(",") if gtid and not having.contains(gtid))

    def __str__(self) -> str:
        return ",".join(f"{domain}-{server}-{sequence}" for domain, (server, sequence) in sorted(self._last.items()))


def gtid_set(family: str, text: str = "") -> MysqlGtids | MariadbGtids:
    """Return the set of `family` with what `text` says."""
    return MariadbGtids(text) if family == "mariadb" else MysqlGtids(text)


@dataclass(frozen=True, slots=True)
class Place:
    """A mark's `resume`, taken apart."""

    identity: str
    family: str
    file: str
    offset: int
    gtid: str = ""
    created: int = 0
    gtid_only: bool = False
    by_gtid: bool = False
    anonymous: bool = False

    def __str__(self) -> str:
        return f"{self.file}:{self.offset}"

    def mark(self, commit_time: int = 0) -> LogMark:
        facts = {name: getattr(self, name) for name in self.__slots__}
        return LogMark(str(self), json.dumps(facts), commit_time)


@lru_cache(maxsize=256)
def place_of(resume: str) -> Place:
    """Parse what `Place.mark` gives. Raises LogLost for text that is no place in a binary log."""
    try:
        return Place(**json.loads(resume))
    except (ValueError, TypeError) as error:
        raise LogLost(f"{resume[:80]!r} is no position in a binary log") from error


@lru_cache(maxsize=64)
def _set_of(family: str, gtid: str) -> MysqlGtids | MariadbGtids:
    return gtid_set(family, gtid)


def _of_set(text: str, end: Place) -> Place:
    """Return the place that is the set of GTIDs `text`. Raises ValueError for one that the server at `end` does not have."""
    try:
        found = gtid_set(end.family, text)
    except ValueError:
        found = gtid_set(end.family)
    if not str(found):
        raise ValueError(f"{text!r} is neither a place in a binary log, like binlog.000003:15499, nor a set of GTIDs")
    if not end.gtid or end.anonymous:
        raise ValueError(
            "the server also has transactions without GTIDs: give file and offset, like binlog.000003:15499"
        )
    if missing := found.missing_from(end.gtid):
        raise ValueError(f"the source does not have {missing}")
    return replace(end, gtid=str(found), gtid_only=True, by_gtid=False)


def file_number(file: str) -> tuple[str, int]:
    """Split `mysql-bin.000003` into (`mysql-bin`, 3): numbers count on past 999999, text does not."""
    name, _, number = file.rpartition(".")
    if not number.isdigit():
        raise LogLost(f"{file!r} is no binary log file")
    return name, int(number)


class BinlogOrder:
    """LogOrder of MySQL and MariaDB."""

    def mark(self, resume: str) -> LogMark:
        return place_of(resume).mark()

    def place(self, text: str, now: LogMark) -> LogMark:
        """Parse `file:offset`, or a set of GTIDs that the server has."""
        end, (file, _, offset) = place_of(now.resume), text.rpartition(":")
        if "." not in file or not (offset.isascii() and offset.isdigit()):
            return _of_set(text, end).mark()
        if file_number(file)[0] != file_number(end.file)[0] or not self.includes(now, text, None):
            raise ValueError(f"the source's log has not come to {text}, it is at {now.native}")
        return Place(end.identity, end.family, file, int(offset)).mark()

    def includes(self, mark: LogMark, native: str, gtid: str | None) -> bool:
        """Compare by membership where the mark is a set and the transaction has a GTID, else by file and offset in the
        one server's log.

        A mark that is a set also has the place up to which everything without a GTID is contained (snapshot.py).
        """
        place = place_of(mark.resume)
        if place.gtid_only and gtid is not None:
            return _set_of(place.family, place.gtid).contains(gtid)
        file, _, offset = native.rpartition(":")
        (name, number), (marked, marked_number) = file_number(file), file_number(place.file)
        if name != marked:
            raise LogLost(f"the source's binary log changed its name from {marked} to {name}: order is not known")
        return (number, int(offset)) <= (marked_number, place.offset)

    def server(self, mark: LogMark) -> str:
        return place_of(mark.resume).identity

    def is_set(self, mark: LogMark) -> bool:
        return place_of(mark.resume).gtid_only

    def lacks(self, mark: LogMark, begun: LogMark) -> str:
        place, start = place_of(mark.resume), place_of(begun.resume)
        if not start.gtid or start.anonymous:
            raise ValueError("the trail does not know which GTIDs it began behind: give file and offset")
        return gtid_set(start.family, start.gtid).missing_from(place.gtid)

    def bytes_between(self, native: str, later: LogMark, sizes: Mapping[str, int] | None = None) -> int | None:
        """Return the bytes between two places, across files by their sizes; None where the server no longer has all of them."""
        place, (file, _, offset) = place_of(later.resume), native.rpartition(":")
        if place.gtid_only:
            return None
        if file == place.file:
            return max(0, place.offset - int(offset))
        (name, first), (marked, last) = file_number(file), file_number(place.file)
        known = {file_number(one): size for one, size in (sizes or {}).items()}
        before = [known.get((name, number)) for number in range(first, last)]
        if name != marked or not before or None in before:
            return None
        return max(0, sum(filter(None, before)) - int(offset) + place.offset)
