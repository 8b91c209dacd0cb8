"""Is the place where a task runs fit for it? Each worker process looks once, before its first task.

On a cluster a task may come to a machine with another release of this package, or where the job's home is another directory
of the same name. What does not live here: lines to both ends, which say for themselves when they cannot be opened.
"""

from __future__ import annotations

import atexit
import os
import platform
import secrets
import zlib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from anabranch.errors import ConfigError
from anabranch.spark.cluster import is_cluster
from anabranch.spark.work import is_alive
from anabranch.version import __version__

HINT = (
    "every worker needs the same release and the job's home at the same path (docs/howto/on-a-spark-cluster.md); "
    "anabranch preflight JOB lists the workers"
)

_SEEN: set[Path] = set()


class UnfitWorkerError(Exception):
    """The reason why a worker cannot do a task. Spark tries it elsewhere."""


@dataclass(frozen=True)
class Fit:
    """Requirements of a worker. `code`: of the package's files; `mark`: a file that the driver has written into the job's
    home, None where the task does not need that. Travels inside the tasks."""

    release: str
    code: int
    mark: Path | None = None

    def require(self) -> None:
        """Raise UnfitWorkerError for a worker that is not fit."""
        if why := self.why_not():
            raise UnfitWorkerError(f"the worker on {platform.node()} {why}")

    def why_not(self) -> str:
        """Return what is wrong with this worker, "" for nothing."""
        if __version__ != self.release:
            return f"has anabranch {__version__}, and the driver {self.release}"
        if code() != self.code:
            return f"has other code of anabranch {__version__} than the driver, in {Path(__file__).parents[1]}"
        if self.mark is not None and not _sees(self.mark):
            return f"does not see the job's home: {self.mark.parents[1]} is not there what it is on the driver"
        return ""


class _Driver:
    """Facts about this process as a driver. `place`: a directory of the job's home."""

    place: Path | None = None


def begin(place: Path | None) -> None:
    """Note where this process's job has its home, before it gives work to workers."""
    _Driver.place = place


def wanted(master: str, needs_home: bool = False) -> Fit | None:
    """Return what workers of this process's application have to have; None on this machine, where nothing can be otherwise.
    `needs_home`: tasks read the trail."""
    if not is_cluster(master):
        return None
    place = _Driver.place
    return Fit(__version__, code(), _mark(place / "marks") if needs_home and place else None)


@cache
def code() -> int:
    """Return a sum over the files of this package, as they lie here."""
    package, found = Path(__file__).parents[1], 0
    for path in sorted(package.rglob("*.py")):
        found = zlib.crc32(path.relative_to(package).as_posix().encode() + path.read_bytes(), found)
    return found


def unfit(message: str) -> ConfigError | None:
    """Return the error for what a task has raised, if that says that its worker is not fit."""
    _, found, why = message.partition(f"{UnfitWorkerError.__name__}: ")
    return ConfigError(why, hint=HINT) if found else None


def _sees(mark: Path) -> bool:
    """Look at the mark, until it is seen: a directory does not become another one, but may be told late over a network."""
    if mark not in _SEEN and mark.exists():
        _SEEN.add(mark)
    return mark in _SEEN


@cache
def _mark(marks: Path) -> Path:
    """Write a mark, one in this process; those of processes of this machine that are gone are removed."""
    marks.mkdir(parents=True, exist_ok=True)
    node = platform.node()
    for left in marks.iterdir():
        name, _, pid = left.name.rpartition(".")[0].rpartition(".")
        if name == node and not (pid.isdigit() and is_alive(int(pid))):
            left.unlink(missing_ok=True)
    found = marks / f"{node}.{os.getpid()}.{secrets.token_hex(8)}"
    found.touch()
    atexit.register(found.unlink, missing_ok=True)
    return found
