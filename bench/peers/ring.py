"""The peers of one workload in turns with ours: who takes part, what each run of theirs cost, a line per peer in the end.

A peer that cannot take part, or fails on its way, gets a line that says why; a wrong result ends the run."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Generic, Self, TypeVar

from anabranch.errors import AnabranchError
from anabranch.testing.databases import Database, create_database
from bench.figures import Figure, Side, compared
from bench.orders import Orders
from bench.peers import Follower, Loader, Peer, Reader
from bench.peers.place import Following, settle
from bench.processes import Cost, ProgramFailed
from bench.stand import Stand

P = TypeVar("P", bound=Peer)
LONGEST = 200


class NotMeasured(Figure):
    """Of a peer that did not take part with a source; facts has why."""

    @property
    def verdict(self) -> str:
        return "not measured"

    def __str__(self) -> str:
        return f"{self.workload} {self.source} not measured: {self.facts['not_measured']}"


class Ring(Generic[P]):
    """Of the peers of `workload`: "W2 capture", `of` a source or a pair."""

    def __init__(self, workload: str, stand: Stand, of: str, peers: Sequence[P]) -> None:
        self._workload, self._stand, self._of = workload, stand, of
        self.absent: list[Figure] = []  # a line for each that does not take part, or has failed
        self.peers = list(peers)
        for peer in peers:
            if reason := peer.missing(stand):
                self._leave(peer, reason)
        self._costs: dict[str, list[Cost]] = {peer.name: [] for peer in self.peers}

    def each(self, step: Callable[[P], Cost | None]) -> None:
        """One after the other; what a step costs is kept."""
        for peer in list(self.peers):
            try:
                cost = step(peer)
            except (ProgramFailed, AnabranchError) as e:
                self._leave(peer, str(e))
            else:
                if cost is not None:
                    self._costs[peer.name].append(cost)

    def figures(self, ours: Side, goals: Mapping[str, float]) -> list[Figure]:
        """How many times quicker ours is than each: their median time to ours."""
        figures = []
        for peer in self.peers:
            theirs = Side(peer.name, "the same rows", ours.work, self._costs[peer.name])
            name = f"{self._workload}/{peer.name}"
            figures.append(compared(name, self._of, ours, theirs, goals.get(peer.name)))
        return figures + self.absent

    def _leave(self, peer: P, reason: str) -> None:
        self.peers.remove(peer)
        print(f"{self._workload}/{peer.name}: {reason}", file=sys.stderr)
        name = f"{self._workload}/{peer.name}"
        self.absent.append(NotMeasured(name, self._of, "ratio", 0.0, facts={"not_measured": summary(reason)}))


class Loaders(Ring[Loader]):
    """Those of W1, into a database of their own. What each needs for ten rows is its start, which does not count."""

    def __init__(self, workload: str, stand: Stand, of: str, peers: Sequence[Loader]) -> None:
        super().__init__(workload, stand, of, peers)
        self._starts: dict[str, Cost] = {}
        self._target = create_database(stand.target, "peers")

    def start(self, few: Database) -> None:
        """With a table of a few rows."""

        def start(peer: Loader) -> None:
            self._starts[peer.name] = peer.load(self._stand, few, self._target)

        self.each(start)

    def load(self, source: Database) -> None:
        """Each in its turn."""

        def load(peer: Loader) -> Cost:
            cost, start = peer.load(self._stand, source, self._target), self._starts[peer.name]
            self._stand.at.flush()
            return Cost(cost.seconds - start.seconds, cost.cpu - start.cpu, cost.rss)

        self.each(load)


def summary(reason: str) -> str:
    """One line of what a program has said: the first error, else the last line."""
    lines = [line.strip() for line in reason.strip().splitlines()] or ["it does not say why"]
    return next((line for line in lines if re.search(r"exception|error|fatal", line, re.I)), lines[-1])[:LONGEST]


class Readers(Ring[Reader]):
    """Those of W2; they are stopped where the context ends."""

    def begin(self, orders: Orders) -> None:
        """Their place is here."""

        def begin(peer: Reader) -> None:
            self._begun.append(peer)
            peer.begin(self._stand, orders)

        self.each(begin)

    def __enter__(self) -> Self:
        self._begun: list[Reader] = []
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for peer in self._begun:
            peer.stop()


class Followers(Ring[Follower]):
    """Those of W3; they are stopped where the context ends."""

    def __init__(self, workload: str, stand: Stand, of: str, peers: Sequence[Follower]) -> None:
        super().__init__(workload, stand, of, peers)
        self._following: dict[str, Following] = {}

    def start(self, orders: Orders, target: Database, changes: int) -> None:
        """Each gets its copy of `target`, follows one backlog of so many changes to be warm, and waits."""

        def start(peer: Follower) -> None:
            self._following[peer.name] = following = Following(peer, self._stand, orders, target)
            following.start()

        self.each(start)
        if self.peers:
            orders.backlog(changes)
            self.each(lambda peer: self._following[peer.name].warm_up())
            settle(self._stand, orders.database, target, "ours")

    def catch_up(self) -> None:
        """Each in its turn, all that was done since the last time."""
        self.each(lambda peer: self._following[peer.name].catch_up())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for following in self._following.values():
            following.stop()
