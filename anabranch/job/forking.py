"""Processes in milliseconds: a server of our own that has everything imported, and forks. Its children share that memory.

A module that serves runs as `python -m MODULE FD`, for whoever has the other end of a socket, and ends with it. Each request
comes with two descriptors: one that the child can read as its standard input, which closes when the asker is gone, and one
for its process id and, later, its exit code. Linux only. What does not live here: what is imported, and what a child does
(cli/forks.py, testing/torture/forks.py).
"""

from __future__ import annotations

import contextlib
import errno
import gc
import json
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import sysconfig
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

from anabranch.config.options import build_models
from anabranch.config.section import build_sections

ANSWER_S = 30.0  # within which a server answers, which may have to import everything first
END_S = 5.0  # for a server to end that is asked to
LOOK_S = 0.1  # between two looks whether who asks gives up
ROOM = 1024  # bytes that a server's own command line has for those of its children (cli/forks.py)
# A thread before a fork is one too many: the child does not have it, and jemalloc would wait for it to give memory back.
UNTHREADED = {"OPENBLAS_NUM_THREADS": "1", "JE_ARROW_MALLOC_CONF": "background_thread:false"}
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
            self._code = _NUMBER.unpack(data)[0] if data else -signal.SIGKILL
            os.close(self._status)
            if not data and self._alive is not None:  # the server is gone: a child that is to end with us ends now
                with contextlib.suppress(ProcessLookupError):  # it has ended already
                    os.kill(self.pid, signal.SIGKILL)
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


def _is_answered(status: int, gives_up: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + ANSWER_S
    while not (is_there := _is_readable(status, LOOK_S)) and time.monotonic() < deadline and not gives_up():
        continue
    return is_there


def is_left(handle: int) -> bool:
    """Return whether nobody has the other end of a socket, or of a pipe that we write to."""
    poll = select.poll()
    poll.register(handle, 0)  # errors and the end are always told
    return bool(poll.poll(0))


@dataclass(frozen=True)
class ForkServer:
    """The asker's end of a server. `pid`: of one that is a child of this process."""

    control: socket.socket
    pid: int | None = None

    @classmethod
    def started(
        cls, module: str, *arguments: str, paths: Iterable[Path] = (), environment: Mapping[str, str] | None = None
    ) -> ForkServer:
        """Start `python -P -m MODULE FD ARGUMENTS`, whose process ends with ours; importing everything takes it seconds.

        `environment`: its variables, by default ours. Whoever may look at a child in /proc sees these, not the child's own.
        `paths`: more directories of modules. The directory in which we are is none of them: anybody may write to it."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        variables = dict(os.environ if environment is None else environment)
        places = [*_own_place(), *map(str, paths), variables.get("PYTHONPATH", "")]
        started = subprocess.Popen(
            [sys.executable, "-P", "-m", module, str(theirs.fileno()), *arguments],
            stdin=subprocess.DEVNULL,
            pass_fds=[theirs.fileno()],
            env=variables | UNTHREADED | {"PYTHONPATH": os.pathsep.join(filter(None, places))},
            start_new_session=True,
        )
        theirs.close()
        return cls(ours, started.pid)

    @classmethod
    def forked(cls, become: Become, begin: Callable[[], object]) -> ForkServer:
        """Start one as a fork of this process, which has no other thread yet: its children are below this process. `begin` is
        what it does first."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        if not (pid := os.fork()):
            os.setsid()  # a signal to our group is not for it
            ours.close()
            begin()
            serve(theirs, become)
            os._exit(0)
        theirs.close()
        return cls(ours, pid)

    def fork(self, request: Any, gives_up: Callable[[], bool] = lambda: False) -> Forked:
        """Return a child that does what `request` (JSON) asks for. Raises RuntimeError where the server is gone or does not
        answer, OSError where there is no room for a process or for what is needed to ask; InterruptedError as soon as we give
        up. A request that nobody waits for any more is not carried out."""
        (theirs, alive), (status, told) = os.pipe(), os.pipe()
        message = os.memfd_create("request")  # as long as it may be
        try:
            with open(message, "w", closefd=False) as file:
                json.dump(request, file)
            with contextlib.suppress(ConnectionError):  # it is gone: nothing is read below
                socket.send_fds(self.control, [b"?"], [message, theirs, told])
        finally:
            for handle in (message, theirs, told):
                os.close(handle)
        data = os.read(status, _NUMBER.size) if _is_answered(status, gives_up) else None
        pid = _NUMBER.unpack(data)[0] if data else 0
        if pid <= 0:
            os.close(status)
            os.close(alive)
        if pid < 0:
            raise OSError(-pid, os.strerror(-pid))
        if not pid:
            if data is None and gives_up():
                raise InterruptedError(errno.EINTR, "nobody waits for the server that forks any more")
            raise RuntimeError(
                "the server that forks is gone" if data == b"" else "the server that forks does not answer"
            )
        return Forked(pid, status, alive)

    def close(self) -> None:
        """Let the server end, and wait for that, if it is a child of ours; its own children go on."""
        self.control.close()
        deadline = time.monotonic() + END_S
        with contextlib.suppress(ChildProcessError):  # somebody else has waited for it
            while self.pid is not None and time.monotonic() < deadline and not os.waitpid(self.pid, os.WNOHANG)[0]:
                time.sleep(0.01)


def _own_place() -> list[str]:
    """Return where this package is, unless Python finds it there by itself: what is installed comes behind Python's own."""
    place = Path(__file__).parents[2]
    return [] if str(place) in {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")} else [str(place)]


# --- the server -------------------------------------------------------------------------------------------------------


def import_all(modules: Iterable[str], is_lenient: bool = False) -> None:
    """Import what children need, and prepare the reading of job files, for all of them to share.

    `is_lenient`: what cannot be imported is left to the child that needs it, which says so. Else raises what importing does."""
    for module in modules:
        with contextlib.suppress(*[Exception] * is_lenient):  # whatever it is: the child that needs it meets it again
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
            data, handles, _, _ = socket.recv_fds(control, 1, 3)
            if not data:
                return
            # There is no room for them, which the asker sees since they are closed; or it has given up, and does without.
            if len(handles) < 3 or is_left(handles[2]):
                for handle in handles:
                    os.close(handle)
                continue
            message, alive, told = handles
            signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)  # one that comes at once is for the child, and is not lost
            try:
                pid = os.fork()
            except OSError as error:
                pid = -(error.errno or errno.EAGAIN)
            if not pid:
                os.setsid()
                signal.set_wakeup_fd(-1)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                for number, handler in former:
                    signal.signal(number, handler)
                signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)
                for handle in (ended, wake, told, *children.values()):
                    os.close(handle)
                control.close()
                with open(message) as file:
                    file.seek(0)
                    request = json.load(file)
                become(request, alive)
                os._exit(0)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)
            try:
                os.write(told, _NUMBER.pack(pid))
            except BrokenPipeError:  # who asked has given up meanwhile: nobody knows of the child
                if pid > 0:
                    os.kill(pid, signal.SIGKILL)
            os.close(message)
            os.close(alive)
            if pid > 0:
                children[pid] = told
            else:
                os.close(told)


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
