"""The process of one operation, as the manager sees it: begun, living, asked to end, and what it has said.

What does not live here: the process itself (`recording.py`), when one is begun (`operations.py`).
"""

from __future__ import annotations

import codecs
import fcntl
import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from anabranch.manager.recording import here

RECORDER = (sys.executable, "-I", "-S", str(Path(__file__).with_name("recording.py")))
LIMIT = 16 * 1024 * 1024  # bytes of each stream that are kept
PIECE = 65_536  # bytes of an answer
STREAMS = ("stdout", "stderr")


@dataclass(frozen=True, slots=True)
class Result:
    """The end of an operation: its exit code, when that was, and how many bytes of its output were not kept."""

    code: int
    ended: str
    cut_stdout: int
    cut_stderr: int


@dataclass(frozen=True, slots=True)
class Recorded:
    """The directory of one operation, which one process at most writes."""

    place: Path

    def claim(self) -> int:
        """Make the directory, and take its lock for the process that is going to be started. What an operation of a
        former store with this number has left there is removed. Returns the lock's handle. Raises BlockingIOError where that
        process lives."""
        self.place.mkdir(parents=True, exist_ok=True, mode=0o700)
        handle = os.open(self.place / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            for left in self.place.iterdir():
                if left.name != "lock":
                    left.unlink()
        except OSError:
            os.close(handle)
            raise
        return handle

    def start(
        self, lock: int, command: Sequence[str], directory: Path, environment: Mapping[str, str]
    ) -> subprocess.Popen[bytes]:
        """Start the process with the lock, which is then its own."""
        directory.mkdir(parents=True, exist_ok=True)
        return subprocess.Popen(
            [*RECORDER, str(self.place), str(LIMIT), *command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=dict(environment),
            cwd=directory,
            start_new_session=True,
            pass_fds=(lock,),
        )

    def lives(self) -> bool:
        """Return whether its process is there, whoever has started it."""
        try:
            handle = os.open(self.place / "lock", os.O_RDWR)
        except FileNotFoundError:
            return False
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(handle)
        return False

    def send(self, number: signal.Signals) -> bool:
        """Send SIGTERM to the process, or SIGKILL to all of its session. Returns whether there was one of this machine to send
        it to."""
        try:
            pid = int((self.place / "pid").read_text())
        except (FileNotFoundError, ValueError):
            return False  # it has only just been started
        if not self.lives() or not self._is_here():
            return False
        with suppress(ProcessLookupError):  # it ended meanwhile
            os.killpg(pid, number) if number == signal.SIGKILL else os.kill(pid, number)
        return True

    def _is_here(self) -> bool:
        """Return whether the process is one of this machine; of one that has not said so, it is. A former release said its
        name alone."""
        with suppress(FileNotFoundError):
            return (self.place / "host").read_text() in (here(), os.uname().nodename)
        return True

    def result(self) -> Result | None:
        """Return how it ended; None where nobody could note it."""
        path = self.place / "result"
        try:
            found, moment = json.loads(path.read_text()), path.stat().st_mtime
            cut = found["cut"]
            ended = datetime.fromtimestamp(moment, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
            return Result(found["code"], ended, cut["stdout"], cut["stderr"])
        except (FileNotFoundError, ValueError, KeyError):
            return None

    def say(self, text: str) -> None:
        """Write what the manager has to say of an operation that could not be started."""
        with suppress(OSError):
            (self.place / "stderr").write_text(text)

    def size(self, stream: str) -> int:
        """Return how many bytes of a stream there are."""
        try:
            return (self.place / stream).stat().st_size
        except FileNotFoundError:
            return 0

    def output(self, stream: str, offset: int, has_ended: bool) -> tuple[str, int, bool]:
        """Return text of a stream from a byte on, where the next piece begins, and whether there is nothing more to come."""
        try:
            with (self.place / stream).open("rb") as file:
                file.seek(offset)
                data = file.read(PIECE)
                is_last = has_ended and not file.read(1)
        except FileNotFoundError:
            return "", offset, has_ended
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        text = decoder.decode(data, final=is_last)
        return text, offset + len(data) - len(decoder.getstate()[0]), is_last
