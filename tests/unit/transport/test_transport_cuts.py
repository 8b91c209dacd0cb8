"""The protocol under cuts at any byte, and peers that say anything."""

from __future__ import annotations

import select
import socket
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anabranch.transport.bandwidth import Hours, Limiter
from anabranch.transport.link import LinkLost
from anabranch.transport.messages import (
    BODY_LIMIT,
    FIRST_LIMIT,
    PREFIX,
    Decoder,
    Kind,
    Message,
    ProtocolError,
    decoded,
    encode,
)
from rigs import trail_source as samples
from unit.transport.conftest import Way, begun, pair, rows, write

BODIES = st.one_of(st.binary(max_size=2000), st.integers(0, 3000).map(lambda n: b"ab" * n))


@given(st.lists(st.tuples(BODIES, st.booleans()), max_size=8), st.lists(st.integers(1, 700), max_size=40))
def test_messages_come_out_as_they_went_in_however_they_are_cut(sent: list[Any], cuts: list[int]) -> None:
    stream = b"".join(encode(Kind.SEGMENT, {"n": n}, body, compress=c) for n, (body, c) in enumerate(sent))
    decoder, found, at = Decoder(BODY_LIMIT), [], 0
    for length in [*cuts, len(stream)]:
        decoder.feed(stream[at : at + length])
        at += length
        while (message := decoder.next()) is not None:
            found.append((message.head["n"], bytes(message.body)))
    assert found == [(n, body) for n, (body, _) in enumerate(sent)] and decoder.waiting == 0


@given(st.binary(max_size=300))
def test_bytes_that_are_no_messages_are_refused_or_waited_for(data: bytes) -> None:
    decoder = Decoder()
    decoder.feed(data)
    try:
        while decoder.next() is not None:
            pass
    except ProtocolError:
        return
    assert decoder.waiting <= len(data)


@given(st.integers(0, 200), st.integers(1, 255))
def test_a_message_with_another_byte_is_one_or_is_refused(at: int, other: int) -> None:
    data = bytearray(encode(Kind.SEGMENT, {"name": "x", "offset": 5}, b"abc" * 400, compress=True))
    data[at % len(data)] ^= other
    decoder = Decoder(BODY_LIMIT)
    decoder.feed(bytes(data))
    try:
        found = decoder.next()
    except ProtocolError:
        return
    assert found is None or isinstance(found, Message)


def test_what_is_announced_is_compared_with_the_limits_before_it_is_kept() -> None:
    for head, body, raw in ((FIRST_LIMIT + 1, 0, 0), (0, FIRST_LIMIT + 1, 0), (0, 0, BODY_LIMIT + 1)):
        decoder = Decoder()
        decoder.feed(PREFIX.pack(b"\xabH", Kind.HELLO, 0, head, body, raw))
        with pytest.raises(ProtocolError, match="is announced"):
            decoder.next()
    with pytest.raises(ProtocolError, match="kind 99"):
        decoded(PREFIX.pack(b"\xabH", 99, 0, 2, 0, 0) + b"{}")
    assert decoded(PREFIX.pack(b"\xabH", 200, 0, 2, 0, 0) + b"{}").kind == 200  # of a later release: passed over
    with pytest.raises(ProtocolError):
        decoded(PREFIX.pack(b"\xabH", 1, 0, 6, 0, 0) + b"[" * 6)


def _readable(*sockets: socket.socket) -> list[socket.socket]:
    """Return those that have something within a moment. A process of many tests has more descriptors than `select` takes."""
    poll = select.poll()
    for one in sockets:
        poll.register(one, select.POLLIN)
    ready = {handle for handle, _ in poll.poll(50)}
    return [one for one in sockets if one.fileno() in ready]


class CuttingProxy:
    """Passes connections on, and cuts the n-th one after so many bytes of the way there."""

    def __init__(self, port: int, cuts: list[int]) -> None:
        self.to, self.cuts = port, list(cuts)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.ends = False
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        while not self.ends:
            if not _readable(self.listener):
                continue
            here, _ = self.listener.accept()
            # Either side may reset its connection; the listener has to live on, or who connects waits without an end.
            with suppress(OSError), here, socket.create_connection(("127.0.0.1", self.to)) as there:
                self._pass(here, there, self.cuts.pop(0) if self.cuts else None)

    def _pass(self, here: socket.socket, there: socket.socket, left: int | None) -> None:
        while not self.ends:
            for one in _readable(here, there):
                data = one.recv(65536 if one is there or left is None else min(65536, left))
                if not data:
                    return
                (there if one is here else here).sendall(data)
                if one is here and left is not None:
                    left -= len(data)
                    if left <= 0:
                        return

    def end(self) -> None:
        self.ends = True
        self.thread.join(10)
        self.listener.close()


