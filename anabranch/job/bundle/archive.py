"""Writes a bundle: one compressed archive with a manifest, put in its place when it is whole.

What does not live here: what is in it (`pieces.py`).
"""

from __future__ import annotations

import calendar
import hashlib
import io
import os
import tarfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from anabranch.errors import ConfigError
from anabranch.job.bundle.pieces import as_bytes, gathered
from anabranch.version import __version__

if TYPE_CHECKING:
    from anabranch.view.job_view import JobView

VERSION = 1
MODE = 0o600  # names of tables and hosts are nobody else's business
MANIFEST = "manifest.json"
HIDDEN_FOR = (
    "passwords and tokens in every form, users, values of environment variables, values of rows and keys, literals, defaults,"
    " comments and conditions of definitions, texts of statements; words that this release does not know are shown as …"
)


@dataclass(frozen=True)
class Bundle:
    """A bundle that was written. `files`: their sizes in bytes; `left_out`: what is not in it, and why."""

    file: Path
    files: Mapping[str, int]
    left_out: Mapping[str, str]

    def to_json(self) -> dict[str, Any]:
        return {"version": VERSION, "file": str(self.file), "files": dict(self.files), "left_out": dict(self.left_out)}


def bundle(job: JobView, file: Path | None, hours: float, offline: bool) -> Bundle:
    """Write a job's bundle to `file`, or into the present directory. Raises ConfigError where nothing can be written; whatever
    cannot be gathered is named in the manifest."""
    now = time.gmtime()
    name = f"{job.config.name}-bundle-{time.strftime('%Y%m%dT%H%M%SZ', now)}"
    place = file or Path(f"{name}.tar.gz")
    with _placed(place) as stream:  # before anything is asked: a place that takes no file is told at once
        found = gathered(job, hours, offline)
        facts = {
            "version": VERSION,
            "anabranch": __version__,
            "job": job.config.name,
            "made_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", now),
            "trace_hours": hours,
            "offline": offline,
            "files": {one: _facts(content) for one, content in found.files.items()},
            "left_out": found.left_out,
            "hidden": HIDDEN_FOR,
        }
        with tarfile.open(fileobj=stream, mode="w:gz") as archive:
            for one, content in ((MANIFEST, as_bytes(facts)), *found.files.items()):
                archive.addfile(_member(f"{name}/{one}", len(content), calendar.timegm(now)), io.BytesIO(content))
    return Bundle(place, {one: len(content) for one, content in found.files.items()}, found.left_out)


def _facts(content: bytes) -> dict[str, Any]:
    return {"sha256": hashlib.sha256(content).hexdigest(), "bytes": len(content)}


def _member(name: str, size: int, at: int) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.size, member.mtime, member.mode = size, at, MODE
    return member


@contextmanager
def _placed(place: Path) -> Iterator[IO[bytes]]:
    """Open a file beside `place`, readable for its owner alone, and move it there. Whatever ends it before leaves nothing."""
    beside = place.with_name(f".{place.name}.{os.getpid()}.tmp")
    try:
        try:
            with open(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, MODE), "wb") as stream:
                yield stream
                stream.flush()
                os.fsync(stream.fileno())
            beside.replace(place)
        except OSError as error:
            raise ConfigError(f"{place} cannot be written: {error.strerror}") from None
    finally:
        beside.unlink(missing_ok=True)
