"""The pump: sends a trail to the next hop, and lets the trail go when the next store says that it has it, durably.

It is registered with the trail as a copy under `pump NAME`, before it sends anything; what was acknowledged moves that
registration on. After any cut it begins where the replica is. A way that is gone is tried again with growing pauses; the
trail grows meanwhile, and whoever writes it does not notice.
"""

from __future__ import annotations

import math
import os
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, Protocol

from anabranch import log, pace
from anabranch.errors import (
    AnabranchError,
    SourceUnavailable,
    StateError,
    StorageFull,
    TargetError,
    TargetUnavailable,
    TrailError,
)
from anabranch.failpoints import reach
from anabranch.trail import checks, load_answers, load_readers, retention
from anabranch.trail.format import SegmentName
from anabranch.trail.identity import Identity
from anabranch.trail.outgoing import HistoryPiece, Outgoing, Piece, SegmentPiece
from anabranch.trail.replica import Held, hops_of
from anabranch.trail.replica_files import LoadFile, facts_of, load_files, turn_of
from anabranch.trail.storage import LocalStorage
from anabranch.transport.asked import asked_for, questioned
from anabranch.transport.bandwidth import Limiter
from anabranch.transport.hop_state import HopState
from anabranch.transport.lag import Lag
from anabranch.transport.link import BEAT, Link, LinkLost
from anabranch.transport.messages import OPTIONAL, VERSION, Kind, Message, ProtocolError
from anabranch.transport.names import reader_name

FIRST_PAUSE, LONGEST_PAUSE = 0.2, 10.0  # seconds between two tries
GREETING = 40.0  # seconds for an answer over several hops, each of which may have to connect
SYNC_BYTES = 32 << 20  # so many are sent at most before the receiver is asked to make them durable
SYNCS = 2  # asked for at once: while one is carried out, more comes
LOOK, LOOK_IDLE, IDLE = 0.003, 0.02, 1.0  # seconds between two looks at the trail, also once it was quiet for so long
NOTE = 1.0
FILES = 500  # of a load, offered at once
FILE_PIECE, FILE_TURN = 256 * 1024, 4 << 20  # bytes of load files in a message, and between two looks at the trail
LEG = 1e9  # seconds; nothing takes so long
FARTHEST = 1 << 62  # numbers of a place are below


def go_on_behind(directory: Path, name: str, outgoing: Outgoing, held: Held) -> None:
    """Go on behind what the replica has, and register that: going back before anything is read, else only once it is seen
    that the replica is of this trail, for until then what is registered keeps what it may need. Raises what `start` does."""
    reader, behind = reader_name(name), outgoing.behind(held)
    known = retention.readers(directory).get(reader)
    is_kept = known is not None and known.kind == retention.COPY and known.sequence < behind
    if not is_kept:
        retention.register_copy(directory, reader, behind)
    if not held.sequence:
        load_readers.forget(directory, reader)  # a replica that is new has no file of a load
    outgoing.start(held)
    if is_kept:
        retention.register_copy(directory, reader, behind)


def note_loads(directory: Path, name: str, manifests: Iterable[LoadFile]) -> None:
    """Note the loads of these manifests as durable at the next store, with all their files: these may go here."""
    storage, found = LocalStorage(directory), dict[str, int]()
    for file in manifests:
        if (data := facts_of(storage, file)) is not None:  # else another one is there, which comes, too
            with suppress(ValueError):
                table, load = load_readers.copied_load(data)
                found[table] = load
    load_readers.note_copied(directory, reader_name(name), found)


class Session(Protocol):
    """One try of a pump. `was_welcome`: the other side was there, so that the next try comes soon."""

    was_welcome: bool

    def run(self) -> bool:
        """Send until something is in the way, which is raised. Returns whether all was sent that was asked for, or the pump was
        asked to stop."""


