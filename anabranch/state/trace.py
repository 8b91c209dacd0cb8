"""The trace in a job's home: what happened to the job and what was asked of it, one JSON object a line, a file an hour.

Any process of the job adds to it, with one write a line. Nothing here may stop or slow anybody: what cannot be written is left
out, the same thing again and again is written once a minute, and an hour has a limit. What does not live here: what is noted
(`job/tracing.py`), the trace at the target (`job/shipping.py`).
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

FOLDER = "trace"
LEVEL = "level"  # in it: the least important that is noted, where that is not the usual
SHOWN = "shown"  # in it: the least important line that processes write to their stderr, where that is not what they were told
USUAL, DETAILED = RECORDED = ("info", "debug")
LEVELS = ("debug", "info", "warning", "error")
LINE = 8_000  # bytes of an entry
HOUR_BYTES = 4 << 20
DETAILS_BYTES = (
    HOUR_BYTES // 2
)  # of an hour's file that may be there before a line of the level `debug`: errors find room
REPEAT_S = 60.0  # before the same thing is noted again
KNOWN = 500  # things that are remembered for that
TEXT = 2_000  # characters of a message
KEYS = ("task", "state", "sub_state", "code", "side", "message")


class Trace:
    """The writer of a job's trace. One per process and home, for any of its threads. Does nothing where there is no home."""

    def __init__(self, home: Path, task: str) -> None:
        self._home, self._folder, self._task = home, home / FOLDER, task
        self._told: dict[tuple[str, ...], tuple[float, int]] = {}  # thing -> when it was noted, how often it came since
        self._mutex = threading.Lock()
        self._count = 0

    def note(self, level: str, event: str, message: str = "", **facts: Any) -> None:
        """Write an entry. `facts`: those in KEYS have a column of their own at the target."""
        now, tick = time.time_ns(), time.monotonic()
        with self._mutex:
            thing = (event, *(str(facts.get(key, "")) for key in ("state", "sub_state", "code", "table", "part")))
            before, repeats = self._told.get(thing, (-REPEAT_S, 0))
            if level not in RECORDED and tick - before < REPEAT_S:
                self._told[thing] = before, repeats + 1
                return
            if level != DETAILED:
                if len(self._told) >= KNOWN:
                    self._told.clear()
                self._told[thing] = tick, 0
            self._count += 1
            entry = self._entry(now, level, event, message, facts | ({"repeated": repeats} if repeats else {}))
            with suppress(OSError):
                self._append(now, entry)

    def _entry(self, now: int, level: str, event: str, message: str, facts: Mapping[str, Any]) -> dict[str, Any]:
        own = {key: str(facts[key]) for key in KEYS if facts.get(key)}
        rest = {key: value for key, value in facts.items() if key not in KEYS and value not in (None, "")}
        return {
            "id": f"{now:020d}-{os.getpid()}-{self._count}",
            "at": _text(now),
            "level": level,
            "event": event,
            "task": self._task,
            "host": os.uname().nodename,
            "pid": os.getpid(),
            **own,
            **({"message": message[:TEXT]} if message else {}),
            **({"facts": rest} if rest else {}),
        }

    def _append(self, now: int, entry: Mapping[str, Any]) -> None:
        if not self._home.is_dir():
            return
        self._folder.mkdir(exist_ok=True)
        line = _line(entry)
        if len(line) > LINE:
            line = _line({key: value for key, value in entry.items() if key != "facts"})
        handle = os.open(self._folder / _file(now), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o640)
        try:
            if os.fstat(handle).st_size < (DETAILS_BYTES if entry["level"] == DETAILED else HOUR_BYTES):
                os.write(handle, line)
        finally:
            os.close(handle)


def recorded(home: Path) -> str:
    """Return the least important level that the processes of the job note."""
    found = _chosen(home / FOLDER / LEVEL)
    return found if found in RECORDED else USUAL


def record(home: Path, level: str) -> None:
    """Set the level from which on entries are recorded; running processes take it up within seconds. Raises OSError."""
    _choose(home / FOLDER / LEVEL, "" if level == USUAL else level)


def shown(home: Path) -> str:
    """Return the level from which on the processes of the job write lines to their stderr, "" for what each was told."""
    found = _chosen(home / FOLDER / SHOWN)
    return found if found in LEVELS else ""


def show(home: Path, level: str) -> None:
    """Set that level, "" for what each process was told; running ones take it up within seconds. Raises OSError."""
    _choose(home / FOLDER / SHOWN, level)


def _chosen(file: Path) -> str:
    with suppress(OSError):
        return file.read_text().strip()
    return ""


def _choose(file: Path, level: str) -> None:
    if not level:
        file.unlink(missing_ok=True)
        return
    file.parent.mkdir(exist_ok=True)
    new = file.with_suffix(f".{os.getpid()}")
    new.write_text(level + "\n")
    new.replace(file)


def entries(home: Path, since: datetime | None = None) -> Iterator[dict[str, Any]]:
    """Yield the entries in their order, as far as they can be read."""
    first = since.astimezone(UTC).strftime("%Y%m%d%H") if since else ""
    for file in files(home):
        if file.stem >= first:
            with suppress(FileNotFoundError):  # it has just become too old
                found, _ = read(file, 0)
                yield from (one for one in sorted(found, key=lambda one: str(one["id"])) if _is_since(one, since))


def files(home: Path) -> list[Path]:
    return sorted((home / FOLDER).glob("[0-9]*.jsonl"))


def read(file: Path, offset: int) -> tuple[list[dict[str, Any]], int]:
    """Read the whole lines behind `offset`; returns the entries and where they end. A torn line is passed over."""
    with file.open("rb") as stream:
        stream.seek(offset)
        whole, _, _ = stream.read().rpartition(b"\n")
    found = []
    for line in whole.splitlines():
        with suppress(ValueError):
            entry = json.loads(line)
            if isinstance(entry, dict) and "id" in entry:
                found.append(entry)
    return found, offset + len(whole) + (1 if whole else 0)


def drop_old(home: Path, hours: float) -> None:
    """Drop the files of hours that ended more than `hours` ago."""
    last = (datetime.now(UTC) - timedelta(hours=hours + 1)).strftime("%Y%m%d%H")
    for file in files(home):
        if file.stem < last:
            with suppress(OSError):
                file.unlink()


def id_before(hours: float) -> str:
    """Return the id that separates older entries, which have lesser ids, from later ones."""
    return f"{time.time_ns() - int(hours * 3600e9):020d}"


def _is_since(entry: Mapping[str, Any], since: datetime | None) -> bool:
    return since is None or datetime.fromisoformat(str(entry["at"])) >= since


def _line(entry: Mapping[str, Any]) -> bytes:
    return json.dumps(entry, default=str, ensure_ascii=False).replace("\\u0000", "").encode(errors="replace") + b"\n"


def _text(now: int) -> str:
    moment = datetime.fromtimestamp(now // 1_000_000_000, UTC).replace(microsecond=now // 1000 % 1_000_000)
    return moment.isoformat(timespec="microseconds").replace("+00:00", "Z")


def _file(now: int) -> str:
    return datetime.fromtimestamp(now // 1_000_000_000, UTC).strftime("%Y%m%d%H") + ".jsonl"
