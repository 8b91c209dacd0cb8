"""The nursery of a manager's jobs: a process below the manager that has everything imported, and forks what runs a job.

Fifty jobs then share one copy of the libraries that each of them would load for itself, and start without loading them. It
begins with the first job, and ends with the manager; jobs go on. What cannot be forked (no Linux, a job with another Python
path) is started as a program, which costs its memory and nothing else. What does not live here:
what a fork does (cli/forks.py), when a job is started (supervising.py).
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from anabranch import log
from anabranch.job.forking import ForkedProcess, ForkServer

MODULE = "anabranch.cli.forks"
ROOM = " " * 8192  # for the command lines of forks, where /proc has them
READ_AT_START = (
    "ANABRANCH_COMPILED",
    "PYTHONHOME",
    "PYTHONPATH",
)  # variables that count when Python and modules are loaded


@dataclass
class Nursery:
    """`environment`: the manager's, without what is secret of it: it is to be seen in /proc beside each fork."""

    environment: Mapping[str, str]
    can_fork: bool = sys.platform == "linux"
    _server: ForkServer | None = field(default=None, init=False)

    def start(
        self, words: Sequence[str], environment: Mapping[str, str], directory: Path, output: Path
    ) -> ForkedProcess | None:
        """Fork `anabranch WORDS`, in a session of its own, with its output behind what the file `output` has.

        Returns None for what has to be started as a program."""
        request = [list(words), dict(environment), str(directory), str(output)]
        if self.can_fork and all(environment.get(name) == self.environment.get(name) for name in READ_AT_START):
            for _ in range(2):
                try:
                    return ForkedProcess(self._asked().fork(request))
                except RuntimeError as error:  # it was killed: once more, with another one
                    log.get().warning("nursery_gone", error=str(error))
                    self.end()
        return None

    def end(self) -> None:
        """Let it end; what it has forked goes on."""
        if self._server is not None:
            self._server.close()
            self._server = None

    def _asked(self) -> ForkServer:
        if self._server is None:
            self._server = ForkServer.started(MODULE, ROOM, environment=self.environment)
        return self._server
