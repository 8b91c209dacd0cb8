"""The demo's story of a DMZ: a shop goes through capture, pump, router, receiver and apply while it is written to, and the
router is killed in the middle.

The commands are those that a user would type. What does not live here: servers and the directory (run.py), the files of the
five processes (sites.py), the summary (moving_summary.py).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from anabranch.demo.following import first_interrupt
from anabranch.demo.latency import LatencyWatch
from anabranch.demo.moving_summary import Cut, MovedSummary
from anabranch.demo.shop import End, schema_at
from anabranch.demo.sites import BOTH, IN, Running, Sites, started
from anabranch.demo.writer import WORKERS, Writer
from anabranch.errors import NotCaughtUp
from anabranch.job.caughtup import Progress
from anabranch.job.hopping import PumpJob
from anabranch.job.signals import Request
from anabranch.testing.databases import Database
from anabranch.trail.reader import has_begun

Say = Callable[..., None]
PATIENCE = 400.0
CUT_SECONDS = 5.0
CLOSE_SECONDS = 1.0  # who sees a transaction within that time has caught up
HALF = 20.0  # seconds before the cut of a demo without an end
TICK, LOOK = 0.1, 0.02


@dataclass
class Moving:
    """The processes that have to live, and what is looked at."""

    sites: Sites
    writer: Writer
    progress: Progress
    running: list[Running] = field(default_factory=list)

    def check(self) -> None:
        """Raise what ended the writer or a process."""
        self.writer.check()
        for one in self.running:
            one.check()

    def wait(self, is_so: Callable[[], object], what: str, tick: float = TICK) -> None:
        """Wait until it is so. Raises NotCaughtUp after PATIENCE, DemoFailed where a process has ended."""
        deadline = time.monotonic() + PATIENCE
        while not is_so():
            if time.monotonic() > deadline:
                raise NotCaughtUp(
                    f"not within {PATIENCE:.0f} seconds: {what}",
                    hint="this machine may be too slow for the writer: anabranch demo --scenario dmz --rate 50",
                )
            self.check()
            time.sleep(tick)

    def pause(self, seconds: float, interrupted: Request) -> None:
        """Let so many seconds pass, fewer after Ctrl-C."""
        until = time.monotonic() + seconds
        while time.monotonic() < until and not interrupted.wait(TICK):
            self.check()

    def hop(self) -> Mapping[str, Any]:
        """Return what the pump says of the way, as `anabranch status` does."""
        found: Mapping[str, Any] = PumpJob(self.sites.pump.file).status()["hop"] or {}
        return found


def across_a_dmz(
    directory: Path,
    source: End,
    target: End,
    java: Mapping[str, str],
    seconds: float | None,
    rate: float,
    say: Say,
) -> MovedSummary:
    """Tell the story between two ends, the source with the shop, the target empty, in `directory`. `seconds`: of streaming, the
    cut in the middle; None: until Ctrl-C. Raises what the writer or a command ended with."""
    sites = Sites.write(directory, source, target, java)
    say("certificates are made for pump, router and receiver; the three networks are directories:", *sites.map(), "")
    begun = time.monotonic()
    with Writer(source.database, rate) as writer, ExitStack() as stack:
        moving = Moving(sites, writer, Progress(sites.applying.job()))
        router = _start(moving, stack, say)
        _load(moving, say)
        loaded = time.monotonic() - begun
        first, second = (HALF, float("inf")) if seconds is None else (seconds / 2, seconds / 2)
        with first_interrupt() as interrupted:
            with LatencyWatch(target.database, WORKERS) as watch:
                moving.wait(lambda: watch.caught_up_after is not None, "the target is within a second of the shop")
                watch.check()
                watch.begin_steady()
                moving.pause(first, interrupted)
            legs = [(str(name), float(leg)) for name, leg in moving.hop().get("legs", ())]
            say(*(f"  {name}: {1000 * leg:.1f} ms there and back" for name, leg in legs))
            cut = _cut(moving, router, (source, target), say)
            moving.pause(second, interrupted)
        totals = writer.stop()
        _drain(moving, (source, target))
        say("the writer has stopped, and everything it committed has come through")
        status = sites.applying.answer("status")
        for one in moving.running:
            one.stop()
    say("", f"anabranch verify {BOTH}/{IN}.toml, at a place that reaches both databases")
    verification = sites.both.verify()
    lost = len(_ledger(source.database) - _ledger(target.database))
    return MovedSummary(status, verification, totals, watch.latencies, legs, cut, loaded, lost)


def _start(moving: Moving, stack: ExitStack, say: Say) -> Running:
    """Start all processes; return the router."""
    sites = moving.sites
    stack.enter_context(started([sites.capture, sites.apply], moving.running))
    moving.wait(lambda: has_begun(sites.trail), "capture has begun the trail")
    found = stack.enter_context(started([sites.receiver, sites.router, sites.pump], moving.running))
    say("the five run; the shop is written to meanwhile", f"  their logs: {sites.router.log.parent.parent}/*/*.log", "")
    return found[1]


def _load(moving: Moving, say: Say) -> None:
    def is_there() -> bool:
        moving.progress.refresh()
        return moving.progress.is_streaming and moving.progress.is_built

    moving.wait(is_there, "the shop is loaded through the trail, and complete")
    say("the shop is loaded: its rows went through the trail, over both hops")


def _cut(moving: Moving, router: Running, ends: tuple[End, End], say: Say) -> Cut:
    """Kill the router, and start it again; return what came of it."""
    say("", "the router is killed (SIGKILL): the line between both networks is cut")
    watched, moving.running = moving.running, [one for one in moving.running if one is not router]
    router.kill()
    killed = time.monotonic()
    moving.wait(lambda: str(moving.hop().get("state", "")).startswith("waiting"), "the pump has noticed the cut")
    moving.pause(CUT_SECONDS, Request())
    newest = _newest(ends[0].database)
    waiting = newest - _newest(ends[1].database)
    router.start_anew()
    moving.running, back = watched, time.monotonic()
    say(f"  after {back - killed:.1f} s it is started anew; {waiting:,} transactions have waited in the source's trail")
    moving.wait(lambda: _newest(ends[1].database) >= newest, "what waited has come through", LOOK)
    moving.wait(lambda: _is_close(*ends), "the target is within a second of the shop again", LOOK)
    caught_up = time.monotonic() - back
    say(f"  {caught_up:.1f} s later the target is within a second of the shop again", "")
    return Cut(back - killed, waiting, caught_up)


def _is_close(source: End, target: End) -> bool:
    """Return whether what is written now is visible within CLOSE_SECONDS."""
    wanted, until = _newest(source.database), time.monotonic() + CLOSE_SECONDS
    while _newest(target.database) < wanted:
        if time.monotonic() > until:
            return False
        time.sleep(LOOK)
    return True


def _drain(moving: Moving, ends: tuple[End, End]) -> None:
    source, target = (end.database for end in ends)
    wanted = _ledger(source)
    moving.wait(lambda: wanted <= _ledger(target), "everything that was committed is at the target")
    durable = int(moving.hop().get("published", 0))
    moving.wait(lambda: int(moving.hop().get("acknowledged", 0)) >= durable, "all is on the receiver's disk")


def _newest(database: Database) -> int:
    """Return how many transactions all writers together have in the ledger."""
    query = f"SELECT coalesce(sum(number), 0) FROM {_LAST.format(schema_at(database.server.name))} AS newest"
    return int(database.query(query)[0][0])


def _ledger(database: Database) -> set[tuple[int, int]]:
    found = database.query(f"SELECT writer, number FROM {schema_at(database.server.name)}.ledger")
    return {(int(writer), int(number)) for writer, number in found}


_LAST = "(SELECT max(number) AS number FROM {}.ledger GROUP BY writer)"
