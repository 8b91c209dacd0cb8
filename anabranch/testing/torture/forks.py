"""Processes in milliseconds: a server of our own that has everything imported, and forks.

`python -m anabranch.testing.torture.forks FD` serves whoever has the other end of a socket, and ends with it. Each request
comes with two descriptors: one that the child reads as its standard input, which closes when the asker is gone, and one for
its process id and, later, its exit code. What does not live here: what a child does (local.py).
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import select
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cache
from importlib import import_module
from pathlib import Path

from anabranch.testing.torture import sources, targets
from anabranch.testing.torture.local import Small, run_part

PRELOADED = (
    "anabranch.apply.run",
    "anabranch.lifecycle.beginning",
    "anabranch.lifecycle.loading",
    "anabranch.job.verifying",
    "importlib.readers",
    "numpy.ma",
    "pyarrow.dataset",
    "sqlglot",
    "sqlite3",
)
LONGEST_REQUEST = 1 << 16
_NUMBER = struct.Struct("<q")


@dataclass(eq=False)
class Forked:
    """A child of the server. Its end is known once `code` is asked; negative: the signal."""

    pid: int
    _status: int  # descriptor
    _alive: int | None
    _code: int | None = field(default=None, init=False)

    def code(self) -> int | None:
        """Return its exit code, negative for a signal; None while it runs."""
        if self._code is None and select.select([self._status], [], [], 0)[0]:
            data = os.read(self._status, _NUMBER.size)
            self._code = _NUMBER.unpack(data)[0] if data else -signal.SIGKILL  # the server is gone, and it with it
            os.close(self._status)
            self.let_go()
        return self._code

    def wait(self, seconds: float) -> int | None:
        if self._code is None:
            select.select([self._status], [], [], seconds)
        return self.code()

    def send(self, number: signal.Signals) -> bool:
        """False where it is gone."""
        if self.code() is not None:
            return False
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, number)
            return True
        return False

    def let_go(self) -> None:
        """Its standard input closes: it ends, as if we were gone."""
        if self._alive is not None:
            os.close(self._alive)
            self._alive = None


def fork(part: str, job_file: Path, environment: Mapping[str, str], output: Path, small: Small) -> Forked:
    """A process that is `part` of the job."""
    theirs, alive = os.pipe()
    status, told = os.pipe()
    request = [part, str(job_file), dict(environment), str(output), asdict(small)]
    try:
        socket.send_fds(_server(), [json.dumps(request).encode()], [theirs, told])
    finally:
        os.close(theirs)
        os.close(told)
    data = os.read(status, _NUMBER.size)
    if not data:
        raise RuntimeError("the server that forks is gone")
    return Forked(_NUMBER.unpack(data)[0], status, alive)


@cache
def _server() -> socket.socket:
    """One for this process; it needs a second to import everything."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    package = str(Path(__file__).parents[3])
    path = os.pathsep.join(filter(None, [package, os.environ.get("PYTHONPATH", "")]))
    subprocess.Popen(
        [sys.executable, "-m", "anabranch.testing.torture.forks", str(theirs.fileno())],
        stdin=subprocess.DEVNULL,
        pass_fds=[theirs.fileno()],
        env=os.environ | {"PYTHONPATH": path, "OPENBLAS_NUM_THREADS": "1"},  # a thread before a fork is one too many
        start_new_session=True,
    )
    theirs.close()
    return ours


# --- the server -------------------------------------------------------------------------------------------------------


def serve(control: socket.socket) -> None:
    needed = [module for name in sources.NAMES for module in sources.source_family(name).preloaded]
    needed += [module for name in targets.NAMES for module in targets.target_family(name).preloaded]
    for module in (*PRELOADED, *needed):
        import_module(module)
    gc.collect()
    gc.freeze()  # so that children share what is never touched
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])  # a child takes it when it knows what it means
    ended, wake = os.pipe()
    os.set_blocking(ended, False)
    os.set_blocking(wake, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    children: dict[int, int] = {}
    while True:
        ready = select.select([control.fileno(), ended], [], [])[0]
        if ended in ready:
            os.read(ended, 1 << 12)
            _reap(children)
        if control.fileno() in ready:
            data, handles, _, _ = socket.recv_fds(control, LONGEST_REQUEST, 2)
            if not data:
                return
            alive, told = handles
            pid = os.fork()
            if not pid:
                signal.set_wakeup_fd(-1)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                for handle in (ended, wake, told, *children.values()):
                    os.close(handle)
                control.close()
                _become(data, alive)
            with contextlib.suppress(BrokenPipeError):  # who asked is gone; the child will notice
                os.write(told, _NUMBER.pack(pid))
            os.close(alive)
            children[pid] = told


def _reap(children: dict[int, int]) -> None:
    with contextlib.suppress(ChildProcessError):
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                return
            told = children.pop(pid)
            with contextlib.suppress(BrokenPipeError):
                os.write(told, _NUMBER.pack(os.waitstatus_to_exitcode(status)))
            os.close(told)


def _become(data: bytes, alive: int) -> None:
    """Never returns."""
    part, job_file, environment, output, small = json.loads(data)
    os.dup2(alive, 0)
    os.close(alive)
    try:
        run_part(part, job_file, environment, output, Small(**small))
    finally:
        os._exit(1)


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])))
