"""What others do to a job while a history runs: a table is loaded again, the job goes back; a table of the target takes no
rows for a while, and what was parked goes on, or refuses some, which are set aside and released; somebody else writes to the
target, and its keys are made equal again.

Drawn from the seed, once in some histories, and done by processes of their own that faults meet like any other; one that
ended early is begun again. Of two targets it is done to the first; jobs with conflicts or rows set aside have one. What does
not live here: what is allowed to be seen meanwhile (check.py, by the states of tables; exempt.py, of single keys).
"""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from anabranch.model.ids import TableId
from anabranch.model.load_groups import ancestors, cascading_parents
from anabranch.model.schema import TableSchema
from anabranch.model.table_life import TableState
from anabranch.testing.torture.contract import Fault
from anabranch.testing.torture.parts import Ended, Parts, Running
from anabranch.testing.torture.tables import LEDGER
from anabranch.testing.torture.targets import Disturbance, Refuses, TargetTables

RELOAD, REWIND, PARK, SET_ASIDE, CONFLICT = "reload", "rewind", "park", "set_aside", "conflict"
POLICY = "policy"  # drawn beside the others
KINDS = (RELOAD, REWIND, PARK, SET_ASIDE, CONFLICT)
SHARE, POLICY_SHARE = 0.3, 0.12  # of the histories, and of those without any of the others
# What the job file says of [apply] for it.
SETTINGS = {
    PARK: 'on_error = "park"',
    SET_ASIDE: 'on_error = "set_aside"',
    CONFLICT: 'on_conflict = "source_wins"',
}
RESUME = "resume"  # the part that lets what was parked go on
RELEASE = "release"  # the part that asks for the rows that are set aside
REFUSED_SECONDS = 1.0
AGAIN_SECONDS = 0.05  # before a process that ended is begun again
LATEST = 25  # committed transactions of the stream before it begins


@dataclass(frozen=True, slots=True)
class Deed:
    """`after`: committed source transactions of the stream before it begins. `draw`: which of the tables that may be loaded
    again, or how many transactions it goes back."""

    kind: str
    after: int
    draw: int

    @property
    def needs_apart(self) -> bool:
        """A table without foreign keys and full images: what the target may hold otherwise, alone. A quarter of
        those that set rows aside go without: they park rather."""
        return self.kind == CONFLICT or (self.kind == SET_ASIDE and self.draw % 4 > 0)

    @property
    def shows_keys(self) -> bool:
        """It says at the target which keys may be otherwise there (exempt.py), at one target only."""
        return self.kind in (CONFLICT, SET_ASIDE)

    @property
    def is_early(self) -> bool:
        """Return whether it comes before the transactions behind the load, all of which then meet it."""
        return self.shows_keys and self.draw // 2 % 2 == 0


def draw_deed(seed: int) -> Deed | None:
    drawn = random.Random(f"deeds of {seed}")
    if drawn.random() > SHARE:
        drawn = random.Random(f"policy of {seed}")
        comes = drawn.random() < POLICY_SHARE
        return Deed(POLICY, drawn.randrange(LATEST), drawn.randrange(1 << 16)) if comes else None
    return Deed(drawn.choice(KINDS), drawn.randrange(LATEST), drawn.randrange(1 << 16))


# Failpoints that few histories reach without it; half of those with it have an exit at one.
PLACES = {
    SET_ASIDE: ("apply.conflict", "apply.one", "apply.set.aside", "apply.aside.settled", "apply.parking"),
    CONFLICT: ("apply.conflict", "apply.one", "apply.conflict.noted", "apply.repair"),
}


def deed_faults(seed: int) -> tuple[Fault, ...]:
    """Return the faults that a history has for its deed's sake."""
    deed, drawn = draw_deed(seed), random.Random(f"faults of the deed of {seed}")
    if deed is None or deed.kind not in PLACES or drawn.random() < 0.5:
        return ()
    return (Fault("exit", drawn.choice(PLACES[deed.kind]), drawn.choice((1, 1, 2, 3))),)


class Deeds(Protocol):
    """A deed that is drawn, from when it is time for it. `is_done`: nothing of it is under way."""

    is_done: bool

    @property
    def has_begun(self) -> bool: ...

    @property
    def pauses_apply(self) -> bool:
        """Return whether apply has to stand still for it."""

    @property
    def stops_apply(self) -> bool:
        """Return whether it has asked apply to end, or may have."""

    def explains(self, ended: Ended) -> bool:
        """Return whether a part may have ended in that way because of it."""

    def turn(self) -> None:
        """A step of the thread that watches. Raises AnabranchError or a driver's error where the target is away."""

    def kill(self) -> None: ...