class Pump:
    """`name`: of the pump, for registration and hops; `trail`: what the trail is called at the next hop; `connect`: opens a
    connection, raises LinkLost.

    Delivery: every transaction of the trail, in order, once: the replica says from where on."""

    passing: tuple[type[Exception], ...] = (LinkLost, ProtocolError, SourceUnavailable, FileNotFoundError)
    """Errors behind which the pump tries again, since they may pass by themselves."""

    def __init__(
        self,
        directory: str | Path,
        name: str,
        trail: str,
        connect: Callable[[], Link],
        *,
        to: str = "",
        limiter: Limiter | None = None,
        compress: bool = False,
        longest_pause: float = LONGEST_PAUSE,
        give_up: float | None = None,
    ) -> None:
        self.directory, self.name, self.trail = Path(directory), name, trail
        self._connect, self._limiter, self._compress = connect, limiter or Limiter(), compress
        self._longest, self._give_up = longest_pause, give_up
        self.state = HopState(name, to or trail, pid=os.getpid())
        self.lag, self.held = Lag(), Held()  # kept over sessions: what waits goes on to wait while the next hop is away
        self._noted = 0.0

    def run(self, stop: Callable[[], bool], *, until_caught_up: bool = False) -> None:
        """Send until `stop` says so, or, with `until_caught_up`, until all that is published is durable at the next store.

        Raises TargetError where the next hop refuses the trail, StateError where its replica is not of this trail, TrailError,
        TargetUnavailable where the way is gone for longer than `give_up` seconds (None: it is tried for ever),
        SourceUnavailable where the trail's published end is older than its files for as long."""
        pause, since = FIRST_PAUSE, time.monotonic()
        with Outgoing(self.directory) as outgoing:
            self._register(outgoing)
            while not stop():
                session = self._session(outgoing, stop, until_caught_up)
                try:
                    if session.run():
                        return
                except self.passing as error:
                    if stop():  # a file that is not found was packed or dropped since the look
                        break
                    if session.was_welcome:
                        pause, since = FIRST_PAUSE, time.monotonic()
                    self._lost(error, since, outgoing)
                except AnabranchError as error:
                    self.state.state, self.state.error = "stopped", error.message
                    self.note()
                    raise
                self._sleep(pause, stop, outgoing)
                pause = min(self._longest, pause * 2)
        self.state.state = "stopped"
        self.note()

    def is_note_due(self) -> bool:
        return time.monotonic() - self._noted > NOTE

    def see(self, sequence: int) -> None:
        """Take in that the trail is published up to there."""
        self.state.published = sequence
        self.lag.see(sequence)

    def note(self) -> None:
        """Note how far it is."""
        self.state.lag = self.lag.seconds()
        self._noted, self.state.at = time.monotonic(), time.time()
        self.state.save(self.directory)

    def _session(self, outgoing: Outgoing, stop: Callable[[], bool], until_caught_up: bool) -> Session:
        return _Session(self, outgoing, stop, until_caught_up)

    def _register(self, outgoing: Outgoing) -> None:
        if reader_name(self.name) not in retention.readers(self.directory):
            retention.register_copy(self.directory, reader_name(self.name), outgoing.first() - 1)
            reach("pump.registered")
        self.lag.acknowledge(retention.readers(self.directory)[reader_name(self.name)].sequence)

    def _lost(self, error: Exception, since: float, outgoing: Outgoing) -> None:
        log.get().warning("hop_lost", trail=self.trail, reason=str(error))
        self.state.state, self.state.error = f"waiting: {error}", str(error)
        self._note_waiting(outgoing)
        if self._give_up is not None and time.monotonic() - since > self._give_up:
            if isinstance(error, SourceUnavailable):
                raise error
            raise TargetUnavailable(str(error), hint="check the next hop and the way to it") from error

    def _sleep(self, seconds: float, stop: Callable[[], bool], outgoing: Outgoing) -> None:
        """Wait, and note meanwhile how much waits with us."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0 and not stop():
            if self.is_note_due():
                self._note_waiting(outgoing)
            time.sleep(min(left, 0.1))

    def _note_waiting(self, outgoing: Outgoing) -> None:
        """Note how much of the trail waits while the next hop is away."""
        with suppress(AnabranchError, OSError):  # the next session meets it, and says it
            self.see(outgoing.record().sequence)
            self.state.left = outgoing.bytes_left(self.held)
        self.note()


def _held(message: Message) -> Held:
    """Return what the other side says that it has. Raises ProtocolError for what nobody can have."""
    try:
        held = Held.from_json(message.head.get("held"))
    except ValueError as error:
        raise ProtocolError(str(error)) from None
    name = SegmentName.parse(held.file)
    if max(held.last[0], *((name.number, name.next) if name else (0,))) >= FARTHEST or held.last[0] < 0:
        raise ProtocolError("what it says that it has is no place of a trail")
    return held


class _Session:
    """One connection of a pump."""

    def __init__(self, pump: Pump, outgoing: Outgoing, stop: Callable[[], bool], until_caught_up: bool) -> None:
        self._pump, self._outgoing, self._stop, self._until = pump, outgoing, stop, until_caught_up
        self._state = pump.state
        self.was_welcome = False
        self._link: Link
        self._syncs = self._acked = 0
        self._unsynced = 0
        self._pinged, self._pings, self._asked = 0.0, 0, dict[int, float]()
        self._looked, self._offered = -math.inf, dict[str, LoadFile]()
        self._torn = set[str]()  # folders of which something is not as it was offered
        self._manifests = dict[str, LoadFile]()  # offered, and the trail does not know yet that they are there
        self._files_asked: int | None = None  # the acknowledgement that has all files which were offered
        self._offers: deque[list[LoadFile]] = deque()
        self._wanted: deque[LoadFile] = deque()
        self._said: Identity | None = None

    def run(self) -> bool:
        """Send until the connection ends. Returns whether all was sent that was asked for, or `stop` was. Raises LinkLost,
        ProtocolError, TargetError, StateError, TrailError."""
        self._link = self._pump._connect()
        self._link.stop = self._stop
        try:
            self._greet()
            version, quiet = -1, time.monotonic()
            while not self._stop():
                record = self._outgoing.record()
                if record.version != version:
                    version, quiet = record.version, time.monotonic()
                    self._pump.see(record.sequence)
                    self._tell_identity()
                    if not all(map(self._send, self._outgoing.pieces())):
                        break
                    self._state.sent = record.sequence
                self._send_files()
                self._sync()
                if self._until and self._is_done(record.sequence):
                    return True
                is_idle = time.monotonic() - quiet > IDLE
                self._turn(0.0 if self._wanted else LOOK_IDLE if is_idle else LOOK)
            return self._finish()
        except LinkLost:
            self._refused_last()
            raise
        finally:
            self._link.close()

    # --- greeting ---------------------------------------------------------------------------------------------------

    def _greet(self) -> None:
        pump, identity = self._pump, self._outgoing.identity
        hops = [*(hops_of(LocalStorage(pump.directory)) or ()), pump.name]
        head = {"version": VERSION, "trail": pump.trail, "identity": asdict(identity), "hops": hops}
        self._said = identity
        self._link.say(Kind.HELLO, head)
        self._link.silence, usual = GREETING, self._link.silence
        answer = self._link.receive(GREETING, self._stop)
        self._link.silence = usual
        if answer is None:
            raise LinkLost(f"{self._link.peer} has not answered the greeting")
        if answer.kind == Kind.REFUSED:
            self._refused(answer)
        if answer.kind != Kind.WELCOME:
            raise ProtocolError(f"{self._link.peer} answers with a message of kind {answer.kind}")
        held = _held(answer)
        self._link.trust()
        go_on_behind(pump.directory, pump.name, self._outgoing, held)
        self.was_welcome = True
        self._state.state, self._state.error = "sending", ""
        self._state.acknowledged, self._pump.held = held.sequence, held
        self._pump.lag.acknowledge(held.sequence)
        log.get().info("hop_begun", trail=pump.trail, to=self._link.peer, sequence=held.sequence)
        reach("pump.welcome")

    def _refused(self, answer: Message) -> None:
        message = f"{self._link.peer} refuses the trail {self._pump.trail!r}: {answer.head.get('message')}"
        if answer.head.get("retry") is True:
            raise LinkLost(message)
        raise TargetError(message[:2000], hint=str(answer.head.get("hint", ""))[:1000])

    def _refused_last(self) -> None:
        """Raise what the other side has said before its end."""
        try:
            while (message := self._link.decoder.next()) is not None:
                if message.kind == Kind.REFUSED:
                    self._refused(message)
                self._hear(message)
        except ProtocolError:
            return

    # --- sending ----------------------------------------------------------------------------------------------------

    def _send(self, piece: Piece) -> bool:
        """Send a piece. Returns False if we are to stop: the next session sends it, and what follows."""
        if isinstance(piece, HistoryPiece):
            said = self._say(Kind.HISTORY, {"offset": piece.offset, "anew": piece.is_anew}, piece.data)
        else:
            assert isinstance(piece, SegmentPiece)
            said = self._say(Kind.SEGMENT, {"name": str(piece.name), "offset": piece.offset}, piece.data)
        if self._unsynced > SYNC_BYTES:
            self._sync()
        return said

    def _say(self, kind: Kind, head: dict[str, Any], body: bytes = b"") -> bool:
        """Send a message as soon as the limit of bytes a second lets it; hear what comes meanwhile. Returns False, and has not
        sent it, if we are to stop."""
        while not (is_asked := self._stop()) and (pause := self._pump._limiter.pause()):
            self._turn(pause)
        if is_asked:
            return False
        count = self._link.say(kind, head, body, compress=self._pump._compress)
        self._pump._limiter.spend(count)
        self._state.bytes_sent += count
        self._unsynced += len(body) or 1
        reach("pump.sent")
        self._turn(0.0)
        return True

    def _sync(self) -> None:
        """Ask for an acknowledgement of what was sent, unless enough were asked for."""
        if self._unsynced and self._syncs - self._acked < SYNCS:
            self._syncs, self._unsynced = self._syncs + 1, 0
            self._link.say(Kind.SYNC, {"number": self._syncs})

    def _tell_identity(self) -> None:
        identity = self._outgoing.identity
        if identity != self._said:
            self._said = identity
            self._link.say(Kind.IDENTITY, {"identity": asdict(identity)})

    def _send_files(self) -> None:
        """Offer files of a load that are new, and send some of those that the other side has not got."""
        if time.monotonic() - self._looked > pace.current.hop_look and not self._offers and not self._wanted:
            self._look()
        sent = 0
        while self._wanted and sent < FILE_TURN and not self._stop():
            sent += self._send_file(self._wanted.popleft())
        self._state.files_left = len(self._wanted) + sum(map(len, self._offers))
        if self._manifests and not self._wanted and not self._offers and self._files_asked is None:
            self._files_asked = self._syncs + bool(self._unsynced)
        self._note_files()

    def _note_files(self) -> None:
        """Note the loads that the other side has, once it has acknowledged all that was sent: their files may go here."""
        if self._files_asked is None or self._acked < self._files_asked:
            return
        note_loads(self._pump.directory, self._pump.name, self._manifests.values())
        self._manifests, self._files_asked = {}, None

    def _look(self) -> bool:
        """Offer files of a load that are new, or others than they were; return whether there are any."""
        self._looked = time.monotonic()
        self._torn.clear()
        files = load_files(LocalStorage(self._pump.directory))
        found = [one for one in files if self._offered.get(one.name) != one]
        for at in range(0, len(found), FILES):
            self._offer(found[at : at + FILES])
        return bool(found)

    def _offer(self, files: list[LoadFile]) -> None:
        self._offered.update((one.name, one) for one in files)
        self._manifests |= {one.name: one for one in files if one.name.endswith(f"/{load_readers.MANIFEST}")}
        self._offers.append(files)
        self._link.say(Kind.OFFER, {"files": [[one.name, one.size, one.sum] for one in files]})

    def _send_file(self, file: LoadFile) -> int:
        """Send a file; return its bytes. What is not as it was offered any more is not sent: the next look finds it as it is
        then, with the files that it names. A manifest is not sent either where a file before it is gone."""
        storage = LocalStorage(self._pump.directory)
        if file.sum:
            folder = os.path.dirname(file.name) + "/"
            is_torn = turn_of(file.name) > 0 and any(one.startswith(folder) for one in self._torn)
            facts = None if is_torn else facts_of(storage, file)
            if facts is None:
                self._forget(file)
                return 1
            return self._send_bytes(file, lambda at, length: facts[at : at + length])
        try:
            readable = storage.open(file.name)
        except FileNotFoundError:  # the load was begun anew
            self._forget(file)
            return 1
        try:
            return self._send_bytes(file, readable.read)
        finally:
            readable.close()

    def _forget(self, file: LoadFile) -> None:
        """Offer it again at the next look, if it is there then."""
        self._torn.add(os.path.dirname(file.name) + "/")
        self._manifests.pop(file.name, None)
        self._offered.pop(file.name, None)

    def _send_bytes(self, file: LoadFile, read: Callable[[int, int], bytes]) -> int:
        at = 0
        while at < file.size or not at:
            data = read(at, min(FILE_PIECE, file.size - at))
            if not data and file.size:
                raise TrailError(f"{file.name} has become shorter", hint="load the table again")
            if not self._say(Kind.FILE, {"name": file.name, "size": file.size, "offset": at}, data):
                break
            at += max(len(data), 1)
        return at

    # --- hearing ----------------------------------------------------------------------------------------------------

    def _turn(self, seconds: float) -> None:
        """Hear what has come, for `seconds` at most until there is something; show that we are alive; note how far we are."""
        now = time.monotonic()
        if now - self._pinged > BEAT:
            self._pinged, self._pings = now, self._pings + 1
            self._asked[self._pings] = now
            self._link.say(Kind.PING, {"number": self._pings})
        self._link.take_some()
        for message in self._messages(seconds):
            self._hear(message)
        self._link.refuse_silence()
        if self._pump.is_note_due():
            self._state.left = self._outgoing.bytes_left(self._pump.held)
            self._pump.note()

    def _messages(self, seconds: float) -> Iterator[Message]:
        found = self._link.receive(seconds, self._stop) if seconds else self._link.decoder.next()
        while found is not None:
            yield found
            found = self._link.decoder.next()

    def _hear(self, message: Message) -> None:
        match message.kind:
            case Kind.ACK:
                self._acknowledged(message)
            case Kind.WANT:
                self._want(message.head.get("files"))
            case Kind.PONG:
                self._ponged(message.head)
            case Kind.WAITING:
                self._state.state = f"waiting: {str(message.head.get('reason'))[:300]} at {self._link.peer}"
                self._pump.note()
            case Kind.REFUSED:
                self._refused(message)
            case Kind.ASKED:
                for request in asked_for(message.head):
                    with suppress(StorageFull, TrailError):  # it comes again
                        load_answers.pass_on(Path(self._pump.directory), request)
            case Kind.CHECK:
                with suppress(StorageFull, TrailError):  # it comes again
                    checks.pass_on(Path(self._pump.directory), questioned(message.head))
            case kind if kind < OPTIONAL:
                raise ProtocolError(f"a message of kind {kind} is not for a pump")

    def _acknowledged(self, message: Message) -> None:
        held = _held(message)
        head = message.head
        if head.get("number") != self._acked + 1 or self._acked + 1 > self._syncs:
            raise ProtocolError("an acknowledgement of what was not asked for")
        if held.sequence > self._outgoing.record().sequence:
            raise StateError(
                "the next hop acknowledges transactions that were not sent", hint="look at who answers there"
            )
        self._acked += 1
        reach("pump.acknowledged")
        retention.advance(self._pump.directory, reader_name(self._pump.name), held.sequence)
        self._state.acknowledged, self._state.state = held.sequence, "sending"
        behind = head.get("behind")
        self._state.behind = [one for one in behind if isinstance(one, dict)] if isinstance(behind, list) else []
        self._pump.lag.acknowledge(held.sequence)
        self._pump.held = held

    def _want(self, places: object) -> None:
        if not self._offers or not isinstance(places, list):
            raise ProtocolError("files are asked for that were not offered")
        offered = self._offers.popleft()
        if not all(type(one) is int and 0 <= one < len(offered) for one in places):
            raise ProtocolError("files are asked for that were not offered")
        self._wanted.extend(offered[one] for one in places)

    def _ponged(self, head: dict[str, Any]) -> None:
        """Note how long each leg of the way takes: the answer names the hops from the far end on, with their own times."""
        number, hops = head.get("number"), head.get("hops")
        asked = self._asked.pop(number, None) if type(number) is int else None
        if asked is None or not isinstance(hops, list):
            return
        legs, whole = [], time.monotonic() - asked
        for one in reversed(hops[:64]):
            is_leg = isinstance(one, list) and len(one) == 2 and isinstance(one[1], int | float)
            if not is_leg or not 0 <= one[1] < LEG:
                raise ProtocolError("an answer without hops")
            legs.append((str(one[0])[:100], max(0.0, whole - one[1])))
            whole = float(one[1])
        self._state.legs = legs

    def _is_done(self, sequence: int) -> bool:
        """Return whether all is there, also of the files: what was written since the last look at them is offered now."""
        is_all = self._state.acknowledged >= sequence and self._acked == self._syncs and not self._unsynced
        return is_all and not self._offers and not self._wanted and not self._look()

    def _finish(self) -> bool:
        """Wait a moment for what was sent to be acknowledged."""
        until = time.monotonic() + 3.0
        self._sync()
        while self._acked < self._syncs and time.monotonic() < until:
            message = self._link.receive(0.1)
            if message:
                self._hear(message)
        return True
