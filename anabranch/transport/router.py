"""The router: passes trails on, message by message, to the next hop. It stores nothing and answers for nothing.

What a message holds is not looked at, but for two that are about the way: the greetings, to which it adds its name, and the
answers to PING, to which it adds how long the rest of the way takes. What who sends is told of durability comes from the
receiver. So a router that dies has nothing to lose.
"""

from __future__ import annotations

import ssl
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from anabranch import log
from anabranch.transport.link import SILENCE, Link, LinkLost
from anabranch.transport.messages import VERSION, Kind, ProtocolError, decoded, encode, kind_of
from anabranch.transport.ready import ready
from anabranch.transport.server import Caller, Refused
from anabranch.transport.tls import connected

HELD = 2 << 20  # bytes that wait for the other side; more is not taken
LOOK = 0.25
PINGS = 64


@dataclass(frozen=True, slots=True)
class Route:
    """Trails whose names fit the glob go to an address, without TLS only on this machine."""

    trail: str
    host: str
    port: int
    tls: ssl.SSLContext | None

    @property
    def to(self) -> str:
        return f"{self.host}:{self.port}"


class Router:
    """`name`: what both sides are told."""

    def __init__(self, name: str, routes: Sequence[Route], stop: Callable[[], bool] = lambda: False) -> None:
        self.name, self.routes, self.stop = name, routes, stop

    def serve(self, caller: Caller) -> None:
        """Pass one trail on until one of both sides ends. Raises Refused, LinkLost, ProtocolError."""
        route = next((one for one in self.routes if fnmatchcase(caller.trail, one.trail)), None)
        if route is None:
            why = f"the router {self.name} knows no way for the trail {caller.trail!r}"
            raise Refused("no_route", why, "name one in [[routes]] of its file")
        if self.name in caller.hops:
            raise Refused(
                "loop", f"the trail {caller.trail!r} has passed the router {self.name} before", "look for a circle"
            )
        try:
            onward = Link(connected(route.host, route.port, route.tls), route.to)
        except LinkLost as error:
            raise Refused("hop_away", f"router {self.name}: {error}", is_passing=True) from None
        try:
            onward.trust()
            head = caller.head | {"version": VERSION, "hops": [*caller.hops, self.name]}
            onward.say(Kind.HELLO, head)
            log.get().info("hop_begun", trail=caller.trail, peer=caller.peer, to=route.to)
            _Relay(self.name, caller.link, onward, self.stop).run()
        finally:
            onward.close()


class _Side:
    """One direction: what came from `source` and waits for `target`."""

    def __init__(self, source: Link, target: Link) -> None:
        self.source, self.target = source, target
        self.waiting: deque[memoryview] = deque()
        self.size = 0
        self.is_reading = True

    def put(self, frame: bytes) -> None:
        self.waiting.append(memoryview(frame))
        self.size += len(frame)

    def take(self) -> int:
        """Take what has come, unless too much waits. Whoever is not listened to for so long has not been silent."""
        was_reading, self.is_reading = self.is_reading, self.size < HELD
        if self.is_reading and not was_reading:
            self.source.heard = time.monotonic()
        return self.source.take_some() if self.is_reading else 0

    def is_silent(self) -> bool:
        return self.is_reading and bool(self.source.silence) and time.monotonic() - self.source.heard > 2 * SILENCE

    def write(self) -> bool:
        """Write what there is room for; return whether anything went."""
        moved = False
        while self.waiting and (count := self.target.write_some(self.waiting[0])):
            moved, self.size = True, self.size - count
            rest = self.waiting.popleft()[count:]
            if rest:
                self.waiting.appendleft(rest)
        return moved


class _Relay:
    def __init__(self, name: str, back: Link, onward: Link, stop: Callable[[], bool]) -> None:
        self._name, self._stop = name, stop
        self._there, self._here = _Side(back, onward), _Side(onward, back)
        self._asked: dict[int, float] = {}

    def run(self) -> None:
        """Move messages in both directions. What the receiver said last is passed on even if its connection is gone."""
        sides = (self._there, self._here)
        while not self._stop():
            try:
                moved = [self._move(one) for one in sides]
            except LinkLost:
                self._say_last()
                raise
            if not any(moved):
                self._wait()
                for one in sides:
                    if one.is_silent():
                        raise LinkLost(f"{one.source.peer} has said nothing for {2 * SILENCE:.0f} s")

    def _move(self, side: _Side) -> bool:
        taken = side.take()
        while (frame := side.source.decoder.frame()) is not None:
            side.put(self._seen(side, frame))
        return bool(taken) | side.write()

    def _seen(self, side: _Side, frame: bytes) -> bytes:
        """Return what is passed on for a message."""
        kind = kind_of(frame)
        if side is self._there and kind == Kind.PING:
            number = decoded(frame).head.get("number")
            if isinstance(number, int):
                self._asked[number] = time.monotonic()
                while len(self._asked) > PINGS:
                    del self._asked[next(iter(self._asked))]
        if side is self._here and kind in (Kind.PONG, Kind.WELCOME):
            head = decoded(frame).head
            hops = head.get("hops")
            if not isinstance(hops, list) or len(hops) > PINGS:
                raise ProtocolError("an answer without hops")
            if kind == Kind.WELCOME:
                return encode(Kind.WELCOME, head | {"hops": [*hops, self._name]})
            number = head.get("number")
            asked = self._asked.pop(number, None) if type(number) is int else None
            if asked is not None:
                return encode(Kind.PONG, head | {"hops": [*hops, [self._name, time.monotonic() - asked]]})
        return frame

    def _wait(self) -> None:
        there, here = self._there, self._here
        reads = [one.source.sock for one in (there, here) if one.size < HELD]
        writes = [one.target.sock for one in (there, here) if one.waiting]
        if any(isinstance(sock, ssl.SSLSocket) and sock.pending() for sock in reads):
            return
        try:
            ready(reads, writes, LOOK)
        except (OSError, ValueError) as error:
            raise LinkLost(str(error)) from None

    def _say_last(self) -> None:
        """Pass on what the receiver has said before its end, such as why it refuses the trail."""
        until = time.monotonic() + 1.0
        try:
            while (frame := self._here.source.decoder.frame()) is not None:
                self._here.put(self._seen(self._here, frame))
            while self._here.waiting and time.monotonic() < until:
                if not self._here.write():
                    self._here.target.wait(0.1, for_writing=True)
        except (LinkLost, ProtocolError):
            return
