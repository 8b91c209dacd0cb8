"""Server processes: started without root's rights, waited for, stopped by process id, never outliving this process.

As root they run as `nobody`; where that account cannot reach the files (a checkout under /root, pytest's private
directories) the process keeps the one capability that reads past directory modes, and nothing else of root.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import pwd
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from queue import SimpleQueue

from anabranch.testing.cache import ServerUnavailable

START_SECONDS = 300.0
STOP_SECONDS = 300.0
NOTHING = Path(os.devnull)
_POLL_SECONDS = 0.02

_running: set[Daemon] = set()
_forks: SimpleQueue[tuple[Future[subprocess.Popen[bytes]], Callable[[], subprocess.Popen[bytes]]]] = SimpleQueue()
_forker: list[int] = []  # process id for which the forking thread runs


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What every program of one server runs in: its directory, environment, log, and the places it reads."""

    directory: Path
    log: Path
    environment: Mapping[str, str]
    reads: tuple[Path, ...]

    def popen(self, command: Sequence[str | Path], reads: Path = NOTHING) -> subprocess.Popen[bytes]:
        """Start `command` in a session of its own (a Ctrl-C here is not for it), its output going to the log and what it
        reads coming from a file."""
        prefix = _prefix((self.directory, *self.reads))
        with self.log.open("ab") as log, reads.open("rb") as given:
            return _fork(
                lambda: subprocess.Popen(
                    [*prefix, *command],
                    stdin=given,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    cwd=self.directory,
                    env=dict(self.environment),
                    start_new_session=True,
                )
            )

    def run(self, command: Sequence[str | Path], reads: Path = NOTHING) -> None:
        """Run `command` to its end; a failure is a `ServerUnavailable` with the first and last lines it printed."""
        before = self.log.stat().st_size if self.log.exists() else 0
        if code := self.popen(command, reads).wait():
            printed = [line for line in self.log.read_bytes()[before:].decode(errors="replace").splitlines() if line]
            excerpt = printed if len(printed) < 16 else [*printed[:8], "…", *printed[-7:]]
            raise ServerUnavailable(f"{Path(command[0]).name} failed with {code}:\n" + "\n".join(excerpt))


@dataclass(eq=False, slots=True)
class Daemon:
    """One server process, which may be started again after it ended.

    `stop_signal` is its clean end, `quit_signal` its quick one; `is_ready` is asked with the process id.
    """

    surroundings: Surroundings
    command: list[str | Path]
    is_ready: Callable[[int], bool]
    stop_signal: signal.Signals = signal.SIGTERM
    quit_signal: signal.Signals = signal.SIGKILL
    _process: subprocess.Popen[bytes] | None = field(default=None, init=False)
    _owner: int = field(default=0, init=False)  # the process that started it: a forked child does not stop it

    @property
    def pid(self) -> int | None:
        """Process id while it runs."""
        return self._process.pid if self._process and self._process.poll() is None else None

    def start(self) -> None:
        """Start and wait until it serves; when it ends or hangs instead, the error carries the tail of its log."""
        if self.pid is not None:
            return
        self._process, self._owner = self.surroundings.popen(self.command), os.getpid()
        _running.add(self)
        deadline = time.monotonic() + START_SECONDS
        while not self.is_ready(self._process.pid):
            name = Path(self.command[0]).name
            if (code := self._process.poll()) is not None:
                raise ServerUnavailable(f"{name} ended with {code} at its start:\n{log_tail(self.surroundings.log)}")
            if time.monotonic() > deadline:
                self.kill()
                tail = log_tail(self.surroundings.log)
                raise ServerUnavailable(f"{name} was not ready after {START_SECONDS:.0f} s:\n{tail}")
            time.sleep(_POLL_SECONDS)

    def stop(self, *, immediate: bool = False) -> None:
        """End it and wait for that; `immediate` leaves it to recover at its next start."""
        if (pid := self.pid) is None or self._process is None:
            return
        os.kill(pid, self.quit_signal if immediate else self.stop_signal)
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
        _running.discard(self)

    def kill(self) -> None:
        """SIGKILL, for it and every process it started, as when the machine loses power."""
        if (pid := self.pid) is None or self._process is None:
            return
        family = [pid, *_children(pid)]
        for member in family:
            _send(member, signal.SIGKILL)
        self._process.wait()
        deadline = time.monotonic() + STOP_SECONDS
        while any(map(_is_alive, family)) and time.monotonic() < deadline:
            time.sleep(_POLL_SECONDS)
        _running.discard(self)


