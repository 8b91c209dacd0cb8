"""One peer, whatever it says, ends its own connection: the receiver and its other peers go on."""

from __future__ import annotations

import socket
import threading
import time
from typing import Any

import pytest

from anabranch.errors import StateError, TrailError
from anabranch.trail.failures import SYNC_FAILED
from anabranch.transport import server as servers
from anabranch.transport.link import LinkLost
from anabranch.transport.messages import PREFIX, Kind, ProtocolError, decoded
from anabranch.transport.pump import Pump
from anabranch.transport.server import Server
from rigs import trail_source as samples
from rigs.certificates import Authority
from unit.transport.conftest import EVERYBODY, begun, pair, write

IDENTITY = {**samples.JOB, "format": 2}
HELLO: dict[str, Any] = {"version": 1, "trail": "shop", "hops": [], "identity": IDENTITY}
HELD = {
    "file": "", "length": 0, "first": "", "last": [0, ""], "sequence": 0, "published": 0, "history": 0, "history_sum": 0
}  # fmt: skip
NESTED: list[Any] = []
for _ in range(400):
    NESTED = [NESTED]


def until_lost(link: Any) -> None:
    with pytest.raises(LinkLost):
        while (answer := link.receive(10)) is None or answer.kind in (Kind.REFUSED, Kind.WELCOME):
            continue
        raise AssertionError(answer)
    link.close()


@pytest.mark.parametrize(
    "said",
    [
        [(Kind.HELLO, HELLO | {"hops": ["\ud800"]})],
        [(Kind.HELLO, HELLO | {"identity": IDENTITY | {"job": "\udfff"}})],
        [(Kind.HELLO, HELLO), (Kind.SEGMENT, {"name": f"{1 << 64}-0001-1.segment", "offset": 0})],
        [(Kind.HELLO, HELLO), (Kind.SEGMENT, {"name": f"00000001-0001-{1 << 63}.segment", "offset": 0})],
        [(Kind.HELLO, HELLO), (Kind.IDENTITY, {"identity": IDENTITY | {"job_uuid": "another"}})],
        [(Kind.HELLO, HELLO), (Kind.SYNC, {"number": NESTED})],
    ],
)
@pytest.mark.parametrize("over", ["receiver", "router"])
def test_a_hostile_greeting_or_message_ends_one_connection(way, tmp_path, said, over) -> None:
    receiver = way.receiver()
    first = receiver if over == "receiver" else way.router("router", receiver.port)
    link = way.pump(first.port)._connect()
    link.trust()
    for kind, head in said:
        link.say(kind, head, b"x")
    until_lost(link)
    assert not receiver.server.failure and not first.server.failure
    writer = begun(tmp_path / "a")
    write(writer, 3)
    way.pump(first.port).run(lambda: False, until_caught_up=True)
    writer.close()


def test_half_a_character_is_refused_and_a_whole_one_is_not() -> None:
    def head(text: bytes) -> dict[str, Any]:
        return decoded(PREFIX.pack(b"\xabH", Kind.HELLO, 0, len(text), 0, 0) + text).head

    for text in (b'{"a":"\\ud800"}', b'{"a":"\xed\xa0\x80"}', b'{"\\udc00":1}'):
        with pytest.raises(ProtocolError, match="no JSON"):
            head(text)
    assert head(b'{"a":"\\ud83d\\ude00"}') == head('{"a":"\U0001f600"}'.encode()) == {"a": "\U0001f600"}


class _Served:
    """A server whose connections raise an error."""

    def __init__(self, error: BaseException) -> None:
        self.error = error
        self.server = Server([], None, EVERYBODY, self._serve, lambda: True)

    def _serve(self, _: Any) -> None:
        raise self.error

    def failure(self) -> BaseException | None:
        here, there = pair()
        here.say(Kind.HELLO, HELLO)
        self.server.have(there.sock, "x")
        here.close()
        return self.server.failure


def test_only_a_failed_fsync_ends_the_process() -> None:
    for error in (ValueError("x"), RecursionError(), StateError("x"), TrailError("damage", hint="x"), LinkLost("x")):
        assert _Served(error).failure() is None
    for error in (TrailError(f"{SYNC_FAILED} x failed", hint="x"), KeyboardInterrupt()):
        assert _Served(error).failure() is error


@pytest.mark.parametrize(
    ("kind", "head"),
    [
        (Kind.PONG, {"number": [], "hops": [["x", 0.0]]}),
        (Kind.PONG, {"number": 1, "hops": [["x", 10**400]]}),
        (Kind.WELCOME, {"held": HELD | {"last": [-1, ""]}}),
        (Kind.WELCOME, {"held": HELD | {"last": [1 << 80, ""]}}),
        (Kind.WELCOME, {"held": HELD | {"file": f"{1 << 80}-0001-1.segment"}}),
    ],
)
@pytest.mark.parametrize("over", ["receiver", "router"])
def test_a_wrong_next_hop_is_left_and_tried_again(way, writer, kind, head, over) -> None:
    """The next hop answers nonsense once; whoever sends connects again, and gets all over."""
    wrong = _Wrong(kind, {"version": 1, "hops": ["x"]} | head)
    receiver = way.receiver()
    write(writer, 5)
    server = way._node(lambda caller: wrong.serve(caller, receiver), 0, None, EVERYBODY, threading.Event())
    first = server if over == "receiver" else way.router("router", server.port)
    pump: Pump = way.pump(first.port)
    pump.run(lambda: False, until_caught_up=True)
    assert wrong.was and pump.state.acknowledged == 5


class _Wrong:
    """Says something once, and is a receiver from then on."""

    def __init__(self, kind: Kind, head: dict[str, Any]) -> None:
        self.kind, self.head, self.was = kind, head, False

    def serve(self, caller: Any, receiver: Any) -> None:
        if self.was:
            receiver.server.serve(caller)
            return
        self.was = True
        if self.kind != Kind.WELCOME:
            caller.link.say(Kind.WELCOME, {"version": 1, "hops": ["x"], "held": HELD})
        caller.link.say(self.kind, self.head)
        while caller.link.receive(0.5) is not None:
            if self.kind == Kind.PONG:
                caller.link.say(Kind.WAITING, {"reason": "x"})


@pytest.mark.parametrize("secured", [False, True])
def test_strangers_that_say_nothing_keep_nobody_out(way, writer, tmp_path, monkeypatch, secured) -> None:
    """All places are taken by connections that say nothing: the oldest one makes room for who comes."""
    monkeypatch.setattr(servers, "CONNECTIONS", 3)
    tls = Authority(tmp_path / "ca").files("everybody") if secured else None
    receiver = way.receiver(tls=tls)
    write(writer, 5)
    silent = [socket.create_connection(("127.0.0.1", receiver.port)) for _ in range(3)]
    until = time.monotonic() + 20
    while len(receiver.server._strangers) < 3:
        assert time.monotonic() < until
        time.sleep(0.01)
    pump = way.pump(receiver.port, tls=tls, give_up=0)
    pump.run(lambda: False, until_caught_up=True)
    assert pump.state.acknowledged == 5
    silent[0].settimeout(10)
    assert silent[0].recv(1) == b""
    for one in silent:
        one.close()
