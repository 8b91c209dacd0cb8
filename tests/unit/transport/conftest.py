"""What tests of the transport share: a trail that grows, receivers and routers in threads, ways with and without TLS."""

from __future__ import annotations

import gc
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from anabranch.trail.reader import TrailReader, chunks
from anabranch.trail.writer import TrailWriter
from anabranch.transport.link import Link
from anabranch.transport.pump import Pump
from anabranch.transport.receiver import Receiver
from anabranch.transport.router import Route, Router
from anabranch.transport.server import Server, listening
from anabranch.transport.tls import Allowed, Certificates, connected, context
from rigs import trail_source as samples

EVERYBODY = (Allowed("*"),)


@dataclass
class Node:
    """A receiver or router in a thread."""

    server: Server
    port: int
    ends: threading.Event
    thread: threading.Thread = field(init=False)
    failure: list[BaseException] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        try:
            self.server.run()
        except BaseException as error:  # noqa: BLE001  asked for at the end
            self.failure.append(error)

    def end(self) -> None:
        self.ends.set()
        self.thread.join(20)
        assert not self.thread.is_alive()


class Way:
    """Makes nodes on loopback addresses; all of them end with the test."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.nodes: list[Node] = []

    def receiver(
        self, name: str = "receiver", *, port: int = 0, tls: Certificates | None = None, **options: Any
    ) -> Node:
        ends = threading.Event()
        allowed = options.pop("allowed", EVERYBODY)
        receiver = Receiver(name, self.folder / name, stop=ends.is_set, **options)
        return self._node(receiver.serve, port, tls, allowed, ends)

    def router(
        self, name: str, to: int, *, port: int = 0, tls: Certificates | None = None, allowed: Any = EVERYBODY
    ) -> Node:
        ends = threading.Event()
        onward = context(tls, serves=False) if tls else None
        router = Router(name, [Route("*", "127.0.0.1", to, onward)], ends.is_set)
        return self._node(router.serve, port, tls, allowed, ends)

    def pump(
        self,
        to: int,
        *,
        trail: str = "shop",
        name: str = "pump",
        source: str = "a",
        tls: Certificates | None = None,
        **o: Any,
    ) -> Pump:
        secured = context(tls, serves=False) if tls else None

        def connect() -> Link:
            return Link(connected("127.0.0.1", to, secured), f"127.0.0.1:{to}")

        return Pump(self.folder / source, name, trail, connect, longest_pause=0.2, **o)

    def _node(self, serve: Any, port: int, tls: Certificates | None, allowed: Any, ends: threading.Event) -> Node:
        sockets = listening("127.0.0.1", port)
        secured = context(tls, serves=True) if tls else None
        node = Node(Server(sockets, secured, allowed, serve, ends.is_set), sockets[0].getsockname()[1], ends)
        self.nodes.append(node)
        return node


@pytest.fixture(autouse=True, scope="module")
def few_descriptors() -> None:
    """Close what former tests have left to the collector: links wait by `select`, which takes no descriptor above 1,023."""
    gc.collect()


@pytest.fixture
def way(tmp_path: Path) -> Iterator[Way]:
    made = Way(tmp_path)
    yield made
    for node in made.nodes:
        node.end()
        assert node.failure == []


@pytest.fixture
def running() -> Iterator[Callable[[Pump], threading.Event]]:
    """Run a pump in a thread until the event is set, at the latest at the test's end; errors are raised then."""
    started: list[tuple[threading.Thread, threading.Event, list[BaseException]]] = []

    def run(pump: Pump) -> threading.Event:
        ends, failures = threading.Event(), list[BaseException]()

        def body() -> None:
            try:
                pump.run(ends.is_set)
            except BaseException as error:  # noqa: BLE001  asked for at the end
                failures.append(error)

        thread = threading.Thread(target=body, daemon=True)
        thread.start()
        started.append((thread, ends, failures))
        return ends

    yield run
    for thread, ends, failures in started:
        ends.set()
        thread.join(20)
        assert not thread.is_alive() and failures == []


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[TrailWriter]:
    made = begun(tmp_path / "a")
    yield made
    made.close()


def begun(directory: Path, **options: Any) -> TrailWriter:
    options = {"segment_bytes": 40_000, "pack": False, **samples.JOB, **options}
    writer = TrailWriter.open(directory, **options)
    for table in (samples.ORDERS, samples.NOTES):
        if not writer.history.latest(table):
            writer.schema(samples.definition(table))
    writer.heartbeat(samples.mark(0))
    return writer


def write(writer: TrailWriter, count: int) -> None:
    for _ in range(count):
        n = writer.next_sequence
        for chunk in samples.large(n) if samples.is_large(n) else [samples.chunk(n, n)]:
            writer.append(chunk)
    writer.flush()


def rows(directory: Path) -> dict[int, Any]:
    with TrailReader(directory) as trail:
        assert trail.check().problems == []
        return samples.found_rows(list(chunks(trail, trail.first() - 1)))


def pair() -> tuple[Link, Link]:
    one, other = socket.socketpair()
    return Link(one, "one"), Link(other, "other")
