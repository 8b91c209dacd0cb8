"""The protocol between the checker and the pipelines: what a history needs to know of the job that carries it.

Two pipelines: processes of ours without Spark (a history takes tenths of a second), and the command line with Spark.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from anabranch.testing.torture.exempt import Noted

from anabranch.testing.databases import Database

SECOND = "second"  # the name of a job's other target, where it has two


def is_apart(targets: Sequence[Database]) -> bool:
    """Return whether a job's targets are on several servers: what befalls one of these concerns one target."""
    return len({(target.server.host, target.server.port) for target in targets}) > 1


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that goes wrong once.

    kind: `exit`, `raise`, `delay`, `full` (at the failpoint `where`, the `nth` time it is reached; `full`: the disk has no
    room there) · `kill`, `freeze`, `second` (the part `where`: capture, load or apply, with Spark also run, which is all of
    them; `second`: it stands still, another one is started in its place, then it goes on) · `cut`, `stall`, `slow`, `refuse`
    (the line to the end `where`: source or target) · `restart` (the server `where`), `lose` (the server `where` restarts
    without its last commits) · `clock` (the wall clock of the part `where` jumps by `seconds`).

    `seconds`: how long, where it ends by itself; of `kill` how long it waits. `after`: committed source transactions of the
    stream before it begins, -1: as soon as the part runs; faults at a failpoint begin when they are reached. `at`: the target
    whose part or line it is, whose server, where each has its own, or in whose parts (and in capture) its failpoint acts; ""
    for the first."""

    kind: str
    where: str
    nth: int = 1
    seconds: float = 0.0
    after: int = 0
    at: str = ""

    @property
    def place(self) -> str:
        """`where`, among the parts and lines of two targets."""
        return f"{self.where} of {self.at}" if self.at else self.where


LOOKS, STATES = 10, 3  # at the target before the last one, different ones: what shows fewer shows nothing


def shows_enough(observations: int, prefixes: int) -> bool:
    """Return whether a history saw enough of the target. The last look is one of `observations`."""
    return observations > LOOKS and prefixes >= STATES


class PipelineFailed(Exception):
    """A part ended with an error that no fault explains, or did not come to where it should be in time. The message says
    which part, its exit code and its last lines."""


class Pipeline(Protocol):
    """One job from its first load to its end, with its faults. A part that a fault ends is started again, as an operator
    would do it. `truncates`: for each target, whether TRUNCATE is applied as such there (K16). `others`: further targets of
    the job, each with a schema of the same name. `meets`: the failpoint that the job has reached before the transactions begin
    that run during its load, "": none."""

    meets: str
    truncates: tuple[bool, ...]
    others: tuple[Database, ...]

    def start(self) -> None:
        """Capture, load and apply begin; returns at once."""

    def committed(self, transactions: int) -> None:
        """The source's sessions have committed so many transactions since the load began to be followed: faults that wait
        for a number begin."""

    def wait_loading(self, seconds: float) -> None:
        """Wait until the transactions that run during the load may begin. Raises PipelineFailed.

        Some histories begin them at once, so that they meet the beginning of capture, others when tables are read."""

    def wait_consistent(self, seconds: float) -> None:
        """Wait until every table streams; some of further targets may not yet. Raises PipelineFailed."""

    def wait_caught_up(self, seconds: float) -> None:
        """Wait until all that the source has committed by now is at every target. Raises PipelineFailed."""

    def settle(self, seconds: float) -> bool:
        """Wait until no fault is under way, every part lives, and all is at the target again. Raises PipelineFailed.

        Returns False where some fault did not end: then the history does not count."""

    def look(self) -> None:
        """Raises what went wrong by itself, if anything did."""

    def fired(self) -> tuple[Fault, ...]:
        """The faults that happened."""

    def beside(self) -> tuple[str, ...]:
        """Further tables that are to be looked at, in the same snapshots."""

    def wrong_beside(self, seen: Mapping[str, Sequence[bytes]], losses: int) -> str:
        """Return what is wrong with what was seen of them, by table, in order (lines of COPY); "" for nothing.

        `losses`: how often the target was made to forget its last commits."""

    def noted(self) -> Sequence[Noted]:
        """The conflicts that the job has noted, where somebody else may write to the target. Raises a driver's error."""

    def definitions(self) -> Sequence[Sequence[tuple[str, str]]]:
        """Return what each target has noted of changes of definitions, in order: the table, what became of the change. Asked
        at the end, where a history makes, renames or drops tables. Raises AnabranchError."""

    def hits(self) -> frozenset[str]:
        """The failpoints that were reached, in any part, whether or not a fault stood there."""

    def stop(self) -> None:
        """End everything of ours and give back what faults took. Raises nothing."""
