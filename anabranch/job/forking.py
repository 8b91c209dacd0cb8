"""Processes in milliseconds: a server of our own that has everything imported, and forks. Its children share that memory.

A module that serves runs as `python -m MODULE FD`, for whoever has the other end of a socket, and ends with it. Each request
comes with two descriptors: one that the child can read as its standard input, which closes when the asker is gone, and one
for its process id and, later, its exit code. Linux only. What does not live here: what is imported, and what a child does
(cli/forks.py, testing/torture/forks.py).
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
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

from anabranch.config.options import build_models
from anabranch.config.section import build_sections

LONGEST_REQUEST = 1 << 16
ENDING = (signal.SIGINT, signal.SIGTERM)
_NUMBER = struct.Struct("<q")
Become = Callable[[Any, int], object]
"""Turn a child into what its request asks for; it also gets the descriptor of its standard input, and ends with this."""


@dataclass(eq=False)
class Forked:
    """A child of the server. Its end is known once `code` is asked; negative: the signal."""

    pid: int
    _status: int  # descriptor
    _alive: int | None
    _code: int | None = field(default=None, init=False)

    def code(self) -> int | None:
        """Return its exit code, negative for a signal; None while it runs."""
        if self._code is None and _is_readable(self._status, 0.0):
            data = os.read(self._status, _NUMBER.size)
            self._code = _NUMBER.unpack(data)[0] if data else -signal.SIGKILL  # the server is gone, and it with it
            os.close(self._status)
            self.let_go()
        return self._code

    def wait(self, seconds: float | None) -> int | None:
        """Wait for its end, or so many seconds; None: as long as it takes."""
        if self._code is None:
            _is_readable(self._status, seconds)
        return self.code()

    def send(self, number: int) -> bool:
        """Send a signal. Returns False where it is gone."""
        if self.code() is not None:
            return False
        with contextlib.suppress(ProcessLookupError):  # it ended between the question and the signal
            os.kill(self.pid, number)
            return True
        return False

    def let_go(self) -> None:
        """Its standard input closes: it ends, as if we were gone."""
        if self._alive is not None:
            os.close(self._alive)
            self._alive = None


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
        """Wait for its end. Raises subprocess.TimeoutExpired, as Popen does."""
        code = self._child.wait(timeout)
        if code is None:
            raise subprocess.TimeoutExpired("anabranch", timeout or 0.0)
        return code

    def send_signal(self, number: int) -> None:
        self._child.send(number)

    def kill(self) -> None:
        self._child.send(signal.SIGKILL)


def _is_readable(handle: int, seconds: float | None) -> bool:
    poll = select.poll()  # not select, which takes no descriptor over 1,023
    poll.register(handle, select.POLLIN)
    return bool(poll.poll(None if seconds is None else seconds * 1000))


@dataclass(frozen=True)
class ForkServer:
    """The asker's end of a server."""

    control: socket.socket

    @classmethod
    def started(
        cls, module: str, *arguments: str, paths: Iterable[Path] = (), environment: Mapping[str, str] | None = None
    ) -> ForkServer:
        """Start `python -m MODULE FD ARGUMENTS`, whose process ends with ours; importing everything takes it a second.

        `environment`: its variables, by default ours. Whoever may look at a child in /proc sees these, not the child's own."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        variables = dict(os.environ if environment is None else environment)
        places = [str(Path(__file__).parents[2]), *map(str, paths), variables.get("PYTHONPATH", "")]
        subprocess.Popen(
            [sys.executable, "-m", module, str(theirs.fileno()), *arguments],
            stdin=subprocess.DEVNULL,
            pass_fds=[theirs.fileno()],
            # a thread before a fork is one too many
            env=variables | {"PYTHONPATH": os.pathsep.join(filter(None, places)), "OPENBLAS_NUM_THREADS": "1"},
            start_new_session=True,
        )
        theirs.close()
        return cls(ours)

    @classmethod
    def forked(cls, become: Become, begin: Callable[[], object]) -> ForkServer:
        """Start one as a fork of this process, which has no other thread yet: its children are below this process. `begin` is
        what it does first."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        if not os.fork():
            os.setsid()  # a signal to our group is not for it
            ours.close()
            begin()
            serve(theirs, become)
            os._exit(0)
        theirs.close()
        return cls(ours)

    def fork(self, request: Any) -> Forked:
        """Return a child that does what `request` (JSON) asks for. Raises RuntimeError where the server is gone, and for a
        request of 64 KB and more."""
        message = json.dumps(request).encode()
        if len(message) >= LONGEST_REQUEST:
            raise RuntimeError(f"the server that forks takes no request of {len(message)} bytes")
        theirs, alive = os.pipe()
        status, told = os.pipe()
        try:
            with contextlib.suppress(OSError):  # it is gone: nothing is read below
                socket.send_fds(self.control, [message], [theirs, told])
        finally:
            os.close(theirs)
            os.close(told)
        data = os.read(status, _NUMBER.size)
        if not data:
            os.close(status)
            os.close(alive)
            raise RuntimeError("the server that forks is gone")
        return Forked(_NUMBER.unpack(data)[0], status, alive)

    def close(self) -> None:
        """Let the server end; its children go on."""
        self.control.close()


# --- the server -------------------------------------------------------------------------------------------------------


def import_all(modules: Iterable[str], is_lenient: bool = False) -> None:
    """Import what children need, and prepare the reading of job files, for all of them to share.

    `is_lenient`: a library that is not installed is left to the child that needs it, which says so. Else raises ImportError."""
    for module in modules:
        with contextlib.suppress(*[ImportError] * is_lenient):  # the child that needs it meets it again
            import_module(module)
    build_sections()
    build_models()
    gc.collect()
    gc.freeze()  # so that children share what is never touched


def serve(control: socket.socket, become: Become) -> None:
    """Fork for each request until the asker is gone. In a child it returns never: `become` ends it, or raises SystemExit.

    Signals to end are not for the server: what it has forked would be taken for dead."""
    ended, wake = os.pipe()
    os.set_blocking(ended, False)
    os.set_blocking(wake, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    former = [(number, signal.signal(number, signal.SIG_IGN)) for number in ENDING]
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    children: dict[int, int] = {}
    asked = select.poll()
    for handle in (control.fileno(), ended):
        asked.register(handle, select.POLLIN)
    while True:
        ready = {handle for handle, _ in asked.poll()}
        if ended in ready:
            os.read(ended, 1 << 12)
            _reap(children)
        if control.fileno() in ready:
            data, handles, _, _ = socket.recv_fds(control, LONGEST_REQUEST, 2)
            if not data:
                return
            alive, told = handles
            signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)  # one that comes at once is for the child, and is not lost
            pid = os.fork()
            if not pid:
                signal.set_wakeup_fd(-1)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                for number, handler in former:
                    signal.signal(number, handler)
                signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)
                for handle in (ended, wake, told, *children.values()):
                    os.close(handle)
                control.close()
                become(json.loads(data), alive)
                os._exit(0)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)
            with contextlib.suppress(BrokenPipeError):  # who asked is gone; the child will notice
                os.write(told, _NUMBER.pack(pid))
            os.close(alive)
            children[pid] = told


def _reap(children: dict[int, int]) -> None:
    with contextlib.suppress(ChildProcessError):  # none is left to wait for
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                return
            told = children.pop(pid)
            with contextlib.suppress(BrokenPipeError):  # who asked is gone
                os.write(told, _NUMBER.pack(os.waitstatus_to_exitcode(status)))
            os.close(told)
