"""The pump whose source is a store of objects: takes its pieces, in order, into a replica.

It asks for the next number, with growing pauses, and never concludes from a listing. Each piece has to be whole, of this
trail, and to follow the one before; a replica that has some of its bytes already, after a kill, is compared with them and gets
the rest. `stored.json` beside the replica is the last piece that it has durably, all of it: what it acknowledges.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from anabranch import log
from anabranch.errors import AnabranchError, ConfigError, SourceUnavailable, StorageFull, TrailCorrupt, TrailError
from anabranch.failpoints import reach
from anabranch.stores.contract import ObjectMissing, ObjectStore
from anabranch.trail import identity as identities
from anabranch.trail.failures import writing
from anabranch.trail.format import to_json
from anabranch.trail.replica import KEPT, TrailReplica
from anabranch.trail.retention import RetentionLimits
from anabranch.trail.storage import LocalStorage, read_whole
from anabranch.transport import pieces, store_facts
from anabranch.transport.hop_state import FETCHED, HopState
from anabranch.transport.messages import ProtocolError
from anabranch.transport.pieces import Head, PieceRead
from anabranch.transport.pump import FIRST_PAUSE, LONGEST_PAUSE, NOTE
from anabranch.transport.store_claims import Claim, Claims
from anabranch.transport.store_facts import Acknowledged, Begun, Written
from anabranch.transport.taking_in import Stopped, TakingIn

FIRST_LOOK, LONGEST_LOOK = 0.05, 2.0  # seconds between two questions for the next piece
MARK = identities.STORED
PATIENCE = 10.0  # seconds for another process to let the replica go
BEHIND = "begin under another NAME, with the pumps of all readers started before the first of them goes on"


@dataclass(frozen=True, slots=True)
class Mark:
    """The last piece that the replica has durably, all of it. `bytes`: of all pieces up to it; `file`, `length`, `history`:
    what the replica had then, as `Held` has it; `writer`: the session that has written the piece; `line`: by which sessions
    pieces were read, where the store cannot decide between two."""

    chain: str = ""
    number: int = 0
    digest: str = ""
    bytes: int = 0
    file: str = ""
    length: int = 0
    history: int = 0
    writer: str = ""
    line: tuple[Claim, ...] = ()


def load_mark(directory: Path) -> Mark:
    """Return what is noted beside a replica; nothing where it cannot be read: the bytes that come are compared then."""
    try:
        found = json.loads(read_whole(LocalStorage(directory), MARK))
        return Mark(**{**found, "line": tuple(Claim(**one) for one in found["line"])})
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return Mark()


class StoreSource:
    """`opened`: opens the store; `of`: how people call it.

    Delivery: every transaction of the pieces, in order, once; readers of the replica see whole ones only."""

    passing: tuple[type[Exception], ...] = (SourceUnavailable, StorageFull)

    def __init__(
        self,
        directory: str | Path,
        name: str,
        opened: Callable[[], ObjectStore],
        *,
        of: str = "",
        longest_pause: float = LONGEST_PAUSE,
        longest_look: float = LONGEST_LOOK,
        give_up: float | None = None,
        limits: RetentionLimits = KEPT,
    ) -> None:
        self.directory, self.name, self.opened = Path(directory), name, opened
        self.longest_look, self.limits = longest_look, limits
        self._longest, self._give_up = longest_pause, give_up
        self.state = HopState(name, str(directory), pid=os.getpid())
        self.of, self.was_there = of, False
        self._noted = 0.0

    def run(self, stop: Callable[[], bool], *, until_caught_up: bool = False) -> None:
        """Take pieces in until `stop` says so, or, with `until_caught_up`, until the replica has all that are there.

        Raises StateError for another trail's store or replica, TrailCorrupt for a piece that is missing or is not what was
        written, TrailError, SourceUnavailable where the store is away for longer than `give_up` seconds (None: for ever)."""
        pause, since = FIRST_PAUSE, time.monotonic()
        while not stop():
            session = _Fetching(self, stop, until_caught_up)
            try:
                if session.run():
                    break
            except Stopped:
                break
            except self.passing as error:
                if session.was_welcome:
                    pause, since = FIRST_PAUSE, time.monotonic()
                self._lost(error, since)
            except AnabranchError as error:
                self.state.state, self.state.error = "stopped", error.message
                self.note()
                raise
            self.sleep(pause, stop)
            pause = min(self._longest, pause * 2)
        self.state.state = "stopped"
        self.note()

    def is_note_due(self) -> bool:
        return time.monotonic() - self._noted > NOTE

    def note(self) -> None:
        """Note how far it is."""
        self._noted, self.state.at = time.monotonic(), time.time()
        self.state.save(self.directory, FETCHED)

    def sleep(self, seconds: float, stop: Callable[[], bool]) -> None:
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0 and not stop():
            time.sleep(min(left, 0.1))

    def _lost(self, error: Exception, since: float) -> None:
        log.get().warning("hop_lost", store=self.of, reason=str(error))
        self.state.state, self.state.error = f"waiting: {error}", str(error)
        self.note()
        if self._give_up is not None and time.monotonic() - since > self._give_up:
            raise error


class _Fetching:
    """One try: takes pieces in until something is in the way."""

    def __init__(self, pump: StoreSource, stop: Callable[[], bool], until_caught_up: bool) -> None:
        self._pump, self._stop, self._until = pump, stop, until_caught_up
        self.was_welcome = False
        self._state = pump.state
        self._store: ObjectStore
        self._begun: Begun
        self._claims: Claims
        self._mark = load_mark(pump.directory)
        self._number, self._previous = 0, ""
        self._writer, self._acknowledged = "", -1
        self._written = Written()
        self._has_looked = False  # for the next piece, by the line of sessions as it is
        self._made_at = 0.0  # of the last piece that came

    def run(self) -> bool:
        """Take in what is there, and what comes. Returns whether all is there that was asked for, or `stop` was. Raises what
        may pass (`StoreSource.passing`), Stopped, StateError, TrailError."""
        try:
            self._store = self._pump.opened()
            try:
                return self._run()
            finally:
                self._store.close()
        except ConfigError as error:
            if not self._pump.was_there:
                raise
            raise SourceUnavailable(error.message, hint=error.hint) from error  # rights that were taken may come back

    def _run(self) -> bool:
        if not self._wait_for_the_trail():
            return True
        hops, pump = (*self._begun.hops, self._pump.name), self._pump
        with (
            TrailReplica.open(
                pump.directory, self._begun.identity, hops=hops, limits=pump.limits, lock_timeout=PATIENCE
            ) as replica,
            TakingIn(pump.directory, replica, hops, self._wait) as taking,
        ):
            self._start(taking)
            try:
                return self._fetch(taking)
            finally:
                self._state.acknowledged = taking.held.sequence

    def _wait_for_the_trail(self) -> bool:
        """Wait until a trail has begun in the store. Returns False if we are to stop before."""
        pause = FIRST_LOOK
        while not self._stop():
            if found := store_facts.begun(self._store):
                self._begun, self._pump.was_there = found, True
                return True
            self._state.state = f"waiting: no trail in {self._store.path()} yet"
            if self._pump.is_note_due():
                self._pump.note()
            self._pump.sleep(pause, self._stop)
            pause = min(self._pump.longest_look, pause * 2)
        return False

    def _start(self, taking: TakingIn) -> None:
        """Register with the store before anything is read, and go on behind the last piece that the replica has."""
        mark = self._mark
        is_behind = taking.is_behind(mark.file, mark.length, mark.history)  # an older replica was put in its place
        if mark.chain != self._begun.chain or is_behind:  # or one of the same trail: bytes are compared from the first
            self._mark = Mark(self._begun.chain, self._begun.first - 1)
            if self._begun.first > 1 and taking.is_empty:
                raise self._removed(self._begun.first - 1)
        self._number, self._previous = self._mark.number, self._mark.digest
        self._claims = Claims(self._store, self._begun.is_named)
        self._claims.refresh()
        self._go_back(self._mark.line)
        self._state.acknowledged, self._state.state = taking.held.sequence, "sending"
        if self._mark.number + 1 < self._begun.first:
            raise self._removed(self._mark.number + 1)
        self._acknowledge()
        self._refuse_removed()
        log.get().info("hop_begun", store=self._store.path(), piece=self._number, sequence=taking.held.sequence)
        reach("store.registered")

    def _refuse_removed(self) -> None:
        """Take our object away again, and refuse, if pieces went before it was seen: it would hold all later ones for ever."""
        found = store_facts.begun(self._store)
        if found and found.chain == self._begun.chain and found.first > self._mark.number + 1:
            self._store.delete(store_facts.reader_object(self._pump.name))
            raise self._removed(self._mark.number + 1)

    def _fetch(self, taking: TakingIn) -> bool:
        pause = FIRST_LOOK
        while not self._stop():
            piece = self._next()
            if piece:
                self._take(piece, taking)
                pause = FIRST_LOOK
            elif self._until and self._has_looked and self._number >= self._written.number:
                break
            self._turn()
            if not piece:
                self._pump.sleep(pause, self._stop)
                pause = min(self._pump.longest_look, pause * 2)
        self._show()
        return True

    # --- a piece ----------------------------------------------------------------------------------------------------

    def _next(self) -> PieceRead | None:
        """Return the next piece; None while it is not there. Raises TrailCorrupt for one that is missing or damaged, TrailError
        for one that was removed."""
        number, began = self._number + 1, time.monotonic()
        name = self._claims.name(number)
        where = self._store.path(name)
        try:
            data = self._store.read(name)
        except ObjectMissing:
            found = self._refuse_missing(number, name)
            if found is None:
                return None
            data = found
        try:
            piece = pieces.decode(data, number, where)
        except TrailCorrupt:
            piece = self._read_again(number, name)  # it may have been the way
        pieces.refuse_other(piece, self._begun.chain, self._previous or piece.head.previous, where)
        if number == 1 and piece.head.previous:
            pieces.refuse_other(piece, self._begun.chain, "", where)
        self._state.store["seconds"] = time.monotonic() - began
        self.was_welcome = True
        reach("store.read")
        return piece

    def _read_again(self, number: int, name: str) -> PieceRead:
        """Return a piece that came damaged. Raises TrailCorrupt where it is."""
        where = self._store.path(name)
        try:
            return pieces.decode(self._store.read(name), number, where)
        except ObjectMissing:
            raise pieces.missing(number, where, self._written.number) from None

    def _refuse_missing(self, number: int, name: str) -> bytes | None:
        """Return None if the piece is still to come; its bytes if it came just now. Raises as `_next` does."""
        self._written, line = store_facts.written(self._store), self._claims.line
        self._has_looked = not self._claims.refresh()
        if not self._has_looked:  # another session goes on, perhaps from an earlier piece, and has put the next one
            self._go_back(line)
            return None
        if self._written.number < number or (line and self._written.writer != line[-1].writer):
            return None
        try:
            return self._store.read(name)
        except ObjectMissing:
            begun = store_facts.begun(self._store)
            if begun and begun.first > number:
                raise self._removed(number) from None
            raise pieces.missing(number, self._store.path(name), self._written.number) from None

    def _go_back(self, line: tuple[Claim, ...]) -> None:
        """Go back to where a session goes on that has overtaken the one whose pieces were read, by `line`: what the replica has
        of those is compared with what comes."""
        to = self._claims.fork(line, self._number, self._begun.first)
        if to is None:
            return
        log.get().warning("store_writer_overtaken", store=self._pump.of, read=self._number, goes_on_behind=to.after)
        self._number, self._previous = to.after, to.previous
        if self._mark.number > to.after:
            owner = self._claims.owner(to.after)
            self._mark = replace(
                self._mark,
                number=to.after,
                digest=to.previous,
                writer=owner.writer if owner else "",
                line=self._claims.line,
            )

    def _removed(self, number: int) -> TrailError:
        what = f"piece {number} was removed from {self._store.path()}: every reader that was registered had it"
        return TrailError(f"{what}, {self._pump.name} was none of them, or had its object removed", hint=BEHIND)

    def _take(self, piece: PieceRead, taking: TakingIn) -> None:
        """Take a piece in, durably; note it once the replica has all of it."""
        head = piece.head
        try:
            is_whole = taking.take(piece, is_new_writer=head.writer != self._writer)
        except ProtocolError as error:
            where = self._store.path(self._claims.name(head.number))
            raise pieces.damaged(head.number, where, str(error)) from None
        reach("store.applied")
        self._number, self._previous, self._writer, self._made_at = head.number, piece.digest, head.writer, head.at
        if is_whole:
            held, size = head.held, head.bytes + piece.size
            self._mark = Mark(
                self._begun.chain, head.number, piece.digest, size, held.file, held.length, held.history, head.writer,
                self._claims.line,
            )  # fmt: skip
            with writing(MARK):
                LocalStorage(self._pump.directory).replace(MARK, to_json(asdict(self._mark)))
            reach("store.marked")
        self._see(head, piece, taking)

    def _see(self, head: Head, piece: PieceRead, taking: TakingIn) -> None:
        state = self._state
        state.state, state.error = "sending", ""
        state.bytes_sent += piece.size
        state.sent = state.acknowledged = taking.held.sequence
        state.published = max(state.published, head.published)

    # --- meanwhile --------------------------------------------------------------------------------------------------

    def _wait(self, reason: str) -> None:
        """Wait a moment because of something that is in the way here. Raises Stopped if we are to stop."""
        if self._stop():
            raise Stopped
        if self._state.state != reason:
            log.get().warning("hop_waiting", store=self._pump.of, reason=reason)
        self._state.state = reason
        self._pump.note()
        self._pump.sleep(0.5, self._stop)

    def _turn(self) -> None:
        """Note and acknowledge how far this is, from time to time."""
        if self._pump.is_note_due():
            self._written = store_facts.written(self._store)
            self._show()

    def _show(self) -> None:
        """Note how far this is, here and, where it has changed, in the store."""
        left = max(0, self._written.number - self._number)
        state = self._state
        state.lag = max(0.0, time.time() - self._made_at) if left and self._made_at else 0.0
        state.left = max(0, self._written.bytes - self._mark.bytes) if left else 0
        state.published = max(state.published, self._written.published)
        state.store |= {"last": max(self._number, self._written.number), "taken": self._number, "pieces": left}
        if self._acknowledged != self._mark.number:
            self._acknowledge()
        self._pump.note()

    def _acknowledge(self) -> None:
        """Tell who writes what the replica has durably."""
        state, mark = self._state, self._mark
        said = Acknowledged(
            self._pump.name, mark.number, state.acknowledged, mark.bytes, state.to, state.state, state.lag, time.time(),
            mark.writer,
        )  # fmt: skip
        store_facts.save(self._store, said)
        self._acknowledged = mark.number
        reach("store.acknowledged")
