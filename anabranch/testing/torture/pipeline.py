"""A job under torture without Spark: its processes, its faults, and whether they explain what happens to it.

A thread watches: it begins and ends faults, and starts again what they ended. What does not live here: which faults
(faults_plan.py), the processes themselves (parts.py), the history and its check.
"""

from __future__ import annotations

import contextlib
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace

from anabranch.errors import AnabranchError
from anabranch.failpoints import LOG_VARIABLE, VARIABLE
from anabranch.job.signals import SUPERVISED
from anabranch.model.ids import TableId
from anabranch.model.table_life import TableState
from anabranch.testing.faults import Proxy
from anabranch.testing.torture import bound, passing
from anabranch.testing.torture.bare import is_any
from anabranch.testing.torture.beside import TABLE, Beside
from anabranch.testing.torture.contract import SECOND, Fault, PipelineFailed, is_apart
from anabranch.testing.torture.deeds import (
    CONFLICT,
    PARK,
    POLICY,
    SET_ASIDE,
    SETTINGS,
    Deed,
    Deeds,
    Doing,
    Refusing,
    draw_deed,
)
from anabranch.testing.torture.emptying import draw_emptying
from anabranch.testing.torture.exempt import ASIDE, INTRUDER, Noted
from anabranch.testing.torture.explain import ON_LINES, ON_SERVERS, explains
from anabranch.testing.torture.growing import SETTING
from anabranch.testing.torture.history import History
from anabranch.testing.torture.intruder import Intruding
from anabranch.testing.torture.local import CLOCK, Small
from anabranch.testing.torture.parts import OF_TWO, PARTS, STOPPED, Ended, Parts, Running
from anabranch.testing.torture.place import Looking, Place, until
from anabranch.testing.torture.second import Holding, draw_hold, draw_sizes
from anabranch.testing.torture.setting_aside import SettingAside
from anabranch.testing.torture.sources import source_family
from anabranch.testing.torture.targets import empties_at_once, family_at, tables_at
from anabranch.testing.torture.waiting import AT_FAILPOINTS, Waiting, asked

WATCH_SECONDS = 0.005
SLOW_SECONDS = 0.02  # per block
TWO_PHASE = 0.2  # of the histories
LOADING = ("load.begun", "load.generation", "load.snapshot")  # before tables are read, and between two chunks
BEGINNING = ("", "changes.made", "first.read")  # the same at a target that keeps changes
WITHOUT_ROWS = ("", "changes.made", "changes.known")  # and that begins without the rows that are there
PACKED = (45_000, 60_000)  # bytes of segments that are packed when they are sealed
PACK_SECONDS = 3.0
LOG_IMAGES = (0, 0, 1, 3)  # of a chunk of PostgreSQL's log: large transactions come in fragments
AFTER_SECONDS = 30.0  # in which a process may still end because of a line or a server that was away
EARLY_SECONDS = 3.0  # for a deed that comes before what is behind the load; a fault may keep it from that
AGAIN_SECONDS = 0.1  # before a part is started again whose end was away

Restart = Callable[[str, bool], None]
"""Restart the server of an end, losing its last commits or not."""


@dataclass
class _Begun:
    """A fault that happened: from, to (None: not yet over)."""

    fault: Fault
    since: float
    until: float | None = None
    pid: int = 0  # of the process that it ended, where it is one
    disturbed: int = 0  # of the line's Proxy before it
    is_felt: bool = True  # did it do anything?


