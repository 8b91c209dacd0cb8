"""A cut-over and a return while something befalls them, and what has to be true behind each: nothing is lost, nothing is there
twice, and the way back begins exactly behind the flip.

What does not live here: what befalls them (cutover_kills.py, cutover_faults.py).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Protocol

from anabranch.trail.reader import TrailReader
from anabranch.trail.show import show
from rigs.cutover import FIRST, MAX_LAG, Cut, Writers
from rigs.cutover_kills import arrives, once
from rigs.job_here import JobHere


class Switching(Protocol):
    """One of the two switches of a job, with what befalls it. `leave` is called where the application has to be led away."""

    leave: Callable[[], object]

    def through(self) -> object: ...

    def taken_back(self, arrived: Callable[[], object]) -> None: ...


def written(cut: Cut, switch: Switching, is_taken_back: bool) -> list[int]:
    """Cut over, and before that take it back where that is said. Returns what the application was told
    is there."""
    cut.made.cli("reverse", "-o", str(cut.made.job_file.with_name(f"{cut.made.name}-reverse.toml")))
    with Writers(cut) as writers:
        switch.leave = writers.leave
        if is_taken_back:
            switch.taken_back(partial(arrives, cut, cut.made.source, cut.made.target))
        switch.through()
    once(cut.at_target(), writers.acknowledged)
    cut.made.assert_identical("item", "draft")
    return writers.acknowledged


def returned(cut: Cut, back: JobHere, there: list[int], switch: Switching, is_taken_back: bool) -> None:
    flip = cut.made.job_file.read_text().split("[cutover]\n")[1].split("\n")[0]
    settings = f"[cutover]\n{flip}\nmax_lag = {MAX_LAG}\ngrace = 0\n"
    back.made.job_file.write_text(f"{back.made.job_file.read_text()}\n{settings}")
    source, target = cut.made.source, cut.made.target
    arrives(cut, target, source)  # the way back follows: a line that was never there would end it
    with Writers(cut, target, (3, 4)) as writers:
        switch.leave = writers.leave
        if is_taken_back:
            switch.taken_back(partial(arrives, cut, target, source))
        switch.through()
    once(cut.rows(source), [*there, *writers.acknowledged])
    with TrailReader(back.job.trail) as trail:
        read = [int(row.values["v"]) for row in show(trail, after=0) if row.values and row.values.get("v")]
    came = {value for value in read if value > FIRST}
    assert came >= set(writers.acknowledged) and not came & set(there), "an echo of what came from the source"
    arrives(cut, source, target)
    cut.made.assert_identical("item", "draft")
