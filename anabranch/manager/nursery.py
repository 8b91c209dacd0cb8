"""The nursery of a manager's jobs: a process below the manager that has everything imported, and forks what runs a job.

Fifty jobs then share one copy of the libraries that each of them would load for itself, and start without loading them. It
begins with the first job, and ends with the manager; jobs go on. What cannot be forked (no Linux, a job with another Python
path, another release in the place of the one that was loaded) is started as a program, which costs its memory and nothing
else. What does not live here: what a fork does (cli/forks.py), when a job is started (supervising.py).
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from anabranch import log, version
from anabranch.job.forking import ROOM, ForkedProcess, ForkServer

MODULE = "anabranch.cli.forks"
READ_AT_START = ("ANABRANCH_COMPILED", "PYTHONHOME", "PYTHONPATH")  # they count when Python and modules are loaded
AGAIN_S = 300.0  # until another nursery is tried, where one could not begin


@dataclass
class Nursery:
    """`environment`: the manager's, without what is secret of it: it is to be seen in /proc beside each fork. `gives_up`:
    whether nobody waits for a job to start any more."""

    environment: Mapping[str, str]
    can_fork: bool = sys.platform == "linux"
    gives_up: Callable[[], bool] = lambda: False
    _server: ForkServer | None = field(default=None, init=False)
    _not_before: float = field(default=0.0, init=False)
    _release: int = field(default_factory=lambda: _installed(), init=False)

    def start(
        self, words: Sequence[str], environment: Mapping[str, str], directory: Path, output: Path
    ) -> ForkedProcess | None:
        """Fork `anabranch WORDS`, in a session of its own, with its output behind what the file `output` has.

        Returns None for what has to be started as a program. Raises OSError where there is no room for a process,
        InterruptedError as soon as it `gives_up`."""
        if not self._fits(environment):
            return None
        request = [list(words), dict(environment), str(directory), str(output)]
        while time.monotonic() >= self._not_before:
            is_new = self._server is None
            self._server = self._server or ForkServer.started(MODULE, " " * ROOM, environment=self.environment)
            try:
                child = self._server.fork(request, self.gives_up)
            except RuntimeError as error:  # it was killed: once more, with another one
                log.get().warning("nursery_gone", error=str(error))
                self.end()
                self._not_before = time.monotonic() + AGAIN_S * is_new
                continue
            child.let_go()  # it outlives us
            return ForkedProcess(child)
        return None

    def end(self) -> None:
        """Let it end; what it has forked goes on."""
        if self._server is not None:
            self._server.close()
            self._server = None

    def _fits(self, environment: Mapping[str, str]) -> bool:
        """Return whether a fork is what a program with this environment would be."""
        is_alike = all(environment.get(name) == self.environment.get(name) for name in READ_AT_START)
        return self.can_fork and is_alike and _installed() == self._release


def _installed() -> int:
    """Return what differs as soon as another release is installed in the place of this one."""
    try:
        return Path(version.__file__).stat().st_mtime_ns
    except OSError:
        return 0