@dataclass
class LocalPipeline(Waiting):
    """Capture, load and apply as forked processes (contract.Pipeline). `seed` draws what is not a fault: sizes, the mode of
    apply, what is held back of a second target. `restart` is needed for faults that concern servers; `history` for deeds that
    are about single rows."""

    place: Place
    faults: Sequence[Fault] = ()
    seed: int = 0
    restart: Restart | None = None
    history: History | None = None
    _begun: list[_Begun] = field(default_factory=list, init=False)
    _open: list[Fault] = field(default_factory=list, init=False)
    _committed: int = field(default=-1, init=False)
    _is_stopping: bool = field(default=False, init=False)
    _is_consistent: bool = field(default=False, init=False)
    _is_caught_up: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        drawn = random.Random(self.seed)
        self._stack, self._proxies = ExitStack(), dict[str, Proxy]()
        self._loses = any(fault.kind == "lose" for fault in self.faults)
        packs = any(fault.where.startswith("trail.pack") for fault in self.faults)
        keeps = family_at(self.place.target).keeps_changes
        self._deed = None if self._loses or keeps else draw_deed(self.seed)
        if self._deed and self._deed.kind == POLICY and self.place.users.get("target") != bound.USER:
            self._deed = None  # nobody whom a policy concerns
        setting = SETTINGS.get(self._deed.kind, "") if self._deed else ""
        self._small, more = _sizes(
            drawn, keeps=self._loses, packs=packs, setting=setting, emptying=draw_emptying(self.seed, self.place.target)
        )
        if self.place.second:
            self._small, first = draw_sizes(self.seed, self._small, keeps=self._loses)
            more = first + more
        images, changes = (random.Random(f"{what} of {self.seed}") for what in ("chunks", "blocks"))
        self._small = replace(
            self._small, log_images=images.choice(LOG_IMAGES), block_changes=changes.choice((0, 1, 1))
        )
        emptied = next((how for how in ("delete", "truncate") if f'truncate = "{how}"' in more), "")
        bare = self.history is not None and is_any(self.history.transactions)
        self.truncates = tuple(
            empties_at_once(one, self.place.source.name, emptied, bare) for one in self.place.targets
        )
        beginning = WITHOUT_ROWS if family_at(self.place.target).form else BEGINNING
        self.meets = drawn.choice(beginning if keeps else ("", *LOADING))
        if keeps:
            more = more.partition("\n[apply]")[0]  # rows are staged, merged or removed nowhere
        self._beside: Beside | None = None
        stays = not any((fault.kind, fault.where) == ("restart", "source") for fault in self.faults)
        # Where definitions change, a prepared transaction would park its tables.
        grows = self.history is not None and (self.history.grows or self.history.passes)
        more += SETTING if grows else ""
        more += passing.setting(self.history) if self.history is not None and self.history.passes else ""
        has_beside = source_family(self.place.source.name).has_beside and not keeps
        if drawn.random() < TWO_PHASE and stays and not grows and has_beside:
            self._beside = Beside(self.place.source, self.place.target, self.place.name, self.seed)
            self._deed = None
        self._tables = tables_at(self.place.target, self.place.name)
        self._error = family_at(self.place.target).error
        self._doing: Deeds | None = None
        self.others = self.place.targets[1:]
        self._held = draw_hold(self.seed, keeps=self._loses or grows) if self.others else None
        self.joins_late = self._held is not None and self._held.after < 0
        self._holding: Holding | None = None
        self._mutex = threading.RLock()
        self.place.directory.mkdir(parents=True, exist_ok=True)
        for end in sorted({fault.place for fault in self.faults if fault.kind in ON_LINES}):
            server = self.place.server_at(end)
            self._proxies[end] = self._stack.enter_context(Proxy(server.host, server.port))
        at = {end: ("127.0.0.1", proxy.port) for end, proxy in self._proxies.items()}
        self._place = replace(self.place, more=self.place.more + more, at=at)

    # --- what a history asks for ----------------------------------------------------------------------------------

    def start(self) -> None:
        self.look_at(self._place)
        if self._beside:
            self._beside.create()
        armed = [one for one in self.faults if one.kind in AT_FAILPOINTS]
        environment = self._place.environment | {
            SUPERVISED: "1",  # they end with us
            VARIABLE: ";".join(map(asked, armed)),
            LOG_VARIABLE: str(self.log),
            CLOCK: str(next((f.seconds for f in self.faults if f.kind == "clock"), 0.0)),
        }
        self._open = [one for one in self.faults if one.kind not in AT_FAILPOINTS]
        self._parts = Parts(self._place.directory, self._place.job_file, environment, self._small)
        if self.others:
            self._parts.names = OF_TWO
            self._parts.armed = {at: ";".join(asked(one) for one in armed if one.at == at) for at in ("", SECOND)}
        self._holding = Holding(self._held, self._parts, self._judge) if self._held else None
        self._parts.start(self._held.parts if self._held and self.joins_late else ())
        if self._deed:
            self._looking_on = Looking(self.looking.job)  # of the thread that watches
            self._doing = self._deeds(self._deed, self._looking_on.states)
        self._thread = threading.Thread(target=self._watch, name="torture", daemon=True)
        self._thread.start()

    def _deeds(self, deed: Deed, states: Callable[[], Mapping[TableId, TableState]]) -> Deeds:
        beginning = deed.draw, self._tables
        if deed.kind == CONFLICT:
            assert self.history is not None, "an intruder needs to know the tables"
            family = self.place.source.name
            return Intruding(*beginning, self.history, family, self._parts, self._judge, lambda: self._is_caught_up)
        if deed.kind not in (PARK, SET_ASIDE, POLICY):
            return Doing(deed, self._parts, states, self._judge)
        common = (*beginning, self._parts, states, self._judge)
        if deed.kind == POLICY:
            return bound.Bound(*common)
        self.looking.is_patient = True
        if deed.kind == PARK:
            return Refusing(*common)
        assert self.history is not None, "which rows are to be refused"
        return SettingAside(*common, history=self.history, is_caught_up=lambda: self._is_caught_up)

    def _show_keys(self) -> bool:
        """The relation that says of which keys the target may hold something else (exempt.py). False where it is away."""
        with contextlib.suppress(self._error):
            for relation in (INTRUDER, ASIDE):
                if self.history and relation in self.beside():
                    self._tables.show(relation, self.history.schema)
            return True
        return False

    def noted(self) -> Sequence[Noted]:
        return self._tables.noted(self.history.schema) if self.history and INTRUDER in self.beside() else ()

    def committed(self, transactions: int) -> None:
        self._committed = transactions

    def wait_consistent(self, seconds: float) -> None:
        super().wait_consistent(seconds)
        if (
            self.history and self.history.passes
        ):  # a table whose keys are not built parks where it is dropped or renamed
            self._wait(lambda: all(one.is_built() for one in self.lookings), seconds, "indexes and foreign keys stand")
        if self._loses:  # what the load has done is not to be lost: nobody but a person could do it again
            for target in self.place.targets:
                tables_at(target, self.place.name).flush()
        if not until(self._show_keys, seconds, self.look):
            raise PipelineFailed("the target takes no table beside the history's")
        self._is_consistent = True
        if self._deed and self._deed.is_early:
            until(lambda: self._doing is None or self._doing.has_begun, EARLY_SECONDS, self.look)
        if self._beside:
            self._beside.start()

    def wait_caught_up(self, seconds: float) -> None:
        if self._beside:
            self._beside.finish()
        super().wait_caught_up(seconds)
        self._is_caught_up = True
        if self._small.segment_bytes in PACKED and "trail.segment.sealed" in self.hits():
            self._wait_packed()
        for target in self.place.targets if self._beside else ():
            if self._beside and (difference := self._beside.difference(target)):
                raise PipelineFailed(f"{target.name}, {difference}")

    def _wait_packed(self) -> None:
        """A while, for the process that packs segments; nothing depends on it."""
        until = time.monotonic() + PACK_SECONDS
        while "trail.pack.renamed" not in self.hits() and time.monotonic() < until:
            time.sleep(WATCH_SECONDS)

    def beside(self) -> tuple[str, ...]:
        if self._beside:
            return (TABLE,)
        shown = {CONFLICT: (INTRUDER,), SET_ASIDE: (ASIDE,)}
        return shown.get(self._deed.kind, ()) if self._deed else ()

    def wrong_beside(self, seen: Mapping[str, Sequence[bytes]], losses: int) -> str:
        return self._beside.wrong(seen[TABLE], losses) if self._beside else ""

    def is_calm(self) -> bool:
        """Ask between two turns of the thread that watches: within one a fault may be neither open nor begun."""
        with self._mutex:
            is_over = all(one.until is not None for one in self._begun) and not any(map(self._is_due, self._open))
            is_quiet = self._doing is None or self._doing.is_done or not self._is_time_for_it()
            is_quiet = is_quiet and (self._holding is None or self._holding.is_over)
            return (
                is_over and is_quiet and not self._parts.others and all(map(self._is_as_it_should, self._parts.names))
            )

    def _is_as_it_should(self, part: str) -> bool:
        running = self._parts.running.get(part)
        ended = running.ended() if running is not None else None
        return running is not None and (ended is None or (_may_end(part) and ended.code == 0))

    def unrest(self) -> str:
        others = ", ".join(f"{one.part} ({one.pid})" for one in self._parts.others)
        return super().unrest() + (f"; owners that were replaced live on: {others}" if others else "")

    def tails(self) -> str:
        return self._parts.tails()

    def fired(self) -> tuple[Fault, ...]:
        there = tuple(f for f in self.faults if f.kind in AT_FAILPOINTS and self.acted(f))
        return there + tuple(one.fault for one in self._begun if one.is_felt)

    def stop(self) -> None:
        self._is_stopping = True
        if hasattr(self, "_thread"):
            self._thread.join(60)
            self._parts.kill()
            for one in self.lookings:
                one.close()
            if self._doing:
                self._doing.kill()
                self._looking_on.close()
        if self._beside:
            self._beside.stop()
        if hasattr(self, "_thread"):
            with contextlib.suppress(Exception):  # the next run of the seed does it
                self._place.forget()
        for proxy in self._proxies.values():
            proxy.restore()
        self._stack.close()

    # --- watching --------------------------------------------------------------------------------------------------

    def _watch(self) -> None:
        try:
            while not self._is_stopping and self.failure is None:
                with self._mutex:
                    self._turn()
                time.sleep(WATCH_SECONDS)
            for one in self._begun:
                if one.until is None:
                    self._end(one)
        except BaseException as failure:  # noqa: BLE001 - carried over to whoever waits
            self.failure = failure

    def _turn(self) -> None:
        for fault in [one for one in self._open if self._is_due(one)]:
            self._open.remove(fault)
            self._begin(fault)
        for one in self._begun:
            if one.until is None and time.monotonic() >= one.since + one.fault.seconds:
                self._end(one)
        if self._holding:
            self._holding.turn(self._committed if self._is_consistent else -1)
        for part in self._parts.names:
            if not (self._holding and self._holding.holds(part)):
                self._keep(part)
        if self._doing and self._is_time_for_it():
            with contextlib.suppress(AnabranchError, self._error):  # the target is away, or the table in use
                self._doing.turn()
        for other in list(self._parts.others):
            if (ended := other.ended()) is not None:
                self._parts.others.remove(other)
                if not self._was_asked_to_end(ended):  # just before another one took its place
                    self._judge(ended)

    def _is_time_for_it(self) -> bool:
        load = self._parts.running["load"].ended()
        is_loaded = self._is_consistent and load is not None and load.code == 0
        deed = self._deed
        return is_loaded and deed is not None and (deed.is_early or self._committed >= deed.after)

    def _is_due(self, fault: Fault) -> bool:
        is_held = self._holding is not None and self._holding.holds(
            fault.place
        )  # asked to end, it is nobody's to strike
        is_there = fault.where not in PARTS or (self._parts.is_alive(fault.place) and not is_held)
        is_time = self._is_consistent or fault.kind != "lose"
        is_used = fault.kind != "cut" or self._proxies[fault.place].is_used
        return is_there and is_time and is_used and self._committed >= fault.after

    def _begin(self, fault: Fault) -> None:
        begun = _Begun(fault, time.monotonic())
        if fault.where in PARTS:
            begun.pid = self._parts.running[fault.place].pid
            if not self._strike(fault):
                return
            if fault.kind == "clock":  # its seconds are how far it jumps, not how long
                begun.until = begun.since
        elif fault.kind in ON_SERVERS:
            self._begun.append(begun)
            assert self.restart is not None, "faults on servers need who restarts them"
            self.restart(fault.place, fault.kind == "lose")
            begun.until = time.monotonic()
            return
        else:
            begun.disturbed = self._proxies[fault.place].disturbed
            self._hold(fault)
        self._begun.append(begun)

    def _strike(self, fault: Fault) -> bool:
        running = self._parts.running[fault.place]
        if fault.kind == "kill":
            time.sleep(fault.seconds)
            return running.process.send(signal.SIGKILL)
        if fault.kind == "clock":
            return running.process.send(signal.SIGUSR1)
        struck = running.process.send(signal.SIGSTOP)
        if struck and fault.kind == "second":
            self._parts.second(fault.place)
        return struck

    def _hold(self, fault: Fault) -> None:
        proxy = self._proxies[fault.place]
        if fault.kind == "slow":
            proxy.slow(SLOW_SECONDS)
        else:
            {"cut": proxy.cut, "stall": proxy.stall, "refuse": proxy.refuse}[fault.kind]()

    def _end(self, one: _Begun) -> None:
        one.until = time.monotonic()
        if one.fault.kind in ("freeze", "second"):
            for running in (*self._parts.running.values(), *self._parts.others):
                if running.pid == one.pid:
                    running.process.send(signal.SIGCONT)
        elif one.fault.kind in ON_LINES:
            proxy = self._proxies[one.fault.place]
            one.is_felt = proxy.disturbed > one.disturbed
            proxy.restore()

    # --- what ended ------------------------------------------------------------------------------------------------

    def _keep(self, part: str) -> None:
        """Start it again if it ended and should not have."""
        running = self._parts.running[part]
        if running.is_alive or (ended := running.ended()) is None or (_may_end(part) and ended.code == 0):
            return
        if self._was_asked_to_end(ended):
            if self._doing and not self._doing.pauses_apply:
                self._parts.restart(part)
            return
        self._judge(ended)
        if part == "apply" and self._doing and self._doing.pauses_apply:
            return
        if ended.error == "TrailLocked" and (first := self._first_owner(part)) is not None:
            self._parts.back(first)
            return
        if ended.error:
            time.sleep(AGAIN_SECONDS)
        self._parts.restart(part)

    def _was_asked_to_end(self, ended: Ended) -> bool:
        """Return whether a deed asked it to end."""
        is_asked = self._doing is not None and self._doing.stops_apply
        return is_asked and ended.part == "apply" and ended.code in STOPPED

    def _first_owner(self, part: str) -> Running | None:
        """Return the part's first process if it goes on: the second one was refused its lock."""
        if any(one.fault.kind in ("freeze", "second") and one.until is None for one in self._begun):
            return None
        return next((other for other in self._parts.others if other.part == part and other.is_alive), None)

    def _judge(self, ended: Ended) -> None:
        """Raises PipelineFailed where no fault explains it."""
        if (ended.code == 0 and _may_end(ended.part)) or (self._doing and self._doing.explains(ended)):
            return
        apart, family = is_apart(self.place.targets), family_at(self.place.target)
        forgets = not family.keeps_changes or bool(family.form)
        if not any(explains(one.fault, ended, one.pid, apart=apart, forgets=forgets) for one in self._during(ended)):
            raise PipelineFailed(f"{ended}\n{self.tails()}\n(failpoints reached: {self.log})")

    def _during(self, ended: Ended) -> Iterator[_Begun]:
        """Faults that were there while the process lived."""
        for fault in self.faults:
            if fault.kind in AT_FAILPOINTS and self.acted(fault) == ended.pid:
                yield _Begun(fault, ended.begun, pid=ended.pid)
        now = time.monotonic()
        for one in self._begun:
            is_late = (
                one.fault.kind in ON_LINES | ON_SERVERS and one.until is not None and now > one.until + AFTER_SECONDS
            )
            after = AFTER_SECONDS if one.fault.kind == "second" else 0.0  # the first one lives on for a moment
            if not is_late and (one.until is None or one.until + after >= ended.begun):
                yield one