def give_away(path: Path) -> None:
    """Make the account that servers run as the owner of `path`."""
    if os.geteuid() == 0:
        account = _nobody()
        os.chown(path, account.pw_uid, account.pw_gid)


def log_tail(log: Path, lines: int = 20) -> str:
    """The last lines of `log`; empty when there is none."""
    if not log.exists():
        return ""
    return "\n".join(log.read_text(errors="replace").splitlines()[-lines:])


def _prefix(reads: Sequence[Path]) -> list[str]:
    """The `setpriv` (util-linux) before a command: dies with us, and is not root."""
    setpriv = shutil.which("setpriv")
    root = os.geteuid() == 0
    if setpriv is None:
        if root:
            raise ServerUnavailable("root cannot start servers without setpriv", hint="install util-linux")
        return []
    command = [setpriv, "--pdeathsig", "KILL"]
    if root:
        account = _nobody()
        command += [
            "--reuid",
            str(account.pw_uid),
            "--regid",
            str(account.pw_gid),
            "--clear-groups",
            "--no-new-privs",
        ]
        if not all(map(_is_open_to_all, reads)):
            command += ["--inh-caps", "-all,+dac_override", "--ambient-caps", "-all,+dac_override"]
            # Without this bit access(2) ignores the capability: MariaDB then takes its Aria control file for missing
            # at every start, makes a new one, and loses system tables in the next crash.
            command += ["--securebits", "+no_setuid_fixup"]
    return [*command, "--"]


def _nobody() -> pwd.struct_passwd:
    return pwd.getpwnam("nobody")


def _is_open_to_all(path: Path) -> bool:
    """Return whether anyone may reach `path`: others may enter it and every directory above it."""
    return all(place.stat().st_mode & 0o001 for place in (path.resolve(), *path.resolve().parents))


def _fork(popen: Callable[[], subprocess.Popen[bytes]]) -> subprocess.Popen[bytes]:
    """Fork from a thread that lives as long as this process: the death signal comes when the forking *thread* ends
    (https://man7.org/linux/man-pages/man2/PR_SET_PDEATHSIG.2const.html)."""
    if threading.current_thread() is threading.main_thread():
        return popen()
    if _forker != [os.getpid()]:
        _forker[:] = [os.getpid()]
        threading.Thread(target=_fork_for_others, name="anabranch-servers", daemon=True).start()
    reply: Future[subprocess.Popen[bytes]] = Future()
    _forks.put((reply, popen))
    return reply.result()


def _fork_for_others() -> None:
    while True:
        reply, popen = _forks.get()
        try:
            reply.set_result(popen())
        except OSError as e:
            reply.set_exception(e)


def _children(pid: int) -> list[int]:
    """Process ids whose parent is `pid`; none where there is no /proc."""
    return [int(stat.parent.name) for stat in Path("/proc").glob("[0-9]*/stat") if _stat(stat)[1:2] == [str(pid)]]


def _is_alive(pid: int) -> bool:
    """Return whether it runs; a zombie that nobody waits for does not."""
    return _stat(Path(f"/proc/{pid}/stat"))[:1] not in ([], ["Z"], ["X"])


def _stat(path: Path) -> list[str]:
    """State, parent and the rest of a process's /proc/PID/stat (see proc_pid_stat(5)); empty when it is gone."""
    try:
        return path.read_text(errors="replace").rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return []


def _send(pid: int, what: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, what)


def _stop_all() -> None:
    for daemon in [daemon for daemon in _running if daemon._owner == os.getpid()]:
        daemon.stop(immediate=True)


atexit.register(_stop_all)
