"""Reads the end of `run.log`, what the processes of a job have written, and keeps it short.

What does not live here: writing it (`processes.py`), the lines' form (`log.py`).
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

TAIL = 1_000_000  # bytes that are looked at
LARGEST = 10_000_000  # bytes; what is older goes to a second file of as many
MOST = 500  # lines that are shown
LEVELS = ("debug", "info", "warning", "error")
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_LEVEL = re.compile(r"\[(debug|info|warning|error|critical)\s*\]|\"level\": ?\"(\w+)\"|\b(DEBUG|INFO|WARN|ERROR)\b")
_SPARKS = {"warn": "warning", "critical": "error"}


@dataclass(frozen=True)
class Line:
    """A line. `level`: its own, or that of the line above it which has one; "" where there is none."""

    level: str
    text: str


def tail(file: Path, text: str = "", level: str = "") -> list[Line]:
    """Return the last lines that have `text`, in any case, and at least the level `level`; none without the file."""
    told, is_cut = _end(file, TAIL)
    if not is_cut:
        before, is_cut = _end(former(file), TAIL - len(told))
        told = before + told
    lines = told.decode(errors="replace").split("\n")[1 if is_cut else 0 :]
    least = LEVELS.index(level) if level in LEVELS else -1
    found = [
        one
        for one in _levelled(lines)
        if one.text and text.lower() in one.text.lower() and (one.level in LEVELS[max(0, least) :] or least < 0)
    ]
    return found[-MOST:]


def former(file: Path) -> Path:
    """Return where the lines before those of a log are kept."""
    return file.with_name(f"{file.name}.1")


def keep_short(file: str | Path) -> None:
    """Put a log that has become too large in place of its former one, and begin it anew. Whoever writes it, at its end, goes on
    doing so: what is written in this moment is lost. Raises OSError, such as for want of room."""
    try:
        if os.stat(file).st_size <= LARGEST:
            return
    except FileNotFoundError:
        return
    file = Path(file)
    beside = file.with_name(f"{file.name}.tmp")
    try:
        with file.open("rb") as old, open(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as new:
            old.seek(-LARGEST, os.SEEK_END)
            shutil.copyfileobj(old, new)
        beside.replace(former(file))
    finally:
        beside.unlink(missing_ok=True)
    os.truncate(file, 0)


def _end(file: Path, length: int) -> tuple[bytes, bool]:
    """Return the last bytes of a file, none where it is not there, and whether it has more in front of them."""
    try:
        with file.open("rb") as stream:
            start = max(0, stream.seek(0, os.SEEK_END) - length)
            stream.seek(start)
            return stream.read(length), start > 0
    except FileNotFoundError:
        return b"", False


def _levelled(lines: list[str]) -> Iterator[Line]:
    level = ""
    for line in lines:
        plain = _COLOURS.sub("", line).rstrip("\r")
        if found := _LEVEL.search(plain[:200]):
            word = next(filter(None, found.groups())).lower()
            level = _SPARKS.get(word, word)
        yield Line(level, plain)
