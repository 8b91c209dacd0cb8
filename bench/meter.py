"""What a run costs each kind of process: ours by what they are (capture, apply, a Spark worker, the JVM), servers by name."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Self

from anabranch.demo.child import descendants
from anabranch.testing.servers import Server
from anabranch.testing.usage import kind_of
from bench.processes import Cost, Program, Use, cpu, own_cpu, peak_rss

QUIET, LOOK, LONGEST = 0.05, 2.0, 120.0  # cores; seconds between two looks, and of waiting at most
OFTEN = 0.1


def until_quiet(servers: Mapping[str, Server]) -> float:
    """Wait for what servers still do for a workload that is over (vacuum, pages to be written). The seconds that it took; what
    is never quiet is measured as it is."""
    begin = time.monotonic()
    while time.monotonic() - begin < LONGEST:
        meter = Meter([], servers)
        time.sleep(LOOK)
        cost = meter.cost()
        if sum(use.cpu for use in cost.each.values()) < QUIET * cost.seconds:
            break
    return time.monotonic() - begin


class Meter:
    """Begins when it is made. Programs and servers that start later, or end before `cost` is asked, are not in it."""

    def __init__(self, programs: Sequence[Program], servers: Mapping[str, Server] | None = None) -> None:
        self._trees: list[Callable[[], list[int]]] = [_tree(program) for program in programs]
        self._servers = {name: server for name, server in (servers or {}).items() if server.pid is not None}
        self._before = {pid: cpu([pid]) for pid in [*self._ours(), *self._theirs()]}
        self._begin = time.monotonic()

    def cost(self, end: float | None = None) -> Cost:
        """From the beginning until now; `end`: a moment of time.monotonic() at which the clock was stopped."""
        kinds: dict[str, list[int]] = {}
        for pid in self._ours():
            kinds.setdefault(kind_of(pid), []).append(pid)
        each = {kind: self._use(pids) for kind, pids in sorted(kinds.items())}
        whole = Use(sum(use.cpu for use in each.values()), max((use.rss for use in each.values()), default=0.0))
        servers = {name: self._use(_family(server)) for name, server in self._servers.items()}
        return Cost((end or time.monotonic()) - self._begin, whole.cpu, whole.rss, each | servers)

    def _use(self, pids: Sequence[int]) -> Use:
        return Use(max(0.0, sum(cpu([pid]) - self._before.get(pid, 0.0) for pid in pids)), peak_rss(pids))

    def _ours(self) -> list[int]:
        return [pid for tree in self._trees for pid in tree()]

    def _theirs(self) -> list[int]:
        return [pid for server in self._servers.values() for pid in _family(server)]


def _tree(program: Program) -> Callable[[], list[int]]:
    return lambda: program.tree


def _family(server: Server) -> list[int]:
    return [server.pid, *descendants(server.pid)] if server.pid is not None else []


class Sampled:
    """What a program and all that it starts take while the context is open, also where they end meanwhile: by looking often.
    What a process does behind the last look at it is not seen."""

    def __init__(self, program: Program) -> None:
        self._program, self._ending = program, threading.Event()
        self._spent: dict[int, tuple[str, float]] = {}

    def __enter__(self) -> Self:
        self._begin = time.monotonic()
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._ending.set()
        self._thread.join()

    def _follow(self) -> None:
        while not self._ending.wait(OFTEN):
            self._look()

    def _look(self) -> None:
        for pid in self._program.tree:
            if spent := own_cpu(pid):
                known = self._spent.get(pid)
                self._spent[pid] = (known[0] if known and known[1] > 0.5 else kind_of(pid), spent)

    def cost(self) -> Cost:
        """Until now."""
        self._look()
        each: dict[str, float] = {}
        for kind, spent in list(self._spent.values()):
            each[kind] = each.get(kind, 0.0) + spent
        uses = {kind: Use(spent, 0.0) for kind, spent in sorted(each.items())}
        return Cost(time.monotonic() - self._begin, sum(each.values()), peak_rss(self._program.tree), uses)
