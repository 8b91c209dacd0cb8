"""Be `anabranch VERB …` as a fork of a process that has everything imported: jobs of one machine share that memory, and a
part starts in milliseconds.

Runs as `python -m anabranch.cli.forks FD`, for the manager (manager/nursery.py). A command that is started so is a process
like any other: its own session, environment, directory, output and command line in /proc; the parts of `run` are forks below
it. What does not live here: the server (job/forking.py).
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import faulthandler
import os
import socket
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from pkgutil import walk_packages
from typing import Any

import anabranch
from anabranch.job import children
from anabranch.job.forking import Become, ForkServer, import_all, is_left, serve

# What few jobs use, and what has a process for itself.
LEFT_OUT = (
    "anabranch.__main__",
    "anabranch.api",
    "anabranch.cli",
    "anabranch.connectors.kafka",
    "anabranch.console",
    "anabranch.cutover",
    "anabranch.demo",
    "anabranch.manager",
    "anabranch.recipe",
    "anabranch.scan",
    "anabranch.stores",
    "anabranch.testing",
    "anabranch.trail.pack",
    "anabranch.transport",
)
VERBS = ("run", "capture", "load", "apply", "receive", "route")
# What modules import when they are asked.
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


def needed() -> Iterator[str]:
    """Yield the modules of a job's processes."""
    yield from (f"anabranch.cli.{verb}" for verb in VERBS)
    for module in walk_packages(anabranch.__path__, "anabranch.", onerror=lambda _: None):
        if not module.name.startswith(LEFT_OUT):
            yield module.name
    yield from BESIDES


def become(words: Sequence[str], environment: Mapping[str, str]) -> None:
    """Be the command, in this process, and end as it does."""
    prepare(words, environment)
    if words[0] == "run":
        children.fork_by(part_forks(_become_part))
    carry_out(words)


def prepare(words: Sequence[str], environment: Mapping[str, str]) -> None:
    """Make this process look as if Python had started it for these words, in this environment."""
    os.environ.clear()
    os.environ.update(environment)
    faulthandler.enable(2)  # as PYTHONFAULTHANDLER does where Python starts
    time.tzset()
    show([sys.executable, "-m", "anabranch", *words])
    sys.argv[:] = [str(Path(anabranch.__file__).with_name("__main__.py")), *words]


def carry_out(words: Sequence[str]) -> None:
    """Run the command; it never returns where the command ends the process."""
    from anabranch import failpoints
    from anabranch.cli.main import main

    failpoints.arm(os.environ)
    try:
        main(words)
    except SystemExit as end:
        leave(end.code)


def leave(code: object) -> None:
    """End as Python does, but without taking every module apart, which copies all the memory that children share: wait for
    threads, do what was asked for at the end, write what is left of the output."""
    try:
        threading._shutdown()  # type: ignore[attr-defined]  # there is no public name for it
        atexit._run_exitfuncs()
        children.end_forks()
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):  # who read it is gone, or it is closed
                stream.flush()
    finally:  # a signal that comes now changes the code as little as it does in Python's own end
        os._exit(code if isinstance(code, int) else int(code is not None))


def part_forks(part: Become) -> ForkServer:
    """Start what forks the parts of this process, which has no other thread yet; each is then a `part`."""
    return ForkServer.forked(part, lambda: show(["forks of", str(os.getppid())]))


def be(handle: int, opened: int) -> None:
    """Put an open file in the place of a descriptor."""
    os.dup2(opened, handle)
    os.close(opened)


def show(words: Sequence[str]) -> None:
    """Write a command line where /proc has it (see proc_pid_cmdline(5)): over the server's own, which has room."""
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    begin, end = (
        int(fields[45]),
        int(fields[46]),
    )  # arg_start and arg_end; the first field here is the third of the page
    line = b"\0".join(os.fsencode(word) for word in words)[: end - begin - 1]
    ctypes.memmove(begin, line.ljust(end - begin, b"\0"), end - begin)


def _become_job(request: Any, alive: int) -> None:
    """Be what runs a job: it outlives whoever has asked for it."""
    words, environment, directory, output = request
    os.close(alive)
    os.chdir(directory)
    for handle in (1, 2):
        be(handle, os.open(output, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600))
    become(words, environment)


def _become_part(request: Any, alive: int) -> None:
    """Be a part of a job: its standard input closes when the one that supervises it is gone."""
    words, environment = request
    be(0, alive)
    become(words, environment)


def _while_asked(asker: socket.socket, modules: Iterator[str]) -> Iterator[str]:
    """Yield modules, and end this process as soon as the asker is gone: importing all of them takes seconds, half a minute on a
    busy machine."""
    for module in modules:
        if is_left(asker.fileno()):
            os._exit(0)
        yield module


if __name__ == "__main__":
    # Without its thread jemalloc keeps what was freed (90 MB behind 300), and what gives it back at once costs half its speed.
    os.environ["ARROW_DEFAULT_MEMORY_POOL"] = "system"
    asker = socket.socket(fileno=int(sys.argv[1]))
    import_all(_while_asked(asker, needed()), is_lenient=True)
    with contextlib.suppress(Exception):  # as above: whoever needs it meets it again
        from anabranch.spark import fit

        fit.code()  # of the files that were imported: others may be in their place when a fork compares
    serve(asker, _become_job)
    os._exit(0)  # as `leave` does: without taking apart what jobs share
