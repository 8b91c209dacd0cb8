"""The receiver: writes the trails that reach it, each into a replica below one directory.

What was acknowledged is durable. A disk without room is waited for: nothing is taken meanwhile, and who sends is told. A peer
that comes again for the same trail takes the place of its former connection, of which the other half may be dead.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from anabranch import log, pace
from anabranch.errors import AnabranchError, StateError, StorageFull, TrailCorrupt, TrailError, TrailLocked
from anabranch.trail import checks, load_answers
from anabranch.trail.checks import Question
from anabranch.trail.failures import is_sync_failure
from anabranch.trail.format import SegmentName
from anabranch.trail.identity import Identity
from anabranch.trail.replica import KEPT, TrailReplica
from anabranch.trail.replica_files import LoadFile, LoadFilesCopy
from anabranch.trail.requests import Request
from anabranch.trail.retention import RetentionLimits
from anabranch.transport.asked import AT_ONCE as ASKED_AT_ONCE
from anabranch.transport.asked import as_message, is_short
from anabranch.transport.hop_state import behind
from anabranch.transport.link import Link, LinkLost
from anabranch.transport.messages import OPTIONAL, VERSION, Kind, Message, ProtocolError
from anabranch.transport.server import Caller, Refused, refusal

PATIENCE = 10.0  # seconds for a former connection of the same trail to end
FULL_PAUSE = 0.5
ROOM_EVERY = 4 << 20  # bytes between two looks at the room on the disk
NUMBERS = 1 << 62  # of peers are below
QUESTIONS_AT_ONCE = 10  # about rows, each as long as the names of a table's columns


class Receiver:
    """`name`: what who sends is told; `min_free`: bytes of the disk that stay free."""

    def __init__(
        self,
        name: str,
        directory: Path,
        *,
        min_free: int = 0,
        limits: RetentionLimits = KEPT,
        stop: Callable[[], bool] = lambda: False,
    ) -> None:
        self.name, self.directory = name, directory
        self.min_free, self.limits, self.stop = min_free, limits, stop
        self._links: dict[str, Link] = {}
        self._turn = threading.Condition()

    def serve(self, caller: Caller) -> None:
        """Take one trail until its connection ends. Raises Refused, LinkLost, ProtocolError, TrailError for a failed fsync."""
        self._take_over(caller)
        try:
            _Reception(self, caller).run()
        finally:
            with self._turn:
                if self._links.get(caller.trail) is caller.link:
                    del self._links[caller.trail]
                self._turn.notify_all()

    def _take_over(self, caller: Caller) -> None:
        """Be the only connection of a trail."""
        with self._turn:
            if former := self._links.get(caller.trail):
                former.cut()
                if not self._turn.wait_for(lambda: caller.trail not in self._links, PATIENCE):
                    why = f"another connection writes the trail {caller.trail}"
                    raise Refused("busy", why, is_passing=True)
            self._links[caller.trail] = caller.link


class _Reception:
    def __init__(self, receiver: Receiver, caller: Caller) -> None:
        self._receiver, self._caller, self._link = receiver, caller, caller.link
        self._path = receiver.directory / caller.trail
        self._offered: list[LoadFile] = []
        self._room_looked = 0
        self._asks_at, self._asked = 0.0, frozenset[str]()
        self._warned: dict[str, str] = {}
        self._replica = self._opened()
        self._files = LoadFilesCopy(self._path)

    def run(self) -> None:
        log.get().info("hop_begun", trail=self._caller.trail, peer=self._caller.peer, hops=list(self._caller.hops))
        try:
            head = {"version": VERSION, "hops": [self._receiver.name], "held": self._replica.held.to_json()}
            self._link.say(Kind.WELCOME, head)
            while not self._receiver.stop():
                if message := self._link.receive(min(1.0, pace.current.hop_asked), self._receiver.stop):
                    self._take(message)
                if time.monotonic() >= self._asks_at:
                    self._ask(again=False)
        except (StateError, TrailError) as error:
            if isinstance(error, TrailError) and is_sync_failure(error):
                raise
            passing = not isinstance(error, StateError)
            raise refusal(error, is_passing=passing) from error
        finally:
            self._files.close()
            self._replica.close()

    def _opened(self) -> TrailReplica:
        hops = (*self._caller.hops, self._receiver.name)
        try:
            identity = _identity(self._caller.head.get("identity"))
            return TrailReplica.open(
                self._path, identity, hops=hops, limits=self._receiver.limits, lock_timeout=PATIENCE
            )
        except (TrailLocked, StorageFull) as error:
            raise refusal(error, is_passing=True) from error
        except (StateError, TrailError) as error:
            if isinstance(error, TrailError) and is_sync_failure(error):
                raise
            raise refusal(error) from error

    def _take(self, message: Message) -> None:
        head, body = message.head, message.body
        match message.kind:
            case Kind.SEGMENT:
                name, offset = _segment(head), _number(head, "offset")
                self._room(len(body))
                self._patiently(lambda: self._replica.append(name, offset, body))
            case Kind.HISTORY:
                offset, is_anew = _number(head, "offset"), head.get("anew") is True
                self._patiently(lambda: self._replica.add_history(offset, bytes(body), is_anew=is_anew))
            case Kind.SYNC:
                held = self._patiently(self._replica.flush)
                self._link.say(
                    Kind.ACK, {"number": _number(head, "number"), "held": held.to_json(), "behind": behind(self._path)}
                )
            case Kind.OFFER:
                self._offered = [_file(one) for one in _list(head, "files")]
                wanted = [place for place, one in enumerate(self._offered) if self._files.is_wanted(one)]
                self._link.say(Kind.WANT, {"files": wanted})
            case Kind.FILE:
                file, offset = _file([head.get("name"), head.get("size"), 0]), _number(head, "offset")
                self._room(len(body))
                self._patiently(lambda: self._files.add(file.name, file.size, offset, body))
            case Kind.IDENTITY:
                identity = _identity(head.get("identity"))
                self._patiently(lambda: self._replica.identify(identity))
            case Kind.PING:
                self._link.say(Kind.PONG, {"number": _number(head, "number"), "hops": [[self._receiver.name, 0.0]]})
                self._ask()
            case kind if kind < OPTIONAL:
                raise ProtocolError(f"a message of kind {kind} is not for a receiver")

    def _ask(self, *, again: bool = True) -> None:
        """Pass on what is asked for here, until the answers have come: loads, and questions about rows. Without `again`
        only what the former look has not found."""
        self._asks_at = time.monotonic() + pace.current.hop_asked
        loads, questions = self._loads(), self._questions()
        former = self._asked
        self._asked = frozenset([*(one.id for one in loads), *(one.id for one in questions)])
        known = frozenset[str]() if again else former
        if said := [[str(one.table), one.id, one.asked] for one in loads if one.id not in known]:
            self._link.say(Kind.ASKED, {"loads": said})
        for question in questions:
            if question.id not in known:
                self._link.say(Kind.CHECK, as_message(question))

    def _loads(self) -> list[Request]:
        try:
            found = load_answers.settle(self._path)[:ASKED_AT_ONCE]
        except (StorageFull, TrailCorrupt) as error:
            self._warn("loads_not_asked_for", error)
            return []
        self._warned.pop("loads_not_asked_for", None)
        return found

    def _questions(self) -> list[Question]:
        try:
            found = [one for one in checks.pending(self._path)[:QUESTIONS_AT_ONCE] if is_short(one)]
        except TrailCorrupt as error:
            self._warn("rows_not_asked_about", error)
            return []
        self._warned.pop("rows_not_asked_about", None)
        return found

    def _warn(self, event: str, error: AnabranchError) -> None:
        """Tell of it once: the next look finds the same."""
        if self._warned.get(event) != error.message:
            self._warned[event] = error.message
            log.get().warning(event, trail=self._caller.trail, reason=error.message)

    def _patiently(self, do: Callable[[], Any]) -> Any:
        """Do something that needs room on the disk; wait for that as long as it takes."""
        while True:
            try:
                return do()
            except StorageFull as error:
                self._wait(f"disk full: {error.message}")

    def _room(self, count: int) -> None:
        """Wait while the disk has less room than is to stay free."""
        self._room_looked -= count
        while self._receiver.min_free and self._room_looked <= 0:
            found = os.statvfs(self._path)
            if found.f_bavail * found.f_frsize >= self._receiver.min_free + count:
                self._room_looked = ROOM_EVERY
                return
            self._wait(f"disk full: less than {self._receiver.min_free} bytes are free")

    def _wait(self, reason: str) -> None:
        if self._receiver.stop():
            raise LinkLost("this side ends")
        log.get().warning("hop_waiting", trail=self._caller.trail, reason=reason)
        self._link.say(Kind.WAITING, {"reason": reason})
        time.sleep(FULL_PAUSE)
        self._link.heard = time.monotonic()  # it was us who did not listen


def _identity(found: object) -> Identity:
    """Return what a peer says of its trail. Raises ProtocolError."""
    if not isinstance(found, dict):
        raise ProtocolError("the trail has no identity")
    texts = [found.get(key) for key in ("job", "job_uuid", "source_identity")]
    version, cascades = found.get("format"), found.get("logs_cascades")
    if (
        not all(isinstance(one, str) and 0 < len(one) < 1000 for one in texts)
        or type(version) is not int
        or version < 1
    ):
        raise ProtocolError("the identity of the trail says nothing usable")
    if cascades not in (True, False, None):
        raise ProtocolError("the identity of the trail says nothing usable")
    return Identity(str(texts[0]), str(texts[1]), str(texts[2]), version, cascades)


def _segment(head: dict[str, Any]) -> SegmentName:
    name = SegmentName.parse(head["name"]) if isinstance(head.get("name"), str) and len(head["name"]) < 200 else None
    if name is None:
        raise ProtocolError("a segment without a name of one")
    if max(name.number, name.epoch, name.next, name.fragments) >= NUMBERS:
        raise ProtocolError("a segment with numbers that no trail has")
    return name


def _number(head: dict[str, Any], key: str) -> int:
    found = head.get(key)
    if type(found) is not int or not 0 <= found < NUMBERS:
        raise ProtocolError(f"{key!r} of a message is no number")
    return found


def _list(head: dict[str, Any], key: str) -> list[Any]:
    found = head.get(key)
    if not isinstance(found, list) or len(found) > 2000:
        raise ProtocolError(f"{key!r} of a message is no list")
    return found


def _file(found: object) -> LoadFile:
    if not (isinstance(found, list) and len(found) == 3 and isinstance(found[0], str)):
        raise ProtocolError("a file of a load without name and size")
    if not all(type(one) is int and 0 <= one < NUMBERS for one in found[1:]):
        raise ProtocolError("a file of a load without name and size")
    return LoadFile(*found)