@settings(max_examples=12, deadline=None)
@given(st.lists(st.integers(1, 60_000), max_size=5), st.booleans())
def test_a_line_that_is_cut_at_any_byte_leaves_a_beginning_and_then_all(cuts: list[int], compress: bool) -> None:
    with tempfile.TemporaryDirectory() as folder:
        way = Way(Path(folder))
        writer = begun(Path(folder, "a"), segment_bytes=9_000)
        write(writer, 70)
        proxy = CuttingProxy(way.receiver().port, cuts)
        try:
            way.pump(proxy.port, compress=compress).run(lambda: False, until_caught_up=True)
            found = rows(Path(folder, "receiver", "shop"))
        finally:
            proxy.end()
            writer.close()
            for node in way.nodes:
                node.end()
        assert found == samples.expected_rows(1, 70, with_large=True)


@pytest.mark.parametrize(
    ("kind", "head"),
    [
        (Kind.SEGMENT, {"name": "../../x", "offset": 0}),
        (Kind.SEGMENT, {"name": "00000001-0001-1.segment", "offset": -1}),
        (Kind.SEGMENT, {"name": "00000009-0001-900.segment", "offset": 5}),
        (Kind.SEGMENT, {}),
        (Kind.HISTORY, {"offset": 10**30}),
        (Kind.FILE, {"name": "trail.json", "size": 1, "offset": 0}),
        (Kind.FILE, {"name": "load/t/x.arrow", "size": 1, "offset": 1}),
        (Kind.OFFER, {"files": [[1, 2, 3]]}),
        (Kind.OFFER, {"files": ["x"] * 5000}),
        (Kind.IDENTITY, {"identity": {"job": "x"}}),
        (Kind.SYNC, {"number": "x"}),
        (Kind.WELCOME, {}),
        (Kind.ACK, {"number": 1, "held": {}}),
    ],
)
def test_a_hostile_pump_ends_its_own_connection_and_nothing_else(way, tmp_path, kind, head) -> None:
    receiver = way.receiver()
    link = way.pump(receiver.port)._connect()
    link.trust()
    link.say(Kind.HELLO, {"version": 1, "trail": "shop", "hops": [], "identity": {**samples.JOB, "format": 2}})
    assert (answer := link.receive(10)) and answer.kind == Kind.WELCOME
    link.say(kind, head, b"x")
    with pytest.raises(LinkLost):
        while (answer := link.receive(10)) is None or answer.kind == Kind.REFUSED:
            continue
        raise AssertionError(answer)
    link.close()
    assert {path.name for path in (tmp_path / "receiver").iterdir()} == {"shop"} and not receiver.failure
    writer = begun(tmp_path / "a")
    write(writer, 3)
    way.pump(receiver.port).run(lambda: False, until_caught_up=True)
    writer.close()


def test_a_link_that_says_nothing_is_noticed() -> None:
    one, other = pair()
    one.silence = 0.1
    time.sleep(0.15)
    with pytest.raises(LinkLost, match="has not answered for"):
        one.receive(5)
    with pytest.raises(LinkLost):
        one.send(b"x" * 50_000_000)
    other.close()


def test_what_came_before_an_end_is_taken_first() -> None:
    """One look reads on until nothing more has come, and may meet the end behind the last message."""
    one, other = pair()
    other.trust()
    body = bytes(40_000)
    for number in range(3):
        one.say(Kind.SYNC, {"number": number}, body)
    one.close()
    found = [other.receive(1.0) for _ in range(3)]
    told = [message and (message.head["number"], len(message.body)) for message in found]
    assert told == [(number, len(body)) for number in range(3)]
    for _ in range(2):
        with pytest.raises(LinkLost, match="has ended the connection"):
            other.receive(1.0)


def test_limits_by_the_hour() -> None:
    now, of_day = [100.0], [time.struct_time((2026, 1, 1, 7, 59, 0, 0, 1, 0))]
    hours = (Hours(8 * 60, 18 * 60, 1000.0), Hours(22 * 60, 6 * 60, None))
    limiter = Limiter(50.0, hours, clock=lambda: now[0], of_day=lambda: of_day[0])
    assert limiter.limit() == 50
    of_day[0] = time.struct_time((2026, 1, 1, 8, 0, 0, 0, 1, 0))
    limiter.spend(1500)
    assert limiter.limit() == 1000 and limiter.pause() == 0.5
    now[0] += 1.4
    assert limiter.pause() == pytest.approx(0.1)
    of_day[0] = time.struct_time((2026, 1, 1, 5, 0, 0, 0, 1, 0))
    assert limiter.limit() is None and limiter.pause() == 0.0
