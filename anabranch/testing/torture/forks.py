"""The parts of a job under torture as forks of a server that has everything imported (job/forking.py).

What does not live here: what a child does (local.py).
"""

from __future__ import annotations

import faulthandler
import os
import signal
import socket
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any

from anabranch.job.forking import Forked, ForkServer, import_all, serve
from anabranch.testing.torture import sources, targets
from anabranch.testing.torture.local import Small, run_part

PRELOADED = (
    "anabranch.apply.run",
    "anabranch.connectors.memory",
    "anabranch.job.preflight",
    "anabranch.lifecycle.arming",
    "anabranch.lifecycle.beginning",
    "anabranch.lifecycle.beginning_changes",
    "anabranch.lifecycle.loading",
    "anabranch.lifecycle.loading_one",
    "anabranch.job.in_rounds",
    "encodings.idna",
    "encodings.utf_8_sig",
    "importlib.readers",
    "numpy.ma",
    "pyarrow.dataset",
    "pydantic.dataclasses",
    "pydantic.plugin._loader",
    "sqlglot",
    "sqlite3",
    "structlog",
)


def fork(part: str, job_file: Path, environment: Mapping[str, str], output: Path, small: Small) -> Forked:
    """A process that is `part` of the job."""
    return _server().fork([part, str(job_file), dict(environment), str(output), asdict(small)])


@cache
def _server() -> ForkServer:
    """One for this process."""
    return ForkServer.started(__name__)


def _become(request: Any, alive: int) -> None:
    """Be a part; never returns."""
    part, job_file, environment, output, small = request
    os.dup2(alive, 0)
    os.close(alive)
    faulthandler.enable(2)  # where a library breaks the process, its log says what it was doing
    try:
        run_part(part, job_file, environment, output, Small(**small))
    finally:
        os._exit(1)


if __name__ == "__main__":
    needed = [module for name in sources.NAMES for module in sources.source_family(name).preloaded]
    for name in targets.NAMES:
        with suppress(ModuleNotFoundError):  # a driver that is not installed, which no history here needs then
            needed += targets.target_family(name).preloaded
    import_all((*PRELOADED, *needed))
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])  # a child takes it when it knows what it means
    serve(socket.socket(fileno=int(sys.argv[1])), _become)
