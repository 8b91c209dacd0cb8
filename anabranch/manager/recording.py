"""A process of its own that runs one command for the manager, keeps what it says up to a limit, and its exit code.

It outlives the manager, which knows by a lock that it lives: the lock goes with the process, whatever ends it. It is run as a
file, with the standard library alone, so that it costs little. What does not live here: what is run (`operations.py`).
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import IO

PIECE = 65_536
LINGER_S = 5.0  # somebody whom the command has started may keep its output open
SET_DEATH_SIGNAL = 1  # https://man7.org/linux/man-pages/man2/PR_SET_PDEATHSIG.2const.html


def main(directory: str, limit: str, *command: str) -> None:
    """Run a command; writes `host`, `pid`, `stdout` and `stderr`, and `result` when it has ended, into the directory."""
    place, most = Path(directory), int(limit)
    child: subprocess.Popen[bytes] | None = None
    is_asked = False

    def end(_: int, __: FrameType | None) -> None:
        nonlocal is_asked
        is_asked = True
        if child is not None:
            child.terminate()

    signal.signal(signal.SIGTERM, end)
    _write(place / "host", here())
    _write(place / "pid", str(os.getpid()))
    child = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=_end_together
    )
    if is_asked:
        child.terminate()
    assert child.stdout is not None and child.stderr is not None
    cut = {"stdout": 0, "stderr": 0}
    streams = (("stdout", child.stdout), ("stderr", child.stderr))
    threads = [
        threading.Thread(target=_keep, args=(stream, place / name, most, name, cut), daemon=True)
        for name, stream in streams
    ]
    for thread in threads:
        thread.start()
    code = child.wait()
    for thread in threads:
        thread.join(LINGER_S)
    _write(place / "result", json.dumps({"code": code if code >= 0 else 128 - code, "cut": cut}))


def here() -> str:
    """Return what this machine, or container, is known by as long as it is up: its name alone does not tell it from others."""
    with suppress(OSError):
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{os.uname().nodename} {boot}/{os.readlink('/proc/self/ns/pid')}"
    return os.uname().nodename


def _keep(stream: IO[bytes], path: Path, most: int, name: str, cut: dict[str, int]) -> None:
    """Keep the first bytes of a stream, and count the others: the command is never held up by what is not kept."""
    kept = 0
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb", buffering=0) as file:
        while piece := os.read(stream.fileno(), PIECE):
            written = 0
            with suppress(OSError):  # a full disk
                written = file.write(piece[: most - kept])
            kept += written
            cut[name] += len(piece) - written


def _write(path: Path, text: str) -> None:
    beside = path.with_name(f".{path.name}.tmp")
    with open(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)


def _end_together() -> None:
    """Let the command be asked to end when this process is killed: else nobody would know of it."""
    with suppress(AttributeError, OSError):  # Linux alone has it
        ctypes.CDLL(None).prctl(SET_DEATH_SIGNAL, signal.SIGTERM)


if __name__ == "__main__":
    main(*sys.argv[1:])
