"""Claims to a trail that captures on several machines share: files `lease/<epoch>`, of which the highest is the holder's.

A claim has its content before it has its name, and its name is made exclusively, so one process has each epoch. What does not
live here: whose turn it is, and what a holder does (`lease.py`).
"""

from __future__ import annotations

import errno
import json
import os
import re
import secrets
import socket
import zlib
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

from anabranch.failpoints import reach
from anabranch.trail.format import SegmentName

FOLDER = "lease"
SIZE = 1024
NAME = re.compile(r"\d{8,}")
GONE = frozenset({errno.ENOENT, errno.ESTALE})


@dataclass(frozen=True, slots=True)
class Claim:
    """Facts of a claim. `token`: of this one claim; `place`, `started`: what tells the process from others of its number, if
    one looks from the same place. `since`: for people, by the clock of that machine."""

    epoch: int
    token: str
    pid: int
    host: str
    place: str
    started: str
    lease_s: float
    since: str
    beat: int = 0
    is_released: bool = False

    @property
    def who(self) -> str:
        return f"process {self.pid} on {self.host}"

    def is_of(self, pid: int) -> bool:
        """Return whether a process of this machine has made it; one of the same number in another container has not."""
        is_here = (self.pid, self.host, self.place) == (pid, socket.gethostname(), _place())
        return is_here and self.started == _started(pid)

    @property
    def has_died(self) -> bool:
        """Return whether its process is gone for certain, which can be told from the same machine only."""
        if not self.place or self.place != _place():
            return False
        return _started(self.pid) != self.started and not _is_hidden(self.pid)


def newest(directory: Path) -> tuple[int, Claim | None]:
    """Return the highest epoch that was claimed, 0 for none, and what the claim says; None while it is being written."""
    while True:
        epoch = max(_epochs(directory), default=0)
        if not epoch:
            return 0, None
        try:
            return epoch, read(file_of(directory, epoch))
        except OSError as error:
            if error.errno not in GONE:
                raise
            # a later one has come, and this one is gone: look again


def holder(directory: Path) -> Claim | None:
    """Return the newest claim unless it was given up, or its process is known to be gone."""
    _, claim = newest(directory)
    return None if claim is None or claim.is_released or claim.has_died else claim


def claimed(directory: Path, lease_s: float, behind: int) -> Claim | None:
    """Claim the epoch after `behind`, which was the newest one when it was seen to be free. Returns None where somebody else
    was quicker: whoever has a later one by now lives, and was not looked at."""
    written = {name.epoch for name in map(SegmentName.parse, os.listdir(directory)) if name}
    if max(_epochs(directory), default=0) != behind:  # looked at last: no later one has written what is in `written`
        return None
    epoch, token = max(written | {behind}) + 1, secrets.token_hex(8)
    now = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    pid = os.getpid()
    claim = Claim(epoch, token, pid, socket.gethostname(), _place(), _started(pid), lease_s, now)
    draft = directory / FOLDER / f"{token}.draft"
    if not _linked(draft, file_of(directory, epoch), text_of(claim)):
        return None
    _sync(directory / FOLDER)
    if max(_epochs(directory)) != epoch:  # decided on long ago: later ones have come and gone
        file_of(directory, epoch).unlink(missing_ok=True)
        return None
    reach("lease.claimed")
    for former in _epochs(directory):
        if former < epoch:
            file_of(directory, former).unlink(missing_ok=True)
    _sync(directory / FOLDER)
    return claim


def _linked(draft: Path, path: Path, text: bytes) -> bool:
    """Give a file its content before its name, which nobody else may have had."""
    fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o640)
    try:
        os.pwrite(fd, text, 0)
        os.fsync(fd)
        try:
            os.link(draft, path)
        except FileExistsError:  # an answer that was lost, over a network, may make this of one's own
            return os.fstat(fd).st_nlink == 2
        return True
    finally:
        os.close(fd)
        draft.unlink(missing_ok=True)


def text_of(claim: Claim) -> bytes:
    said = json.dumps(asdict(claim)).encode()
    return b"%08x %s" % (zlib.crc32(said), said.ljust(SIZE - 10)) + b"\n"


def read(path: Path) -> Claim | None:
    """Return what a claim says, None for one that is not whole."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        data = os.pread(fd, SIZE, 0)
    finally:
        os.close(fd)
    crc, _, said = data.partition(b" ")
    said = said.strip()
    if not said or crc != b"%08x" % zlib.crc32(said):
        return None
    facts = json.loads(said)
    return Claim(**{name: facts[name] for name in Claim.__dataclass_fields__ if name in facts})


def file_of(directory: Path, epoch: int) -> Path:
    return directory / FOLDER / f"{epoch:08d}"


def _epochs(directory: Path) -> list[int]:
    try:
        return [int(name) for name in os.listdir(directory / FOLDER) if NAME.fullmatch(name)]
    except FileNotFoundError:
        return []


def _sync(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


@cache
def _place() -> str:
    """Return the boot of this machine and the process namespace, within which a process is known by its number and start."""
    with suppress(OSError):
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot}/{os.readlink('/proc/self/ns/pid')}"
    return ""


def _is_hidden(pid: int) -> bool:
    """Return whether it is another user's process, which we may not be shown (hidepid)."""
    try:
        os.kill(pid, 0)
    except OSError as error:
        return isinstance(error, PermissionError)
    return False


def _started(pid: int) -> str:
    """Return when a process started, as the system counts it; "" for one that is not there, or has ended."""
    with suppress(OSError):
        fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
        return "" if fields[0] in ("Z", "X") else fields[19]
    return ""
