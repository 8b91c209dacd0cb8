"""Networks of their own for processes of a test: namespaces of the kernel, with nothing in them but what a test puts there.

A network lives as long as this object holds it, so nothing stays behind a test that is killed. Lines between networks are in
wire.py. Names and calls: https://man7.org/linux/man-pages/man7/network_namespaces.7.html
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import socket
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

CLONE_NEWNET = 0x40000000  # of sched.h; os.setns comes with Python 3.12
TUN = Path("/dev/net/tun")
BLOCK = 64 * 1024
FEW = 15.0  # seconds for a connection of a door

Made = TypeVar("Made")
_libc = ctypes.CDLL(None, use_errno=True)


def missing() -> str:
    """Return why no networks can be made here, "" where they can."""
    for program in ("ip", "nsenter"):
        if shutil.which(program) is None:
            return f"there is no {program}"
    if not TUN.exists():
        return f"there is no {TUN}"
    try:
        with TUN.open("r+b", buffering=0):
            Network("tried").close()
    except OSError as error:
        return f"the kernel refuses it: {error}"
    return ""


class Network:
    """An empty network with a loopback of its own."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._handle = _elsewhere(self._begin)
        self._doors: list[socket.socket] = []
        try:
            self.run("ip", "link", "set", "lo", "up")
        except BaseException:  # whatever it was: closed, and passed on
            self.close()
            raise

    @property
    def prefix(self) -> tuple[str, ...]:
        """Return the words before a command that let it run in this network."""
        return ("nsenter", f"--net=/proc/{os.getpid()}/fd/{self._handle}", "--")

    def inside(self, do: Callable[[], Made]) -> Made:
        """Do something in a thread of this network: sockets and devices that it opens stay there, whoever uses them."""

        def there() -> Made:
            _call(_libc.setns, self._handle, CLONE_NEWNET)
            return do()

        return _elsewhere(there)

    def run(self, *command: str) -> None:
        """Run a command in here. Raises OSError with what it says."""
        done = self.inside(lambda: subprocess.run(command, capture_output=True, text=True))
        if done.returncode:
            raise OSError(f"{' '.join(command)} in {self.name}: {done.stderr.strip()}")

    def reaches(self, host: str, port: int) -> bool:
        """Return whether a connection can be opened from here."""

        def tried() -> bool:
            try:
                socket.create_connection((host, port), FEW).close()
            except OSError:
                return False
            return True

        return self.inside(tried)

    def open_door(self, port: int) -> None:
        """Let a server that listens on 127.0.0.1 of this machine be on 127.0.0.1 of this network, too, at the same port."""
        listener = self.inside(lambda: socket.create_server(("127.0.0.1", port)))
        self._doors.append(listener)
        threading.Thread(target=_open_to, args=(listener, port), daemon=True).start()

    def close(self) -> None:
        for door in self._doors:
            with contextlib.suppress(OSError):  # nobody waits for it any more
                door.shutdown(socket.SHUT_RDWR)
            door.close()
        os.close(self._handle)

    def _begin(self) -> int:
        _call(_libc.unshare, CLONE_NEWNET)
        return os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)


def _elsewhere(do: Callable[[], Made]) -> Made:
    """Do it in a thread that ends afterwards: which network a thread is in holds for all that it does."""
    found: list[Made] = []
    failed: list[BaseException] = []

    def run() -> None:
        try:
            found.append(do())
        except BaseException as error:  # noqa: BLE001  # who waits for the thread raises it
            failed.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if failed:
        raise failed[0]
    return found[0]


def _call(function: Callable[..., int], *arguments: int) -> None:
    if function(*arguments):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def _open_to(listener: socket.socket, port: int) -> None:
    while True:
        try:
            here, _ = listener.accept()
        except OSError:  # closed
            return
        try:
            there = socket.create_connection(("127.0.0.1", port), FEW)
        except OSError:  # the server is away
            here.close()
            continue
        there.settimeout(None)
        for one, other in ((here, there), (there, here)):
            threading.Thread(target=_carry, args=(one, other), daemon=True).start()


def _carry(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):  # either end may go at any time
        while data := source.recv(BLOCK):
            target.sendall(data)
    for one in (source, target):
        with contextlib.suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)
