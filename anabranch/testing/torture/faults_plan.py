"""Which faults a history meets, drawn from its seed: one to three, so that over some hundreds of seeds every kind and
every failpoint comes about.

What does not live here: what a fault is (contract.py), how it is done (pipeline.py).
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

from anabranch.failpoints import POINTS
from anabranch.testing.torture.contract import Fault
from anabranch.testing.torture.parts import PARTS

# Of a hundred faults. Most stand at a failpoint: there a crash has a place that can be reached again.
WEIGHTS = {
    "exit": 34,
    "raise": 9,
    "delay": 5,
    "full": 5,
    "kill": 15,
    "freeze": 4,
    "second": 6,
    "cut": 9,
    "stall": 3,
    "slow": 2,
    "refuse": 4,
    "clock": 2,
    "restart": 1,
    "lose": 1,
}
ON_SERVERS = ("restart", "lose")
LINES = ("cut", "stall", "slow", "refuse")
# Where a disk can be full: the write that would fail stands there.
WRITES = (
    "trail.frame",
    "trail.history.noted",
    "trail.publish",
    "trail.register",
    "trail.advance",
    "trail.segment.sealing",
    "trail.drop",
    "trail.staging.written",
    "state.write",
)
# Of a trail that goes to another place, which no history of one job reaches.
ELSEWHERE = frozenset(
    name for name in POINTS if name.startswith(("trail.replica", "pump.", "store.", "parcel.export", "parcel.import"))
)
# Not reached in every history, some in few: these have the less of the exits that are drawn.
RARE = frozenset(
    name
    for name in POINTS
    if name.startswith(("trail.pack", "trail.staging", "trail.drop", "trail.segment.seal", "capture.decided"))
) | {
    "capture.prepared",
    "apply.reread",
    "apply.conflict",
    "apply.one",
    "apply.pipelined",
    "apply.stage",
    "apply.staged",
}
# Of these, those that so few reach that some thousand histories need more than the others' share of faults there.
RAREST = ("trail.pack.written", "trail.pack.renamed", "apply.reread", "apply.reread", "apply.reread")
# Of histories to a target that keeps changes: what happens, and where (`lose`: a broker is killed).
OF_CHANGES = {"exit": 40, "raise": 10, "kill": 15, "second": 20, "restart": 5, "lose": 10}
AT_CHANGES = (
    *("changes.made", "changes.known", "first.read", "first.committed", "apply.claim", "apply.claimed"),
    *("apply.begin", "apply.begun", "apply.appended", "apply.saved", "apply.commit", "apply.committed"),
)
# The same where change tables are, to which lines may be disturbed.
OF_CHANGE_TABLES = OF_CHANGES | {"cut": 8, "stall": 3, "refuse": 4}
AT_CHANGE_TABLES = (
    *("changes.noted", "changes.made", "changes.known", "changes.idle_noted", "apply.claim", "apply.claimed"),
    *("apply.begin", "apply.begun", "apply.appended", "apply.saved", "apply.commit", "apply.committed"),
)
LONGEST_AFTER = 30  # committed transactions: every history has more
CLOCKS = (-86_400.0, -3_600.0, -2.0, 90.0, 90_000.0)


def draw_faults(seed: int, *, kinds: Sequence[str] = tuple(WEIGHTS), with_servers: bool = False) -> tuple[Fault, ...]:
    """The same for the same seed. `with_servers`: they may be restarted."""
    drawn = random.Random(f"faults of {seed}")
    wanted = [kind for kind in kinds if with_servers or kind not in ON_SERVERS]
    weights = [WEIGHTS[kind] for kind in wanted]
    number = drawn.choices((1, 2, 3), (5, 3, 2))[0]
    found = [_fault(kind, drawn) for kind in drawn.choices(wanted, weights, k=number)]
    return tuple({_place(fault): fault for fault in found}.values())


def faults_of_changes(seed: int, drawn: Sequence[Fault], form: str = "") -> tuple[Fault, ...]:
    """Return the faults of a history to a target that keeps changes: one of those that are drawn for any, and one or two where
    such a target is written. Lines to a Kafka are left alone: clients find its brokers past any proxy. `form`: of the target,
    "" for a Kafka."""
    r = random.Random(f"faults of changes {seed}")
    kinds, places = (OF_CHANGE_TABLES, AT_CHANGE_TABLES) if form else (OF_CHANGES, AT_CHANGES)
    found = [replace(one, where="source") if one.kind in LINES and not form else one for one in drawn[:1]]
    found = [one for one in found if not one.where.startswith("load.")]
    for kind in r.choices(tuple(kinds), tuple(kinds.values()), k=r.choice((1, 1, 2))):
        after = r.choice((-1, *range(0, LONGEST_AFTER, 3)))
        if kind in ("exit", "raise"):
            found.append(Fault(kind, r.choice(places), r.choice((1, 1, 2, 3, 7))))
        elif kind in LINES:
            seconds = 0.0 if kind == "cut" else round(r.uniform(0.05, 0.7), 2)
            found.append(Fault(kind, "target", seconds=seconds, after=after))
        elif kind in ON_SERVERS:
            found.append(Fault(kind, "target", after=max(after, 0)))
        elif kind == "kill":
            found.append(Fault(kind, "apply", seconds=round(r.uniform(0, 0.25), 3), after=after))
        else:
            found.append(Fault(kind, "apply", seconds=round(r.uniform(0.1, 0.5), 2), after=after))
    return tuple({_place(fault): fault for fault in found}.values())


def _place(fault: Fault) -> tuple[str, ...]:
    """Two faults of one kind at one place are one; of those that make a part stand still or jump, too."""
    at_point = fault.kind in ("exit", "raise", "delay", "full")
    return (fault.where,) if at_point else (fault.kind,)


def _fault(kind: str, drawn: random.Random) -> Fault:
    if kind in ("exit", "raise", "delay", "full"):
        where = drawn.choice(WRITES) if kind == "full" else _point(drawn)
        nth = 1 if where in RARE else drawn.choices((1, 2, 3, 7, 20), (60, 15, 10, 10, 5))[0]
        seconds = {"delay": drawn.uniform(0.05, 0.4), "full": drawn.uniform(0.1, 0.6)}.get(kind, 0.0)
        return Fault(kind, where, nth, round(seconds, 2))
    after = drawn.choice((-1, -1, *range(0, LONGEST_AFTER, 3)))
    if kind in ("restart", "lose"):
        where = "target" if kind == "lose" or drawn.random() < 0.7 else "source"
        return Fault(kind, where, after=max(after, 0))
    if kind in ("cut", "stall", "slow", "refuse"):
        where, seconds = drawn.choice(("source", "target")), drawn.uniform(0.05, 0.7)
        return Fault(kind, where, seconds=0.0 if kind == "cut" else round(seconds, 2), after=after)
    part = drawn.choices(PARTS, (3, 2, 4))[0]
    if kind == "clock" and part == "load":  # which asks no clock
        part = "apply"
    if part == "load":
        after = -1
    if kind == "kill":
        return Fault(kind, part, seconds=round(drawn.uniform(0, 0.25), 3), after=after)
    if kind == "clock":
        return Fault(kind, part, seconds=drawn.choice(CLOCKS), after=after)
    return Fault(kind, part, seconds=round(drawn.uniform(0.1, 0.5), 2), after=after)


def _point(drawn: random.Random) -> str:
    """A failpoint: mostly one that most histories reach."""
    every = [name for name in POINTS if name not in ELSEWHERE]
    usual = [name for name in every if name not in RARE]
    (names,) = drawn.choices((usual, every, RAREST), (70, 22, 8))
    return drawn.choice(names)
