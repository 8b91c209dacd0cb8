"""`anabranch VERB …` as a fork of a process that has everything imported: Python's start and the imports are most of what a
short command costs, and scenarios give 1,200.

A command that is started so is a process like any other: its own session, environment, output and command line in /proc;
the parts of `run` are forks below it. What does not live here: scenarios (scenario.py); Python's own start, which the demo,
the upgrade and the command line's tests have.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import faulthandler
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from pkgutil import walk_packages
from typing import Any

import anabranch
from anabranch import pace
from anabranch.pace import Pace
from anabranch.testing.forking import Forked, ForkServer, import_all, serve
from anabranch.testing.in_time import PATIENCE

QUICK = Path(__file__).parent / "quick"
READ_AT_START = (
    "ANABRANCH_COMPILED",
    "PYTHONPATH",
)  # of the environment, by modules as they are imported, and by Python
LEFT_OUT = ("anabranch.demo", "anabranch.testing", "anabranch.__main__", "anabranch.trail.pack")
# What modules import when they are asked. Each that a command needs and that is missing here costs every command of a scenario.
BESIDES = (
    "encodings.idna",
    "encodings.utf_8_sig",
    "numpy.ma",
    "psycopg.types.json",
    "pyarrow.acero",
    "pyarrow.dataset",
    "pyspark.sql",
    "rich.progress",
    "sqlglot",
    "sqlite3",
    "structlog",
)
ROOM = 8192  # bytes of a command line
# What a product at rest looks at now and then, a quick scenario's processes look at more often: the test waits for it.
BRISK = Pace(
    apply_tick=0.05,
    apply_chores=0.2,
    apply_register=1.0,
    capture_heartbeat=0.1,
    capture_requests=0.1,
    capture_tables=1.0,
    capture_end=0.5,
    capture_drop=1.0,
    log_idle=0.1,
    repair_poll=0.05,
)


class ForkedProcess:
    """Offer what is used of subprocess.Popen for a forked child."""

    def __init__(self, child: Forked) -> None:
        self._child = child

    @property
    def pid(self) -> int:
        return self._child.pid

    @property
    def returncode(self) -> int | None:
        return self._child.code()

    def poll(self) -> int | None:
        return self._child.code()

    def wait(self, timeout: float | None = None) -> int:
        code = self._child.wait(timeout)
        if code is None:
            raise subprocess.TimeoutExpired("anabranch", timeout or 0.0)
        return code

    def send_signal(self, number: signal.Signals) -> None:
        self._child.send(number)

    def kill(self) -> None:
        self._child.send(signal.SIGKILL)


def start(
    words: Sequence[str],
    environment: Mapping[str, str],
    out: Path,
    err: Path,
    given: Path | None = None,
    *,
    is_quick: bool,
) -> ForkedProcess:
    """`anabranch WORDS`, its output going behind what these files have; it reads from `given`."""
    server = _server(tuple(os.environ.get(name) for name in READ_AT_START))
    files = [str(out), str(err), *([str(given)] if given else [])]
    child = server.fork([list(words), dict(environment), files, is_quick])
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
    return [*(one for one in ours if not one.startswith(LEFT_OUT)), *BESIDES, "rigs_quick"]


def _become(request: Any, alive: int) -> None:
    """Be a command, and end as it does; what is not SystemExit is raised."""
    words, environment, outputs, is_quick = request
    os.setsid()
    if outputs:
        os.close(alive)
        for handle, file in enumerate(outputs[:2], 1):
            _be(handle, os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666))
        for file in outputs[2:]:
            _be(0, os.open(file, os.O_RDONLY))
    else:
        _be(0, alive)
    os.environ.clear()
    os.environ.update(environment)
    faulthandler.enable(2)  # as PYTHONFAULTHANDLER does where Python starts
    time.tzset()
    _show([sys.executable, "-m", "anabranch", *words])
    sys.argv[:] = [str(Path(anabranch.__file__).with_name("__main__.py")), *words]
    from anabranch import failpoints
    from anabranch.cli.main import main

    if is_quick:
        pace.use(BRISK)
    if words[0] == "run":
        _fork_parts(is_quick)
    if is_quick and {"load", "apply", "verify", "--scan"} & set(words):
        from rigs_quick import in_this_process

        in_this_process()
    failpoints.arm(os.environ)
    try:
        main(words)
    except SystemExit as end:
        _leave(end.code)


def _leave(code: object) -> None:
    """End as Python does, but without taking every module apart, which copies all the memory that children share: wait for
    threads, do what was asked for at the end, write what is left of the output."""
    try:
        threading._shutdown()  # type: ignore[attr-defined]  # there is no public name for it
        atexit._run_exitfuncs()
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):  # who read it is gone, or it is closed
                stream.flush()
    finally:  # a signal that comes now changes the code as little as it does in Python's own end
        os._exit(code if isinstance(code, int) else int(code is not None))


def _be(handle: int, opened: int) -> None:
    os.dup2(opened, handle)
    os.close(opened)


def _fork_parts(is_quick: bool) -> None:
    """Let `run` fork its parts, too, from a process below it that has no thread."""
    from anabranch.job import children

    server = ForkServer.forked(_become, lambda: _show(["forks of", str(os.getppid())]))

    def start(child: children.Child) -> None:
        environment = {**os.environ, children.SUPERVISED: "1", **child.environment}
        child.process = ForkedProcess(server.fork([child.command[3:], environment, [], is_quick]))  # type: ignore[assignment]  # has what is used of Popen

    children.Child.start = start  # type: ignore[method-assign]  # in this process alone, which is a test's command


def _show(words: Sequence[str]) -> None:
    """Write a command line where /proc has it (see proc_pid_cmdline(5)): over the server's own, which has room."""
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    begin, end = (
        int(fields[45]),
        int(fields[46]),
    )  # arg_start and arg_end; the first field here is the third of the page
    line = b"\0".join(word.encode() for word in words)[: end - begin - 1]
    ctypes.memmove(begin, line.ljust(end - begin, b"\0"), end - begin)


if __name__ == "__main__":
    from anabranch.cli.main import ALLOCATOR

    os.environ.setdefault(*ALLOCATOR)
    sys.path.append(str(QUICK))  # not sooner: its sitecustomize is for processes that Python starts
    import_all(_modules())
    serve(socket.socket(fileno=int(sys.argv[1])), _become)