def _may_end(part: str) -> bool:
    return part.partition(" of ")[0] == "load"


def _sizes(drawn: random.Random, *, keeps: bool, packs: bool, setting: str, emptying: str) -> tuple[Small, str]:
    """Sizes that bring a short history to what a long one meets: segments that end, epochs of executors, small
    epochs, tables that are loaded in several chunks (K3).
    `keeps`: a target that loses commits needs them from the trail again, which therefore drops nothing at once. `packs`:
    something is to happen to who packs segments. `emptying`: how tables are emptied, where nothing else is drawn."""
    segment = drawn.choice(PACKED if packs else (*[0] * 12, *[2_000, 8_000] * 3, *PACKED))
    rows = drawn.choice((500_000, 500_000, 500_000, 1, 20))
    more = "retain_hours = 0\n" if segment and drawn.random() < 0.5 and not keeps else ""
    apply = [setting] if setting else []
    if "set_aside" in setting and drawn.random() < 0.25:
        apply.append("set_aside_limit = 3")
    if drawn.random() < 0.1:
        apply.append('mode = "transaction"')
        # Beside what is drawn, so that the histories of former seeds stay as they were.
        apply.append(f"appliers = {random.Random(drawn.getstate()[1][0]).choice((1, 2, 3, 4))}")
    elif drawn.random() < 0.3:
        apply.append(f"stage_rows = {drawn.choice((1, 10, 100))}")
    emptying = "delete" if drawn.random() < 0.1 else emptying
    if emptying:
        apply.append(f'truncate = "{emptying}"')
    chunk = drawn.choice((0, 0, 2, 4, 7))
    return Small(segment, rows, chunk), more + ("\n[apply]\n" + "\n".join(apply) + "\n" if apply else "")