@dataclass
class Doing:
    """One deed, turn by turn of the thread that watches. `judge` is given each process of it that ended otherwise than well."""

    deed: Deed
    parts: Parts
    states: Callable[[], Mapping[TableId, TableState]]
    judge: Callable[[Ended], None]
    is_done: bool = field(default=False, init=False)
    _running: Running | None = field(default=None, init=False)
    _name: str = field(default="", init=False)
    _has_failed: bool = field(default=False, init=False)

    @property
    def has_begun(self) -> bool:
        return bool(self._name)

    @property
    def pauses_apply(self) -> bool:
        return self.deed.kind == REWIND and bool(self._name) and not self.is_done

    @property
    def stops_apply(self) -> bool:
        return self.deed.kind == REWIND and bool(self._name)

    def explains(self, ended: Ended) -> bool:
        return False

    def turn(self) -> None:
        """Raises AnabranchError where the target is away."""
        if self.is_done:
            return
        if not self._name:
            self._name = self._named()
            self.is_done = not self._name
        elif self._running is None:
            self._begin()
        elif (ended := self._running.ended()) is not None:
            self._end(ended)

    def _end(self, ended: Ended) -> None:
        self.is_done = ended.code == 0 or self._is_through()
        self._running = None
        if ended.code and not (
            self._has_failed and ended.error == "Fenced"
        ):  # what came of the first try is in the way
            self.judge(ended)
        self._has_failed = True
        time.sleep(AGAIN_SECONDS)

    def _is_through(self) -> bool:
        """A process that ended right behind its last step: the target is back, and waits for apply."""
        return self.deed.kind == REWIND and any(state.state == "loading" for state in self.states().values())

    def kill(self) -> None:
        if self._running is not None:
            self._running.kill()

    def _named(self) -> str:
        """The part that does it; "" where no table may be loaded again."""
        if self.deed.kind == REWIND:
            return f"{REWIND} {1 + self.deed.draw % 30}"
        tables = reloadable({t: s.schema for t, s in self.states().items() if s.schema})
        return f"{RELOAD} {tables[self.deed.draw % len(tables)]}" if tables else ""

    def _begin(self) -> None:
        apply = self.parts.running["apply"]
        if self.pauses_apply and self.parts.others:
            return  # one of two owners has not noticed yet
        if self.pauses_apply and apply.is_alive:
            apply.process.send(signal.SIGTERM)
        else:
            self._running = self.parts.begin(self._name)


@dataclass
class Refusing:
    """A table of the target that takes no rows for a while; then everything that was parked by it goes on."""

    draw: int
    target: TargetTables
    parts: Parts
    states: Callable[[], Mapping[TableId, TableState]]
    judge: Callable[[Ended], None]
    is_done: bool = field(default=False, init=False)
    pauses_apply: bool = field(default=False, init=False)
    stops_apply: bool = field(default=False, init=False)
    _table: str = field(default="", init=False)
    _how: Disturbance = field(default=Refuses(), init=False)
    _until: float = field(default=0.0, init=False)
    _is_over: bool = field(default=False, init=False)
    _running: Running | None = field(default=None, init=False)

    @property
    def has_begun(self) -> bool:
        return bool(self._table)

    def explains(self, ended: Ended) -> bool:
        return False

    def turn(self) -> None:
        if not self._table:
            self._refuse()
        elif not self._is_over:
            if self._is_enough():
                self.target.calm(self._table, self._how)
                self._is_over = True
        else:
            self._bring_back()

    def kill(self) -> None:
        if self._running is not None:
            self._running.kill()

    def _refuse(self) -> None:
        table = self._drawn(self._drawn_from())
        self._how = self._disturbance(table)
        self._until = time.monotonic() + REFUSED_SECONDS
        self.target.disturb(table.name, self._how)
        self._table = table.name

    def _drawn_from(self) -> list[TableId]:
        return [table for table in sorted(self.states()) if table.name != LEDGER]

    def _disturbance(self, table: TableId) -> Disturbance:
        """Return what is done to the table, so that it refuses rows."""
        return Refuses()

    def _is_enough(self) -> bool:
        return time.monotonic() > self._until or self._parked()

    def _drawn(self, tables: Sequence[TableId]) -> TableId:
        return tables[self.draw % len(tables)]

    def _bring_back(self) -> None:
        if self._running is not None:
            self._end(self._running)
        elif not (self._parked() and self._resume()):
            self.is_done = True

    def _parked(self) -> bool:
        return any(state.state == "parked" for state in self.states().values())

    def _resume(self) -> bool:
        self.is_done, self._running = False, self.parts.begin(RESUME)
        return True

    def _end(self, running: Running) -> None:
        if (ended := running.ended()) is None:
            return
        self._running = None
        if ended.code and ended.error != "Fenced":
            self.judge(ended)
        time.sleep(AGAIN_SECONDS)


def reloadable(schemas: Mapping[TableId, TableSchema]) -> list[TableId]:
    """Tables that, with those that go along, are not reached by foreign keys over a table between."""
    above = {table: ancestors(schemas, table) for table in schemas}
    hidden = {t for t in schemas if any(cascading_parents(schemas, p) for p in cascading_parents(schemas, t))}
    return [
        table
        for table in sorted(schemas)
        if table.name != LEDGER and not any(each in hidden for each in schemas if table == each or table in above[each])
    ]
