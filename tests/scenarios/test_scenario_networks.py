"""A database copied over networks that do not see each other: capture and pump in one, a router in a second, receiver and apply
in a third, all processes in namespaces of the kernel, over lines that delay, lose and cut packets.

The networks have TLS, as every address that is not this machine's own has to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from anabranch.testing.servers import Server
from anabranch.testing.workload import SCHEMA, Writer, fill
from anabranch.trail.reader import TrailReader, has_begun
from anabranch.transport import hop_state
from rigs import networks
from rigs.certificates import Authority
from rigs.hop_files import Process, pump_file, receive_file, route_file, url
from rigs.hops import Hops, hops
from rigs.networks import Network
from rigs.scenario import Running, Scenario, wait_until
from rigs.wire import Weather, Wire

Make = Callable[..., Scenario]
PORT = 7420  # each network has all ports for itself
DELAY, LOSS = 0.01, 0.03
PACKETS = 12  # that a short cut swallows
SOON, LATER = 120.0, 300.0


@dataclass
class Ways:
    """Three networks, `dmz` between the others; `outer` leads from the source's network to it, `inner` on to the target's."""

    source: Network
    dmz: Network
    target: Network
    outer: Wire
    inner: Wire

    @property
    def weathers(self) -> list[Weather]:
        return [one for wire in (self.outer, self.inner) for one in (wire.forth, wire.back)]


@pytest.fixture
def ways() -> Iterator[Ways]:
    if why := _missing():
        pytest.skip(f"networks of their own cannot be made here: {why}")
    with ExitStack() as ended:
        made = [Network(name) for name in ("source", "dmz", "target")]
        for one in made:
            ended.callback(one.close)
        outer, inner = Wire(made[0], made[1], 1, seed=11), Wire(made[1], made[2], 2, seed=12)
        ended.callback(outer.close)
        ended.callback(inner.close)
        yield Ways(*made, outer, inner)


@cache
def _missing() -> str:
    return networks.missing()


@dataclass
class Moved:
    """A way in two jobs, each in its network, and what moves the trail between them."""

    way: Hops
    pump: Process
    router: Process
    receiver: Process
    run: Running
    applied: Running

    def sync(self) -> None:
        """Everything committed up to now is at the target."""
        self.way.there.sync(self.applied, seconds=LATER)

    def hop(self) -> dict[str, Any]:
        return next(iter(hop_state.states(self.way.trail)), {})

    def published(self) -> int:
        with TrailReader(self.way.trail) as trail:
            return trail.end().position.sequence


@contextmanager
def moved(made: Scenario, ways: Ways, folder: Path) -> Iterator[Moved]:
    """Run the way until all tables stream. Each network has the server of its own site and no other one."""
    ways.source.open_door(made.source.server.port)
    ways.target.open_door(made.target.server.port)
    way = hops(made, trail=folder / "in" / "shop")
    way.here.prefix, way.there.prefix = ways.source.prefix, ways.target.prefix
    outer, inner = ways.outer.there, ways.inner.there
    authority = Authority(folder / "tls")
    tls = {name: authority.files(name, *at) for name, *at in (("hop",), ("dmz", outer), ("in", inner))}
    to_dmz = url(PORT, "shop", tls["hop"], outer)
    files = (
        ("run", pump_file(folder, way.trail, to_dmz), ways.source),
        ("route", route_file(folder, PORT, PORT, tls["dmz"], (outer, inner)), ways.dmz),
        ("receive", receive_file(folder, PORT, tls["in"], host=inner), ways.target),
    )
    moving = [Process(verb, file, folder=folder, prefix=at.prefix) for verb, file, at in files]
    with ExitStack() as ended:
        run, applied = way.start()
        wait_until(lambda: has_begun(way.trail), SOON, "the trail has begun", run.tail, run)
        for one in moving:
            one.start()
            ended.callback(one.end)
        way.there.wait_streaming(applied, seconds=LATER)
        yield Moved(way, *moving, run, applied)
        assert run.stop().code == applied.stop().code == 0


def assert_apart(made: Scenario, ways: Ways) -> None:
    """Neither outer network has a way to the other, nor to its database."""
    there, here = made.target.server.port, made.source.server.port
    assert ways.source.reaches("127.0.0.1", here) and ways.target.reaches("127.0.0.1", there)
    assert not ways.source.reaches("127.0.0.1", there) and not ways.target.reaches("127.0.0.1", here)
    assert ways.source.reaches(ways.outer.there, PORT) and ways.dmz.reaches(ways.inner.there, PORT)
    assert not ways.source.reaches(ways.inner.there, PORT)
    assert not any(ways.dmz.reaches("127.0.0.1", port) for port in (here, there))


def swallow(weather: Weather) -> None:
    """Cut a direction until some packets are lost on it; then let them pass again."""
    wanted = weather.lost + PACKETS
    weather.is_cut = True
    wait_until(lambda: weather.lost >= wanted, SOON, "packets that get lost")
    weather.is_cut = False


@pytest.mark.quick
def test_a_database_crosses_lines_that_delay_and_lose_packets(
    mariadb: Server, scenario: Make, ways: Ways, tmp_path: Path
) -> None:
    """The router is killed, and each direction of the inner line is cut for some packets, while the source is written to."""
    for one in ways.weathers:
        one.delay, one.loss = DELAY, LOSS
    made = scenario(mariadb, *SCHEMA, *fill(5))
    with moved(made, ways, tmp_path) as way:
        assert_apart(made, ways)
        with Writer(made.source, seed=3, rate=50):
            way.sync()
            for direction in (ways.inner.forth, ways.inner.back):
                swallow(direction)
                way.sync()
            way.router.kill()
            wait_until(lambda: str(way.hop().get("state")).startswith("waiting"), SOON, "the pump sees it")
            way.router.start()
            way.sync()
        way.sync()
        made.assert_identical()
    assert all(one.lost for one in ways.weathers)


@pytest.mark.quick
@pytest.mark.long
@pytest.mark.parametrize("direction", ["forth", "back"])
def test_a_line_that_is_cut_in_one_direction_is_noticed_and_begun_anew(
    mariadb: Server, scenario: Make, ways: Ways, tmp_path: Path, direction: str
) -> None:
    """Cut in one direction, TCP sees no end of a connection. The pump does, by silence; the source's trail grows meanwhile; and
    once the line is whole, all of it comes through, once."""
    made = scenario(mariadb, *SCHEMA, *fill(5))
    weather: Weather = getattr(ways.inner, direction)
    with moved(made, ways, tmp_path) as way:
        with Writer(made.source, seed=5, rate=50):
            way.sync()
            before = way.published()
            weather.is_cut = True
            wait_until(lambda: str(way.hop().get("state")).startswith("waiting"), LATER, "the pump notices the silence")
            wait_until(lambda: way.published() > before + PACKETS, SOON, "capture goes on")
            weather.is_cut = False
            way.sync()
        way.sync()
        made.assert_identical()
    assert weather.lost
