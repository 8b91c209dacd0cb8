"""The job of a drill as a process of its own: `anabranch run`, which ends when the drill does, also when that is killed."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING

from anabranch.job.signals import SUPERVISED

if TYPE_CHECKING:
    from anabranch.view.job_view import JobView

END_SECONDS = 90.0  # for what runs in it; then it is killed
TOLD = 16_000  # bytes of its log that are looked through for the error


@contextmanager
def running(job: JobView) -> Iterator[Callable[[], str]]:
    """Run the job until the block ends. Gives a function that says why it ended by itself, "" while it runs."""
    command = [sys.executable, "-m", "anabranch", "run", str(job.path)]
    environment = {**os.environ, SUPERVISED: "1"}  # it ends when its standard input closes
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=said, stderr=said, env=environment, start_new_session=True
        )
        try:
            yield lambda: "" if process.poll() is None else _why(said, process.returncode)
        finally:
            _end(process)


def _why(said: IO[bytes], code: int) -> str:
    """Return the errors that it told last."""
    size = said.seek(0, os.SEEK_END)
    said.seek(max(0, size - TOLD))
    lines = [line for line in said.read().decode("utf-8", "replace").splitlines() if line.strip()]
    return " ".join(list(_errors(lines)) or lines[-1:]) or f"exit code {code}"


def _errors(lines: Iterable[str]) -> Iterator[str]:
    """Yield the errors of a log in JSON, with what to do."""
    for line in lines:
        with contextlib.suppress(ValueError):  # a text among the lines, or one that is cut at its beginning
            found = json.loads(line)
            if isinstance(found, dict) and found.get("event") == "error":
                yield " — ".join(filter(None, (found.get("message"), found.get("hint"))))
                yield from found.get("notes", ())


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
    try:
        process.wait(END_SECONDS)
    except subprocess.TimeoutExpired:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    assert process.stdin is not None
    process.stdin.close()
