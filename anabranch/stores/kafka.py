"""Keep objects in a Kafka: their pieces in one topic, their names in another, whose order decides.

An object is there with one record in `NAME.names`, which is written when its pieces in `NAME.objects` are confirmed; there is
no transaction that could stay open. Whose record of a name comes first has created it; the others see that, and take theirs
away. What an upload has written stands in `names` before, so that pieces of one that was cut in half are found, and removed.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator, Sequence
from uuid import uuid4

from anabranch import log
from anabranch.config.store_urls import StoreUrl
from anabranch.errors import ConfigError, Side
from anabranch.stores.contract import Found, Guarantees, ObjectExists, ObjectMissing
from anabranch.stores.failures import Failures
from anabranch.stores.folders import ABANDONED_S
from anabranch.stores.kafka_index import Index, Loose, Standing
from anabranch.stores.kafka_session import RESTORE, Gone, KafkaSession, Message
from anabranch.stores.names import checked

READ_ANEW_S = (
    3600.0  # a broker forgets that something was removed: who has not read for so long begins at the beginning
)
LATE_MS = (
    3_600_000  # an upload that took longer is given up, long before somebody may take it for one that was cut in half
)
TIDY_S, TIDIED = 3600.0, 100  # how often leftovers are removed, and how many at once
TRIES = 5
TOGETHER = 2  # pieces that have to arrive in the time for one answer: a line may be slow


def open_kafka(url: StoreUrl, end: Side) -> KafkaStore:
    """Open the store of `trail+kafka://BROKER:9092/NAME`, whose topics are made with the first object. Nothing is asked of a
    broker yet. Raises ConfigError for options that are wrong."""
    brokers = url.host if "," in url.host else f"{f'[{url.host}]' if ':' in url.host else url.host}:{url.port}"
    failures = Failures(end, f"kafka://{brokers}/{url.path}")
    return KafkaStore(failures, KafkaSession(url, failures))


class KafkaStore:
    """Objects in two topics.

    Delivery: `create` and `replace` return when the replicas in sync have the pieces and the record of the name, and this one
    was read back; readers see an object whole or not at all."""

    guarantees = Guarantees(creates_once=True, lists_at_once=True)

    def __init__(self, failures: Failures, session: KafkaSession) -> None:
        self._failures, self._session = failures, session
        self._index, self._at, self._read_at = Index(), 0, 0.0
        self._newest = 0  # ms: when the last record was written
        self._tidy_at = 0.0

    def path(self, name: str = "") -> str:
        return f"{self._failures.place}/{name}"

    def create(self, name: str, content: bytes) -> None:
        checked(name)
        self._tidy()
        if self._object(name):
            raise ObjectExists(name)
        mine = self._put(name, content, self._at, replaces=False)
        if self._index.before:
            self._remove([mine])
            raise ObjectExists(name)

    def replace(self, name: str, content: bytes) -> None:
        checked(name)
        self._tidy()
        self._refresh()
        self._put(name, content, self._at, replaces=True)
        self._remove(self._index.before)

    def read(self, name: str, offset: int = 0, length: int | None = None) -> bytes:
        checked(name)
        known: Standing | None = None
        for _ in range(TRIES):
            found = self._object(name)
            if found is None:
                raise ObjectMissing(name)
            if found == known:  # it was not replaced meanwhile
                raise self._damaged(name)
            known = found
            try:
                return self._content(known, offset, length)
            except Gone:
                continue
        raise self._failures.away(f"{name}: it is replaced again and again")

    def size(self, name: str) -> int:
        found = self._object(checked(name))
        if found is None:
            raise ObjectMissing(name)
        return found.size

    def names(self, prefix: str = "") -> Iterator[Found]:
        """Yield objects in the order of their names; the names of all objects are in memory."""
        self._refresh()
        yield from [Found(one.name, one.size) for one in self._index.objects(prefix)]

    def delete(self, name: str) -> None:
        checked(name)
        for _ in range(TRIES):  # who has lost a name just now may not have removed its record yet
            self._refresh()
            if not (left := self._index.all_of(name)):
                return
            self._remove(left)

    def close(self) -> None:
        self._session.close()
        self._index, self._at = Index(), 0

    # --- names --------------------------------------------------------------------------------------------------------

    def _object(self, name: str) -> Standing | None:
        self._refresh()
        return self._index.object(name)

    def _refresh(self) -> None:
        """Read the log of names up to where it ends now."""
        if self._session.find():
            self._read_to(self._session.end(self._session.topics.names))
        else:
            self._index, self._at = Index(), 0

    def _read_to(self, end: int) -> None:
        now = _awake()
        if end < self._at:
            log.get().warning("names_are_fewer", store=self._failures.place, read=self._at, end=end)
        is_anew = not self._at or end < self._at or now - self._read_at > READ_ANEW_S
        if is_anew:
            self._index, self._at = Index(self._index.awaited), 0
        try:
            for behind, message in self._session.records(self._at, end, anew=is_anew):
                self._at = behind
                if message is not None:
                    self._newest = message.timestamp()[1]
                    self._index.take(message.key() or b"", message.value(), self._newest)
        except (ValueError, KeyError, TypeError, AttributeError):
            what = (
                f"topic {self._session.topics.names} has a record that is none of a trail's, before offset {self._at}"
            )
            self._at = 0
            raise ConfigError(f"{self._failures.place}: {what}", hint="nobody else may write to it") from None
        except BaseException:  # also one of a signal: what was read is not all in the index, so it is read anew
            self._at = 0
            raise
        self._read_at = now

    # --- contents -----------------------------------------------------------------------------------------------------

    def _content(self, found: Standing, offset: int, length: int | None) -> bytes:
        end = found.size if length is None else min(found.size, offset + length)
        if offset >= end:
            return b""
        first, last = offset // found.piece, (end - 1) // found.piece
        messages = self._session.messages(found.at[first : last + 1])
        if any(
            one.key() != _piece_key(found.id, number) or one.value() is None
            for number, one in enumerate(messages, first)
        ):
            raise Gone
        content = b"".join(one.value() for one in messages)
        if (first, last) == (0, len(found.at) - 1) and hashlib.sha256(content).hexdigest() != found.digest:
            raise Gone
        begin = first * found.piece
        return content[offset - begin : end - begin]

    def _damaged(self, name: str) -> ConfigError:
        return self._failures.wrong(f"{name}: its pieces are not in topic {self._session.topics.objects}", RESTORE)

    # --- writing ------------------------------------------------------------------------------------------------------

    def _put(self, name: str, content: bytes, seen: int, *, replaces: bool) -> Standing:
        """Write an object, and return its record when that was read back, with the index as it is behind it. The note of its
        pieces is confirmed before the first of them, so that none is there that no writer would find."""
        session = self._session
        session.make()
        id, size = uuid4().hex, session.piece
        parts = [content[at : at + size] for at in range(0, len(content), size)]
        names, objects = session.topics.names, session.topics.objects
        loose = Loose(id, len(parts))
        pieces = [Message(objects, _piece_key(id, number), part) for number, part in enumerate(parts)]
        session.write(Message(names, loose.key, loose.value))
        groups = (pieces[first : first + TOGETHER] for first in range(0, len(pieces), TOGETHER))
        at = tuple(offset for group in groups for offset in session.write(*group))
        mine = Standing(name, id, len(content), hashlib.sha256(content).hexdigest(), size, at, replaces, seen)
        self._index.wait_for(id)
        place, _ = session.write(Message(names, mine.key, mine.value), Message(names, loose.key, None))
        self._read_to(max(self._at, place + 1))
        if self._index.took is None or self._index.took > LATE_MS:
            self._remove([mine])
            raise self._failures.away(f"{name}: its upload took too long")
        return mine

    def _remove(self, standing: Sequence[Standing]) -> None:
        """Remove records of names, in this order, and their pieces; what a kill leaves of them is noted in between."""
        if not standing:
            return
        names, left = self._session.topics.names, [Loose(one.id, len(one.at)) for one in standing]
        noted = [Message(names, one.key, one.value) for one in left]
        self._session.write(*noted, *(Message(names, one.key, None) for one in standing))
        self._remove_pieces(left)

    def _remove_pieces(self, left: Sequence[Loose]) -> None:
        names, objects = self._session.topics.names, self._session.topics.objects
        if not left:
            return
        places = [(one.id, number) for one in left for number in range(one.pieces)]
        self._session.write(*(Message(objects, _piece_key(id, number), None) for id, number in places))
        self._session.write(*(Message(names, one.key, None) for one in left))

    def _tidy(self) -> None:
        """Remove what was cut in half long ago, by the time of what was written last; with the first write, and each hour."""
        if _awake() < self._tidy_at:
            return
        self._refresh()
        before = self._newest - ABANDONED_S * 1000
        self._remove([one for one in self._index.beaten() if one.written < before][:TIDIED])
        old = [one for one in self._index.loose.values() if one.written < before][:TIDIED]
        whole = self._index.ids() if old else set()
        self._remove_pieces([Loose(one.id, 0 if one.id in whole else one.pieces) for one in old])
        self._tidy_at = _awake() + TIDY_S


def _awake() -> float:
    """Return seconds of a clock that also goes on while the machine sleeps, where there is one."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


def _piece_key(id: str, number: int) -> bytes:
    return f"{id}/{number}".encode()
