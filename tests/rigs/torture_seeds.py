"""Seeds whose histories meet between them as many different things as so few can: for the slice that every run does."""

from __future__ import annotations

from collections.abc import Iterable

from anabranch.failpoints import POINTS
from anabranch.testing.torture.contract import Fault
from anabranch.testing.torture.deeds import deed_faults, draw_deed
from anabranch.testing.torture.emptying import draw_emptying
from anabranch.testing.torture.faults_plan import draw_faults
from anabranch.testing.torture.ground import Ground
from anabranch.testing.torture.second import has_second


def various(ground: Ground, seeds: Iterable[int], count: int) -> list[int]:
    """Choose `count` of the seeds: each time the first of those that add most to what the chosen ones meet."""
    left = {seed: met(ground, seed) for seed in seeds}
    chosen, seen = list[int](), set[str]()
    while len(chosen) < count:
        best = max(left, key=lambda seed: (len(left[seed] - seen), -seed))
        chosen.append(best)
        seen |= left.pop(best)
    return sorted(chosen)


def met(ground: Ground, seed: int) -> set[str]:
    """Return what is drawn for a history: faults, a deed, its users at that kind of source, whether it has two
    targets, how tables are emptied."""
    source, deed = ground.source_of(seed).name, draw_deed(seed)
    users = [f"{end} {user} {source}" for end, user in ground.users_of(seed).items()]
    faults = map(_named, (*draw_faults(seed, with_servers=ground.is_ours), *deed_faults(seed)))
    with_second = has_second(seed) and not (deed and deed.shows_keys)  # as One.second_of
    emptied = f"emptied by {draw_emptying(seed, ground.target_of(seed))}"
    return {source, f"deed {deed and deed.kind}", f"second {with_second}", emptied, *users, *faults}


def _named(fault: Fault) -> str:
    """Of a failpoint its name, whatever happens there; else what happens, and to what."""
    return fault.where if fault.where in POINTS else f"{fault.kind} {fault.where}"
