"""Memory and disk over time: of each process of a job, by what it is, and of the folders it writes (proc(5)).

What does not live here: what is allowed (tests, bench), servers.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

MB = 1 << 20
EVERY = 0.25
TASKS = "pyspark"  # in the command line of Spark's Python workers
Disk = Path | Callable[[], float]  # a folder, or what says the MB


@dataclass(frozen=True)
class Sample:
    """At `seconds` from the beginning: MB resident in the largest process of each kind, MB in each place."""

    seconds: float
    rss: Mapping[str, float]
    disk: Mapping[str, float]


@dataclass
class Usage:
    """Samples taken by a thread while the context is open. `pids`: the processes that count, asked each time.

    Kinds of processes: `java`, `worker` (Spark's Python workers), the verb of one that runs `python -m anabranch VERB`,
    `packer`, else `other`. A sample sees what there is at its moment; `peaks` is the kernel's own record (`VmHWM`)."""

    pids: Callable[[], Iterable[int]]
    places: Mapping[str, Disk] = field(default_factory=dict)
    every: float = EVERY
    samples: list[Sample] = field(default_factory=list, init=False)
    notes: list[tuple[float, str]] = field(default_factory=list, init=False)
    _peaks: dict[int, tuple[str, float]] = field(default_factory=dict, init=False)
    _ending: threading.Event = field(default_factory=threading.Event, init=False)

    def __enter__(self) -> Self:
        self._begin = time.monotonic()
        self._thread = threading.Thread(target=self._follow, name="anabranch-usage", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._ending.set()
        self._thread.join()
        self._sample()

    def note(self, text: str) -> None:
        """Something begins now."""
        self.notes.append((time.monotonic() - self._begin, text))

    @property
    def peaks(self) -> dict[str, float]:
        """The most MB that one process of each kind ever had resident."""
        found: dict[str, float] = {}
        for kind, size in self._peaks.values():
            found[kind] = max(found.get(kind, 0.0), size)
        return found

    def most(self, place: str) -> float:
        """The most MB that were seen in a place."""
        return max(sample.disk[place] for sample in self.samples)

    def to_json(self) -> dict[str, Any]:
        """Whole MB, tenths of seconds: what a plot needs."""
        return {
            "notes": [[round(at, 1), text] for at, text in self.notes],
            "peaks_mb": {kind: round(size) for kind, size in sorted(self.peaks.items())},
            "samples": [[round(one.seconds, 1), _whole(one.rss), _whole(one.disk)] for one in thinned(self.samples)],
        }

    def _follow(self) -> None:
        while not self._ending.wait(self.every):
            self._sample()

    def _sample(self) -> None:
        rss: dict[str, float] = {}
        for pid in self.pids():
            now, peak = _sizes(pid)
            if now:
                kind = kind_of(pid)
                rss[kind] = max(rss.get(kind, 0.0), now)
                self._peaks[pid] = kind, max(peak, self._peaks.get(pid, ("", 0.0))[1])
        disk = {name: folder_size(one) if isinstance(one, Path) else one() for name, one in self.places.items()}
        self.samples.append(Sample(time.monotonic() - self._begin, rss, disk))


def thinned(samples: list[Sample], most: int = 400) -> list[Sample]:
    """So many at most; of those that go together the largest values are kept."""
    step = -(-len(samples) // most) or 1
    groups = (samples[at : at + step] for at in range(0, len(samples), step))
    return [
        Sample(some[0].seconds, _largest([one.rss for one in some]), _largest([one.disk for one in some]))
        for some in groups
    ]


def folder_size(folder: Path) -> float:
    """MB that its files occupy; what goes away meanwhile counts for nothing."""
    total = 0
    for file in folder.rglob("*"):
        with contextlib.suppress(OSError):
            total += file.lstat().st_blocks * 512
    return total / MB


def kind_of(pid: int) -> str:
    with contextlib.suppress(OSError):
        words = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
        if (
            Path(words[0]).name == "java"
        ):  # not by its name in `comm`: a child that is about to be another program has its thread's
            return "java"
        if "anabranch" in words:
            return words[words.index("anabranch") + 1]
        if "anabranch.trail.pack" in words:
            return "packer"
        if any(word.startswith(TASKS) for word in words):
            return "worker"
    return "other"


def _sizes(pid: int) -> tuple[float, float]:
    """MB resident now, and at most so far; (0, 0) of one that is gone."""
    with contextlib.suppress(OSError):
        lines = (line.split() for line in Path(f"/proc/{pid}/status").read_text().splitlines())
        sizes = {line[0]: int(line[1]) / 1024 for line in lines if line[0] in ("VmRSS:", "VmHWM:")}
        return sizes.get("VmRSS:", 0.0), sizes.get("VmHWM:", 0.0)
    return 0.0, 0.0


def _largest(many: list[Mapping[str, float]]) -> dict[str, float]:
    names = {name for one in many for name in one}
    return {name: max(one.get(name, 0.0) for one in many) for name in sorted(names)}


def _whole(sizes: Mapping[str, float]) -> dict[str, int]:
    return {name: round(size) for name, size in sorted(sizes.items())}
