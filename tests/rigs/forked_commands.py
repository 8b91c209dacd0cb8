"""`anabranch VERB …` as a fork of a process that has everything imported: Python's start and the imports are most of what a
short command costs, and scenarios give 1,200.

A command that is started so is a process like any other: its own session, environment, output and command line in /proc;
the parts of `run` are forks below it (cli/forks.py). What does not live here: scenarios (scenario.py); Python's own start,
which the demo, the upgrade and the command line's tests have.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from pkgutil import walk_packages
from types import SimpleNamespace
from typing import Any

import anabranch
from anabranch import pace
from anabranch.cli import forks
from anabranch.job import children
from anabranch.job.forking import ROOM, ForkedProcess, ForkServer, import_all, serve
from anabranch.manager import lease_shared, nursery, supervising
from anabranch.state import living
from anabranch.testing.in_time import PATIENCE

QUICK = Path(__file__).parent / "quick"
READ_AT_START = (
    "ANABRANCH_COMPILED",
    "PYTHONPATH",
)  # of the environment, by modules as they are imported, and by Python
LEFT_OUT = ("anabranch.demo", "anabranch.testing", "anabranch.__main__", "anabranch.trail.pack")
SILENT_S = 8.0  # until a process of another host is taken for gone
_is_brisk = True


def have_pace_of_product() -> None:
    """Start what is started from here on with the pauses that a product has (`make test-faults`)."""
    global _is_brisk
    _is_brisk = False


def start(
    words: Sequence[str],
    environment: Mapping[str, str],
    out: Path,
    err: Path,
    given: Path | None = None,
    *,
    is_quick: bool,
    has_nursery: bool = True,
) -> ForkedProcess:
    """`anabranch WORDS`, its output going behind what these files have; it reads from `given`. `has_nursery`: what
    forks the jobs of a manager is a fork, too."""
    server = _server(tuple(os.environ.get(name) for name in READ_AT_START))
    files = [str(out), str(err), *([str(given)] if given else [])]
    child = server.fork([list(words), dict(environment), files, (is_quick, _is_brisk, has_nursery)])
    child.let_go()
    return ForkedProcess(child)


def run(
    words: Sequence[str], environment: Mapping[str, str], given: str = "", seconds: float = PATIENCE
) -> subprocess.CompletedProcess[str]:
    """`anabranch WORDS` to its end, as subprocess.run does it with text. Raises TimeoutExpired for one that goes on."""
    with tempfile.TemporaryDirectory() as directory:
        files = [Path(directory) / name for name in ("out", "err", "given")]
        files[2].write_text(given)
        process = start(words, environment, *files, is_quick=False)
        try:
            code = process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
        out, err = (file.read_text() for file in files[:2])
        return subprocess.CompletedProcess(["anabranch", *words], code, out, err)


@cache
def _server(_: tuple[str | None, ...]) -> ForkServer:
    """One for this process, and for what was in the environment when its modules were imported."""
    return ForkServer.started(__name__, " " * ROOM, paths=[Path(__file__).parents[1]])


# --- the server, and its children -------------------------------------------------------------------------------------


def _modules() -> list[str]:
    ours = [module.name for module in walk_packages(anabranch.__path__, "anabranch.")]
    return [*(one for one in ours if not one.startswith(LEFT_OUT)), *forks.BESIDES, "rigs_brisk", "rigs_quick"]


def _become(request: Any, alive: int) -> None:
    """Be a command, and end as it does; what is not SystemExit is raised."""
    words, environment, files, how = request
    os.close(alive)
    for handle, file in enumerate(files[:2], 1):
        forks.be(handle, os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666))
    for file in files[2:]:
        forks.be(0, os.open(file, os.O_RDONLY))
    _be_command(words, environment, *how)


def _be_command(
    words: Sequence[str], environment: Mapping[str, str], is_quick: bool, is_brisk: bool, has_nursery: bool = False
) -> None:
    forks.prepare(words, environment)
    if is_brisk:
        from rigs_brisk import BRISK

        pace.use(BRISK)
        living.SILENT_S = SILENT_S
    if words[0] == "serve":
        _prepare_manager(is_quick, is_brisk, has_nursery)
    if words[0] == "run":
        children.fork_by(forks.part_forks(partial(_become_part, is_quick, is_brisk)))
    if is_quick:
        from rigs_quick import in_this_process

        in_this_process()
    forks.carry_out(words)


def _prepare_manager(is_quick: bool, is_brisk: bool, has_nursery: bool) -> None:
    """Let the manager that this process becomes look more often and take a lease over sooner, and fork its jobs by a fork of
    this process: a program takes seconds to begin."""
    if is_brisk:
        supervising.TICK_S, supervising.LOOK_S = 0.1, 0.5
        lease_shared.RENEW_S, lease_shared.GIVE_UP_S, lease_shared.TAKE_OVER_S = 0.5, 4.0, 6.0
    if not has_nursery:
        return

    def begin() -> None:
        forks.show(["forks for the manager", str(os.getppid())])
        if is_quick:
            from rigs_quick import in_this_process

            in_this_process()

    forked, started = [ForkServer.forked(forks._become_job, begin)], ForkServer.started
    nursery.ForkServer = SimpleNamespace(  # type: ignore[misc,assignment]  # in its place: the first one is here
        started=lambda *given, **named: forked.pop() if forked else started(*given, **named)
    )


def _become_part(is_quick: bool, is_brisk: bool, request: Any, alive: int) -> None:
    words, environment = request
    forks.be(0, alive)
    _be_command(words, environment, is_quick, is_brisk)


if __name__ == "__main__":
    from anabranch.cli.main import ALLOCATOR

    os.environ.setdefault(*ALLOCATOR)
    sys.path.append(str(QUICK))  # not sooner: its sitecustomize is for processes that Python starts
    import_all(_modules())
    serve(socket.socket(fileno=int(sys.argv[1])), _become)
