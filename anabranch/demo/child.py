"""A command of the product as a child process: it and everything it starts end with the demo, however that ends."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

END_SECONDS = 15.0  # for what the child started to notice that it is gone
TICK = 0.05


class Child:
    """A process that is started at once, in a session of its own: a Ctrl-C at the terminal is for the demo alone."""

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        stdout: int | IO[Any] | None = None,
        stderr: int | IO[Any] | None = None,
    ) -> None:
        self.process = subprocess.Popen(
            [*_dies_with_us(), *command],
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
            env={**os.environ, **environment},
            start_new_session=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.kill()

    def stop(self, seconds: float) -> int:
        """Ask the process to end (SIGTERM), and kill it if it takes longer than `seconds`. Returns its exit code."""
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            return self.process.returncode

    def kill(self) -> None:
        """Kill the process now. Processes that it started end by themselves when they see that; those that do not are
        killed."""
        if self.process.poll() is not None:
            return
        family = descendants(self.process.pid)
        self.process.kill()
        self.process.wait()
        deadline = time.monotonic() + END_SECONDS
        while any(map(_is_alive, family)) and time.monotonic() < deadline:
            time.sleep(TICK)
        for pid in filter(_is_alive, family):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def descendants(pid: int) -> list[int]:
    """Return the process ids below `pid`; none where there is no /proc."""
    children: dict[int, list[int]] = {}
    for place in Path("/proc").glob("[0-9]*"):
        if facts := _facts(int(place.name)):
            children.setdefault(int(facts[1]), []).append(int(place.name))
    found: list[int] = []
    below = children.get(pid, [])
    while below:
        found += below
        below = [grandchild for child in below for grandchild in children.get(child, [])]
    return found


def _is_alive(pid: int) -> bool:
    return _facts(pid)[:1] not in ([], ["Z"], ["X"])


def _facts(pid: int) -> list[str]:
    """Return state, parent, … of a process (proc_pid_stat(5)); an empty list when it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return []


def _dies_with_us() -> list[str]:
    """Return the command prefix that kills a child when its parent dies:
    https://man7.org/linux/man-pages/man1/setpriv.1.html (util-linux). Without setpriv, a demo that is killed leaves its
    job running."""
    setpriv = shutil.which("setpriv")
    return [setpriv, "--pdeathsig", "KILL", "--"] if setpriv else []
