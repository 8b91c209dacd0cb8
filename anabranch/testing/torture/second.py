"""A second target of a history's job: whether there is one, which faults meet it, and what of it is held back.

It is another database on the target's server, or, where a server is one target as a whole, a PostgreSQL. Its parts are
called `load of second` and `apply of second`. What does not live here: how it is judged (verdict.py: as the first, by
itself), what an operator does (deeds.py: to the first target only), the server (ground.py).
"""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from anabranch.spark.continuous import EPOCH_ROWS
from anabranch.testing.databases import Database
from anabranch.testing.torture.contract import SECOND, Fault
from anabranch.testing.torture.explain import ON_LINES, ON_SERVERS
from anabranch.testing.torture.local import Small
from anabranch.testing.torture.parts import STOPPED, Ended, Parts
from anabranch.testing.torture.targets import family_at
from anabranch.testing.torture.waiting import AT_FAILPOINTS

SHARE = 1 / 6  # of the histories
LOAD, APPLY = f"load of {SECOND}", f"apply of {SECOND}"
HELD_SECONDS = (0.3, 4.0)
LATEST = 25  # committed transactions before apply is stopped


@dataclass(frozen=True, slots=True)
class Hold:
    """`parts` of the second target do not run for `seconds`. `after`: committed source transactions before they are stopped;
    -1: they begin so much later than the others, and the first target does not wait."""

    parts: tuple[str, ...]
    after: int
    seconds: float


def has_second(seed: int) -> bool:
    return random.Random(f"targets of {seed}").random() < SHARE


def draw_hold(seed: int, *, keeps: bool = False) -> Hold | None:
    """Draw what is held back in a history with two targets: nothing, apply in the middle, apply or all of it at the start.

    `keeps`: nobody begins late: what the load has done must not be lost with commits of the target, or tables are altered,
    which parks those that are loading."""
    drawn = random.Random(f"hold of {seed}")
    kind, after, seconds = drawn.randrange(5), drawn.randrange(LATEST), round(drawn.uniform(*HELD_SECONDS), 2)
    if kind in (1, 2) or (kind and keeps):
        return Hold((APPLY,), after, seconds)
    if kind:
        return Hold((APPLY,) if kind == 3 else (LOAD, APPLY), -1, seconds)
    return None


def draw_sizes(seed: int, small: Small, *, keeps: bool = False) -> tuple[Small, str]:
    """Draw smaller sizes for a job with two targets, and further lines of its [capture].

    Epochs have few row images, so that a target that comes behind shows more than its last state; half of the jobs have
    short segments, dropped as soon as both targets are past them. `keeps`: nothing is dropped."""
    drawn = random.Random(f"sizes of two {seed}")
    small = replace(small, epoch_rows=drawn.choice((1, 10, 30, EPOCH_ROWS)))
    segment, drops = drawn.choice((2_000, 8_000)), drawn.random() < 0.5
    if small.segment_bytes or not drops or keeps:
        return small, ""
    return replace(small, segment_bytes=segment), "retain_hours = 0\n"


def spread(faults: Sequence[Fault], seed: int, *, apart: bool = False) -> tuple[Fault, ...]:
    """Spread the faults over the two targets: what concerns one target's parts or line meets the one or the other, and so does
    what concerns a server where they are `apart`."""
    drawn = random.Random(f"faults of two {seed}")
    return tuple(replace(f, at=drawn.choice(("", SECOND))) if _is_one_s(f, apart) else f for f in faults)


def _is_one_s(fault: Fault, apart: bool) -> bool:
    is_line = fault.kind in (ON_LINES | ON_SERVERS if apart else ON_LINES) and fault.where == "target"
    is_point = fault.kind in AT_FAILPOINTS and not fault.where.startswith("capture")
    return is_line or is_point or fault.where in ("load", "apply")


@dataclass
class Holding:
    """A Hold, turn by turn of the thread that watches. `judge` is given whom a fault ended meanwhile."""

    hold: Hold
    parts: Parts
    judge: Callable[[Ended], None]
    is_over: bool = field(default=False, init=False)
    _since: float | None = field(default=None, init=False)
    _held: dict[str, int] = field(default_factory=dict, init=False)  # processes, by part

    def __post_init__(self) -> None:
        if self.hold.after < 0:
            self._since = time.monotonic()

    def holds(self, part: str) -> bool:
        return self._since is not None and not self.is_over and part in self.hold.parts

    def turn(self, committed: int) -> None:
        """`committed`: transactions of the stream, -1 as long as a table loads."""
        if self.is_over:
            return
        if self._since is None:
            is_there = not self.parts.others and all(map(self.parts.is_alive, self.hold.parts))
            if is_there and committed >= self.hold.after:
                self._begin()
        elif time.monotonic() > self._since + self.hold.seconds:
            self.is_over = all(list(map(self._goes_on, self.hold.parts)))

    def _begin(self) -> None:
        self._since = time.monotonic()
        for part in self.hold.parts:
            self._held[part] = self.parts.running[part].pid
            self.parts.running[part].process.send(signal.SIGTERM)

    def _goes_on(self, part: str) -> bool:
        """False as long as who is to end has not."""
        running = self.parts.running.get(part)
        if running is not None and running.pid != self._held.get(part):
            return True  # begun already, or another one took its place
        if running is not None:
            if (ended := running.ended()) is None:
                return False
            if ended.code not in STOPPED:
                self.judge(ended)
        self.parts.restart(part)
        return True


# --- beside a database of the user's --------------------------------------------------------------------------------------


@contextmanager
def made_beside(target: Database, say: Callable[[str], None]) -> Iterator[Database | None]:
    """A database that is gone afterwards; None, after saying why, where there can be none."""
    with family_at(target).beside(target, f"{target.name}_second") as made:
        if isinstance(made, str):
            say(f"no history has two targets: {made}")
            yield None
        else:
            yield made
