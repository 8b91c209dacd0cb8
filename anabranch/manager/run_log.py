"""Reads the end of `run.log`, what the processes of a job have written.

What does not live here: writing it (`processes.py`), the lines' form (`log.py`).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

TAIL = 1_000_000  # bytes that are looked at
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
    try:
        with file.open("rb") as stream:
            start = max(0, stream.seek(0, os.SEEK_END) - TAIL)
            stream.seek(start)
            told = stream.read(TAIL).decode(errors="replace")
    except FileNotFoundError:
        return []
    lines = told.split("\n")[1 if start else 0 :]
    least = LEVELS.index(level) if level in LEVELS else -1
    found = [
        one
        for one in _levelled(lines)
        if one.text and text.lower() in one.text.lower() and (one.level in LEVELS[max(0, least) :] or least < 0)
    ]
    return found[-MOST:]


def _levelled(lines: list[str]) -> Iterator[Line]:
    level = ""
    for line in lines:
        plain = _COLOURS.sub("", line).rstrip("\r")
        if found := _LEVEL.search(plain[:200]):
            word = next(filter(None, found.groups())).lower()
            level = _SPARKS.get(word, word)
        yield Line(level, plain)
