"""The pump whose next hop is a store of objects: what the trail has goes there in numbered pieces, each put once.

Nobody answers at a store. So the pump goes on behind the last piece that it finds there, which says what a replica has that
has taken in all of them; and what is put durably is what moves its registration with the trail on. A put of which the answer
was lost is found by the next try. Whoever finds another writer's piece in the place of its next one stops.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

from anabranch import log
from anabranch.errors import ConfigError, StateError, StorageFull, TargetUnavailable
from anabranch.failpoints import reach
from anabranch.stores.contract import ObjectExists, ObjectMissing, ObjectStore
from anabranch.trail import identity as identities
from anabranch.trail import load_readers, retention
from anabranch.trail.outgoing import Outgoing
from anabranch.trail.replica import Held, hops_of
from anabranch.trail.replica_files import LoadFile
from anabranch.trail.storage import LocalStorage
from anabranch.transport import pieces, store_facts
from anabranch.transport.bandwidth import Limiter
from anabranch.transport.batch import SIZE, Batch
from anabranch.transport.link import Link, LinkLost
from anabranch.transport.names import reader_name
from anabranch.transport.pieces import Head, PieceRead
from anabranch.transport.pump import (
    IDLE,
    LONGEST_PAUSE,
    LOOK,
    LOOK_IDLE,
    Pump,
    Session,
    go_on_behind,
    note_loads,
)
from anabranch.transport.store_claims import Claims
from anabranch.transport.store_facts import Begun, Written
from anabranch.transport.store_files import FilesToSend
from anabranch.transport.store_place import Put, PutNote, has, newest
from anabranch.transport.store_retention import Retention

INTERVAL = 1.0  # seconds after which a piece that is not full goes out
FILE_TURN = 4 << 20  # bytes of load files between two looks at the trail
_RESTORE = "restore the store from a backup, or begin under another NAME"
CONFLICTS = 3  # sessions in a row that find another writer's piece in the place of their first one


class AlreadyPut(Exception):
    """The place of our next piece is taken: by a put that was under way when its process died, or by another writer."""


class StorePump(Pump):
    """`opened`: opens the store; `interval`: seconds, `size`: bytes, after which a piece goes out; `keep`: seconds for which a
    piece stays that every reader has.

    Delivery: every transaction of the trail, in order, once: the last piece in the store says from where on."""

    passing = (*Pump.passing, TargetUnavailable, StorageFull, AlreadyPut)

    def __init__(
        self,
        directory: str | Path,
        name: str,
        trail: str,
        opened: Callable[[], ObjectStore],
        *,
        to: str = "",
        limiter: Limiter | None = None,
        compress: bool = False,
        longest_pause: float = LONGEST_PAUSE,
        give_up: float | None = None,
        interval: float = INTERVAL,
        size: int = SIZE,
        keep: float = 24 * 3600.0,
    ) -> None:
        super().__init__(
            directory,
            name,
            trail,
            _no_line,
            to=to,
            limiter=limiter,
            compress=compress,
            longest_pause=longest_pause,
            give_up=give_up,
        )
        self.opened, self.interval, self.size, self.keep = opened, interval, size, keep
        self.conflicts = 0
        self.limiter, self.compress = self._limiter, self._compress
        self.was_there = False

    def _session(self, outgoing: Outgoing, stop: Callable[[], bool], until_caught_up: bool) -> Session:
        return _StoreSession(self, outgoing, stop, until_caught_up)


def _no_line() -> Link:
    raise LinkLost("there is no line to a store")


class _StoreSession:
    """One try: goes on behind the last piece of the store until something is in the way."""

    def __init__(self, pump: StorePump, outgoing: Outgoing, stop: Callable[[], bool], until_caught_up: bool) -> None:
        self._pump, self._outgoing, self._stop, self._until = pump, outgoing, stop, until_caught_up
        self.was_welcome = False
        self._writer = uuid4().hex
        self._state = pump.state
        self._note = PutNote(pump.directory, pump.name)
        self._put_before, self._is_said = self._note.load(), True
        self._store: ObjectStore
        self._begun: Begun
        self._claims: Claims
        self._batch: Batch
        self._files: FilesToSend
        self._retention: Retention
        self._number, self._previous, self._bytes = 0, "", 0
        self._puts = 0

    def run(self) -> bool:
        """Send until something is in the way. Returns whether all was sent that was asked for, or `stop` was. Raises what may
        pass (`StorePump.passing`), StateError for another writer or trail, TrailError, TargetError."""
        try:
            self._store = self._pump.opened()
            try:
                self._start()
                self._pump.was_there = True
                return self._send()
            finally:
                self._store.close()
        except ConfigError as error:
            if not self._pump.was_there:
                raise
            raise TargetUnavailable(error.message, hint=error.hint) from error  # rights that were taken may come back

    # --- where to go on ---------------------------------------------------------------------------------------------

    def _start(self) -> None:
        if self._put_before.place != self._store.path():
            self._put_before = Put(self._store.path())  # of a store that the job file named before
        self._begun = self._found_or_begun()
        self._refuse_other()
        self._claims = Claims(self._store, self._begun.is_named)
        self._claims.refresh()
        if self._put_before.chain != self._begun.chain:
            self._put_before = replace(
                self._put_before, chain=self._begun.chain, number=0, digest="", files={}, swept=1
            )
        last = self._last()
        held = last.head.held if last else Held()
        if last:
            self._number, self._previous, self._bytes = last.head.number, last.digest, last.head.bytes + last.size
        go_on_behind(self._pump.directory, self._pump.name, self._outgoing, held)
        self._batch = Batch(held, self._pump.size)
        self._files = FilesToSend(self._pump.directory, self._put_before.known_files)
        self._retention = Retention(self._store, self._put_before, self._pump.keep, self._claims)
        self._note_loads(list(self._put_before.known_files.values()))  # a kill may have come in between
        self._state.state, self._state.acknowledged = "sending", held.sequence
        self._pump.held = held
        self._pump.lag.acknowledge(held.sequence)
        log.get().info("hop_begun", trail=self._pump.trail, to=self._store.path(), piece=self._number)
        reach("store.begun")

    def _found_or_begun(self) -> Begun:
        """Return whose trail is in the store; begin one where none is. Raises StateError where one was and is gone."""
        creates_once = self._store.guarantees.creates_once
        if found := store_facts.begun(self._store):
            if not creates_once and not found.is_named:
                what = (
                    f"{self._store.path()}: the trail was begun by a way that creates an object once; this one does not"
                )
                raise ConfigError(what, hint="use that way again, or begin under another NAME")
            return found
        if self._put_before.number:
            what = f"{self._store.path()} has nothing any more; {self._put_before.number} pieces were put there"
            raise StateError(what, hint=f"to begin there anew, remove {self._note.path}, and begin its replicas anew")
        hops = (*(hops_of(LocalStorage(self._pump.directory)) or ()), self._pump.name)
        made = Begun(uuid4().hex, self._outgoing.identity, hops=hops, is_named=not creates_once)
        with suppress(ObjectExists):
            store_facts.begin(self._store, made)
        return store_facts.begun(self._store) or made  # another one may have begun at the same time

    def _refuse_other(self) -> None:
        theirs, ours = self._begun.identity, self._outgoing.identity
        try:
            identities.refuse_mismatch(theirs, replace(ours, source_identity=theirs.source_identity))
        except StateError as error:
            raise StateError(
                f"{self._store.path()}: {error.message}", hint="give each trail a NAME of its own"
            ) from None

    def _last(self) -> PieceRead | None:
        """Return the last piece of the store, None for none. Raises StateError where pieces are gone that were put there."""
        put, claims = self._put_before, self._claims
        last = claims.line[-1] if claims.line else None
        is_ours = claims.counts(put.number, put.writer, self._begun.first) == put.number
        if not is_ours:
            put.files = {}  # some may be in a piece that another one has overtaken
        known = max(self._begun.first - 1, last.after if last else 0, put.number if is_ours else 0)
        if not claims.is_named:
            known = max(known, store_facts.written(self._store).number)
        if known >= self._begun.first and not has(self._store, claims.name(known)):
            what = f"{self._store.path(claims.name(known))} is gone, which was put there"
            raise StateError(what, hint=_RESTORE)
        number = newest(lambda one: has(self._store, claims.name(one)), known)
        if number < self._begun.first:
            return None
        where = self._store.path(claims.name(number))
        try:
            data = self._store.read(claims.name(number))
        except ObjectMissing:
            raise StateError(f"{where} is gone, which was there just now", hint=_RESTORE) from None
        found = pieces.decode(data, number, where)
        pieces.refuse_other(found, self._begun.chain, found.head.previous, where)
        if is_ours and number == put.number and put.digest not in ("", found.digest):
            what = f"{where} is another than the piece that was put there"
            raise StateError(what, hint=_RESTORE)
        return found

    # --- sending ----------------------------------------------------------------------------------------------------

    def _send(self) -> bool:
        version, quiet = -1, time.monotonic()
        while not self._stop():
            record = self._outgoing.record()
            if record.version != version:
                version, quiet = record.version, time.monotonic()
                self._pump.see(record.sequence)
                self._take_pieces()
            self._take_files()
            if self._batch and (self._until or self._batch.age >= self._pump.interval):
                self._put()
            if self._until and self._is_done(record.sequence):
                self._keep_house()
                return True
            self._turn(LOOK_IDLE if time.monotonic() - quiet > IDLE else LOOK)
        return True

    def _take_pieces(self) -> None:
        for piece in self._outgoing.pieces():
            for _ in self._batch.add(piece):
                self._put()
            if self._stop():
                return
        self._state.sent = self._batch.held.sequence

    def _take_files(self) -> None:
        taken = 0
        if self._files.look():
            while taken < FILE_TURN and not self._stop() and (found := self._files.next()):
                taken += len(found[2]) or 1
                if self._batch.add_file(*found):
                    self._put()
        self._state.files_left = self._files.left

    def _put(self) -> None:
        """Put what was gathered as the next piece. Raises AlreadyPut, StateError where another one stands there."""
        if not self._wait_for_the_limit():
            return
        held = self._batch.held
        body, files = self._batch.take()
        record = self._outgoing.record()
        head = Head(
            self._number + 1, self._begun.chain, self._previous, self._writer, self._pump.name,
            self._outgoing.identity, held, self._bytes, record.sequence, time.time(),
        )  # fmt: skip
        data, began = pieces.encode(head, body, compress=self._pump.compress), time.monotonic()
        self._claim()
        try:
            self._store.create(self._claims.name(head.number), data)
        except ObjectExists:
            self._refuse_another(head.number, data)
        reach("store.put")
        self._refuse_overtaken(head.number, len(data))
        self._state.store["seconds"] = time.monotonic() - began
        self._pump.limiter.spend(len(data))
        self._is_put(head, data, files)

    def _wait_for_the_limit(self) -> bool:
        """Wait until the limit of bytes a second lets the piece out. Returns False if we are to stop before."""
        while not (is_asked := self._stop()) and (pause := self._pump.limiter.pause()):
            self._turn(pause)
        return not is_asked

    def _claim(self) -> None:
        """Say before the first piece of this session that it writes now, where the store cannot decide. Raises AlreadyPut."""
        if self._puts:
            return
        try:
            self._claims.claim(self._writer, self._number, self._previous, self._begun.first)
        except ObjectExists:
            self._count_conflict(f"another pump began to write into {self._store.path()} at the same time")
            raise AlreadyPut("another pump has begun to write at the same time") from None
        self._begun = store_facts.begun(self._store) or self._begun  # pieces may have gone since this session began

    def _refuse_overtaken(self, number: int, size: int) -> None:
        """Raise where the store cannot decide, and somebody has begun to write behind this session: StateError; what was put
        does not count then, and the trail is still held for it."""
        if not self._claims.is_named:
            return
        name = self._claims.name(number)
        try:
            is_whole = self._store.size(name) == size
        except ObjectMissing:
            is_whole = False
        if not is_whole:
            raise TargetUnavailable(f"{self._store.path(name)} has not the {size} bytes that were put there")
        if not self._claims.is_last(self._writer):
            what = f"another pump has begun to write into {self._store.path()}, and goes on in the place of this one"
            raise StateError(what, hint="one pump alone may write under a NAME: stop one of the two")

    def _count_conflict(self, what: str) -> None:
        """Raise StateError for somebody who is in the way again and again."""
        self._pump.conflicts += 1
        if self._puts or self._pump.conflicts >= CONFLICTS:
            raise StateError(what, hint="one pump alone may write under a NAME: stop one of the two")

    def _refuse_another(self, number: int, data: bytes) -> None:
        """Return if the object that is there is ours: the answer to an earlier put was lost."""
        name = self._claims.name(number)
        try:
            found = self._store.read(name)
        except ObjectMissing:
            raise AlreadyPut(f"piece {number} was there, and is gone again") from None
        if found == data:
            return
        other = pieces.decode(found, number, self._store.path(name)).head
        who = f"{other.pump}, session {other.writer[:8]}"
        self._count_conflict(f"{self._store.path(name)} was written by another pump ({who})")
        raise AlreadyPut(f"piece {number} was put meanwhile, by session {other.writer[:8]} of pump {other.pump}")

    def _is_put(self, head: Head, data: bytes, files: list[LoadFile]) -> None:
        """Let the trail go of what is in the store durably."""
        self._number, self._previous, self._bytes = head.number, pieces.digest_of(data), head.bytes + len(data)
        put = self._put_before
        put.number, put.digest, put.writer = self._number, self._previous, self._writer
        put.files.update({one.name: [one.size, one.sum] for one in files})
        self._note.save(put)
        reach("store.noted")
        retention.advance(self._pump.directory, reader_name(self._pump.name), head.held.sequence)
        self._note_loads(files)
        self._puts, self._pump.conflicts, self.was_welcome = self._puts + 1, 0, True
        state = self._state
        state.state, state.error, state.acknowledged = "sending", "", head.held.sequence
        state.bytes_sent += len(data)
        self._pump.held = head.held
        self._pump.lag.acknowledge(head.held.sequence)
        self._is_said = False

    def _note_loads(self, files: list[LoadFile]) -> None:
        """Let the trail go of the files of loads whose manifests are in the store: what they name is in front of them."""
        manifests = [one for one in files if os.path.basename(one.name) == load_readers.MANIFEST]
        if manifests:
            note_loads(self._pump.directory, self._pump.name, manifests)

    def _say_written(self) -> None:
        """Tell readers and `status` how far this is."""
        self._is_said = True
        published = self._outgoing.record().sequence
        store_facts.save(
            self._store,
            Written(self._number, self._bytes, self._state.acknowledged, published, time.time(), self._writer),
        )

    # --- meanwhile --------------------------------------------------------------------------------------------------

    def _turn(self, seconds: float) -> None:
        """Do what is to be done from time to time, and wait."""
        if self._pump.is_note_due():
            self._keep_house()
        time.sleep(seconds)

    def _keep_house(self) -> None:
        """Note how far we are, here and in the store; remove what every reader has."""
        if not self._is_said:
            self._say_written()
        if self._until or self._retention.is_due():
            self._begun = self._retention.remove(self._begun, self._number, self._stop)
            self._note.save(self._put_before)
        state = self._state
        state.left = self._outgoing.bytes_left(self._batch.held)
        state.behind = self._retention.readers_shown(state.published)
        state.store |= self._retention.shown(self._begun, self._number)
        self._pump.note()

    def _is_done(self, sequence: int) -> bool:
        """Return whether all is there, also of the files: what was written since the last look at them is sent now."""
        return self._state.acknowledged >= sequence and not self._batch and not self._files.look(now=True)
