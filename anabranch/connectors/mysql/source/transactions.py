"""The transaction (or lone statement) that is being read from a binary log, and what is complete before it. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from struct import Struct

from anabranch.connectors.mysql.source import binlog as b
from anabranch.connectors.mysql.source.gtid_bytes import parse_tagged_gtid, uuid_text
from anabranch.connectors.mysql.source.left_out import NOBODY, LeftOutOrigins
from anabranch.connectors.mysql.source.positions import MariadbGtids, MysqlGtids, Place, file_number, gtid_set
from anabranch.errors import UnknownLogEvent
from anabranch.model.markers import origin_of
from anabranch.model.position import LogMark

_GTID = Struct("<B16sq")  # flags, source, number; 5.6 ends here
_CLOCK = 25  # where the type of the logical clock stands (2: commit times may follow)
_CLOCK_AT, _CLOCK_BYTES, _CLOCK_MASK = 42, 7, (1 << 55) - 1  # of this server's commit, in microseconds
_MARIADB_GTID = Struct("<QIB")  # number, domain, flags
_STANDALONE, _PREPARED = 1, 64  # https://mariadb.com/kb/en/gtid_event/
_SECOND = 1_000_000
NO_MARKER = -1


class LogGroup:
    """A transaction of the log, from its GTID or BEGIN to its end.

    `ordinal` counts the images of ours in it; `fragmented` says how many of them left as fragments already,
    `taken_back` how many of the others were rolled back, `savepoints` where each name stands. `is_xa`: it may end
    prepared; `on_xa` is called when that is known. `file` and `safe` are the place just after the last complete one.
    `switched_at`: where the log ended when it was entered by the set. `is_left_out`: it is of one of `left_out`, and
    its rows are not ours. `marker`: the number of a table whose rows come next and say which job wrote the transaction
    (K21), `origin` that job's, where it was said.
    """

    def __init__(self, place: Place, switched_at: Place | None = None, left_out: LeftOutOrigins = NOBODY) -> None:
        self.left_out, self.is_left_out = left_out, False
        self.marker = NO_MARKER
        self.origin: str | None = None
        self.is_open = self.in_transaction = self.is_fragmented = self.has_barrier = self.is_xa = False
        self.ordinal = self.fragmented = self.taken_back = 0
        self.savepoints: dict[str, int] = {}
        self.on_xa: Callable[[], None] = lambda: None
        self.file, self.safe, self.created = place.file, place.offset, place.created
        self.gtids: MysqlGtids | MariadbGtids = gtid_set(place.family, place.gtid)
        self._place, self._by_gtid, self._anonymous = place, place.by_gtid, place.anonymous
        self._switched_at = _order(switched_at.file, switched_at.offset) if switched_at else None
        self._is_here = switched_at is None  # else `file` and `safe` are of the former server's log
        self._event: tuple[int, bytes, int] | None = None  # kind, body, server
        self._sources: dict[bytes, str] = {}
        self._commit_time = 0

    @property
    def is_ours(self) -> bool:
        """True if the open transaction has anything for us."""
        return self.ordinal > 0 or self.has_barrier

    @property
    def waiting(self) -> int:
        """Images of the open transaction that did not leave yet."""
        return self.ordinal - self.fragmented - self.taken_back

    @property
    def place(self) -> str:
        return f"{self.file}:{self.safe}"

    def begin(self, kind: int, body: bytes, server: int, place: str) -> None:
        """Begin with a GTID event: on MySQL a transaction or a statement follows; MariaDB says which."""
        if self.is_ours:
            message = "a transaction begins before the one before it has ended"
            raise UnknownLogEvent(message, position=place, hint=b.START_AGAIN)
        self.is_open, self.in_transaction = True, False
        self.marker, self.origin = NO_MARKER, None
        self._event = kind, body, server
        self.is_left_out = self.left_out.has(server, _source_of(kind, body) if self.left_out.sources else b"")
        if kind == b.MARIADB_GTID:
            flags = body[12]
            self.in_transaction = not flags & _STANDALONE
            if flags & _PREPARED:
                self.begin_xa()

    def begin_rows(self, server: int) -> None:
        """Begin rows: BEGIN, by `server`. In old logs it is the first event of a transaction."""
        self.in_transaction = self.is_open = True
        self.is_left_out = self.is_left_out or self.left_out.has(server)

    def begin_xa(self) -> None:
        """Begin an XA transaction: MariaDB says it with the id, MySQL by XA START in place of BEGIN."""
        self.in_transaction = self.is_open = self.is_xa = True
        self.on_xa()

    def may_be_marked(self) -> bool:
        """Return whether the next change is the first one, which says whose the transaction is."""
        return not (self.is_ours or self.origin)

    def marked(self, job: str) -> None:
        """Note that this job has written the transaction ("": its row does not say which)."""
        self.marker = NO_MARKER
        if job:
            self.origin = origin_of(job)
            self.is_left_out = self.is_left_out or job in self.left_out.jobs

    def state(self) -> tuple[bool, bool, bool, tuple[int, bytes, int] | None, int]:
        """Return the state for the compiled loop, which follows plain transactions.

        Is this one plain so far, is it open, are its rows in a transaction, the event that it began with, its images.
        A transaction of a job is not plain: its end names an origin.
        """
        is_odd = self.is_xa or self.is_fragmented or self.has_barrier or self.savepoints or self.taken_back
        is_plain = not (is_odd or self.origin)
        return is_plain, self.is_open, self.in_transaction, self._event, self.ordinal

    def went_on(self, opened: tuple[bool, bool, tuple[int, bytes, int] | None], ordinal: int) -> None:
        """Take over the state that the compiled loop has reached: see `state`."""
        self.is_open, self.in_transaction, self._event = opened
        self.ordinal = ordinal

    def ended(
        self,
        last: tuple[int, int] | None,
        is_anonymous: bool,
        mariadb: Iterable[tuple[int, int, int]],
        mysql: Iterable[tuple[bytes, int, int]],
    ) -> None:
        """Note transactions that the compiled loop completed.

        Place and commit time of the last one; is one without an id among them; the last (domain, server, number) of
        each domain; (source, first, last) of intervals.
        """
        if last is not None:
            self.safe, self._commit_time = last
        self._anonymous = self._anonymous or is_anonymous
        for domain, server, number in mariadb:
            self.gtids.add_number(domain, server, number)  # type: ignore[union-attr]  # of that family, as asked for
        for source, first, final in mysql:
            self.gtids.add_interval(self._source(source), first, final)  # type: ignore[union-attr]  # likewise

    def _source(self, source: bytes) -> str:
        name = self._sources.get(source)
        if name is None:
            name = self._sources[source] = uuid_text(source)
        return name

    def end(self, offset: int, seconds: int) -> tuple[str | None, int]:
        """Complete the transaction at `offset`. Returns its GTID and commit time."""
        gtid, self._commit_time = self._identify(seconds)
        self._close()
        self.safe = offset
        return gtid, self._commit_time

    def move(self, file: str, offset: int) -> None:
        """Go on at another place of the log, with nothing open."""
        if file != self.file:
            self.created = 0
        self.file, self.safe, self._is_here = file, offset, True

    def previous(self, body: bytes) -> None:
        """Add the set that MySQL begins each file with: everything before it."""
        if isinstance(self.gtids, MysqlGtids) and not self.is_open:
            self.gtids.update(str(MysqlGtids.decode(body)))

    def abandon(self) -> None:
        """Discard the open transaction, which never ended."""
        self._close()

    def _close(self) -> None:
        self.is_open = self.in_transaction = self.is_fragmented = self.has_barrier = self.is_xa = False
        self.is_left_out = False
        self.marker, self.origin = NO_MARKER, None
        self.ordinal = self.fragmented = self.taken_back = 0
        self.savepoints = {}
        self._event = None

    def mark(self) -> LogMark:
        place = self._place
        if self._by_gtid and self._is_past_switch():
            self._by_gtid = False  # from here on file and offset say exactly what is contained
        gtid = str(self.gtids)
        facts = {"by_gtid": self._by_gtid, "anonymous": self._anonymous}
        return Place(place.identity, place.family, self.file, self.safe, gtid, self.created, **facts).mark(
            self._commit_time
        )

    def _is_past_switch(self) -> bool:
        """Return whether everything that the set had, when the log was entered, is before here."""
        switch = self._switched_at
        return switch is not None and self._is_here and _order(self.file, self.safe) >= switch

    def _identify(self, seconds: int) -> tuple[str | None, int]:
        """Return GTID and commit time (microseconds) of what ends now; the id is contained from here on."""
        if self._event is None:
            self._anonymous = self._place.family == "mysql"
            return None, seconds * _SECOND
        kind, body, server = self._event
        if kind == b.MARIADB_GTID:
            number, domain, _ = _MARIADB_GTID.unpack_from(body)
            self.gtids.add_number(domain, server, number)  # type: ignore[union-attr]  # the event is of that family
            return f"{domain}-{server}-{number}", seconds * _SECOND
        if kind == b.TAGGED_GTID:
            tagged, number, time = parse_tagged_gtid(body)
            self.gtids.add_interval(tagged, number, number)  # type: ignore[union-attr]  # the event is of that family
            return f"{tagged}:{number}", time or seconds * _SECOND
        _, source, number = _GTID.unpack_from(body)
        has_clock = body[_CLOCK : _CLOCK + 1] == b"\2"
        time = int.from_bytes(body[_CLOCK_AT : _CLOCK_AT + _CLOCK_BYTES], "little") & _CLOCK_MASK if has_clock else 0
        time = time or seconds * _SECOND
        if kind == b.ANONYMOUS_GTID:
            self._anonymous = True
            return None, time
        name = self._source(source)
        self.gtids.add_interval(name, number, number)  # type: ignore[union-attr]  # the event is of that family
        return f"{name}:{number}", time


def _source_of(kind: int, body: bytes) -> bytes:
    """Return the uuid of a GTID of MySQL's, as bytes; none where there is no such."""
    if kind == b.TAGGED_GTID:
        return bytes.fromhex(parse_tagged_gtid(body)[0][:36].replace("-", ""))
    return body[1:17] if kind == b.GTID else b""


def _order(file: str, offset: int) -> tuple[int, int]:
    return file_number(file)[1], offset
