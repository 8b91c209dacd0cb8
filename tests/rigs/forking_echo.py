"""Fork, in tests of job/forking.py, children that end with a code, or wait for a signal or for their input to close."""

from __future__ import annotations

import errno
import os
import signal
import socket
import sys
from typing import Any

from anabranch.job.forking import serve


def _become(request: Any, alive: int) -> None:
    if "touch" in request:
        open(request["touch"], "w").close()
    if "code" in request:
        os._exit(request["code"])
    if "until" in request:
        os.read(alive, 1)  # nothing comes but the end
        os._exit(request["until"])
    signal.pause()


def _crowd() -> None:
    """Have no room for a second child."""
    fork, forked = os.fork, []

    def once() -> int:
        if forked:
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        forked.append(True)
        return fork()

    os.fork = once


if __name__ == "__main__":
    if "crowded" in sys.argv:
        _crowd()
    serve(socket.socket(fileno=int(sys.argv[1])), _become)
