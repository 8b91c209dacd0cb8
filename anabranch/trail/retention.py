"""Retention: readers that still need the trail, and segments that may be dropped (K12).

A reader is registered, with the sequence it has behind it, before it reads; a load holds the trail at its lowest `low`
the same way. A segment goes when every registered reader has been past it for the retention time. The newest stays, and
as long as nobody is registered everything does.
"""

from __future__ import annotations

import json
import os
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

from anabranch.errors import TrailError
from anabranch.failpoints import reach
from anabranch.model.ids import TableId
from anabranch.trail import published
from anabranch.trail.failures import writing
from anabranch.trail.format import SegmentName, segment_names, to_json
from anabranch.trail.lock import maintenance
from anabranch.trail.storage import LocalStorage, Storage, read_whole

FOLDER = "readers"
PASSED = "retention.json"
FORCED = "forced.json"
COPY = "copy"
HOLD = "hold"
LATER = "load_retain_hours"  # stands in for readers that may come later (load_keeping.py): alone it is nobody
CLOCK_SECONDS = 1.0  # by less a clock drifts


@dataclass(frozen=True, slots=True)
class Names:
    """Names of a target's reader and holds: `apply`, `load shop.t`; for a named target `apply@north`, `load@north shop.t`."""

    target: str = ""

    @property
    def apply(self) -> str:
        """The reader."""
        return self._first("apply")

    @property
    def load(self) -> str:
        """Hold the trail while the first load runs."""
        return self._first("load")

    def table(self, table: TableId) -> str:
        """Name the hold that keeps the trail until the table has joined."""
        return f"{self.load} {table}"

    def is_table(self, name: str) -> bool:
        return name.startswith(f"{self.load} ")

    def leave(self, table: TableId) -> str:
        """Apply is asked to take the table out, because it is to be loaded again."""
        return f"{self._first('leave')} {table}"

    def leaving(self, name: str) -> TableId | None:
        """Return the table of a hold that asks apply to take it out; None for any other name."""
        word = f"{self._first('leave')} "
        return TableId.parse(name.removeprefix(word)) if name.startswith(word) else None

    def repairs(self, trail: Path) -> Path:
        """Return the mailbox between `verify --repair` and apply."""
        return trail / self._first("repairs")

    def held(self, trail: Path) -> Path:
        """Return the place of a verification's hold of apply."""
        return trail / self._first("held")

    def has(self, name: str) -> bool:
        return name in (self.apply, self.load) or self.is_table(name) or self.leaving(name) is not None

    @classmethod
    def of(cls, name: str) -> Names:
        """Return the names of the target that owns a reader or hold."""
        return cls(name.partition(" ")[0].partition("@")[2])

    def _first(self, word: str) -> str:
        return f"{word}@{self.target}" if self.target else word


@dataclass(frozen=True, slots=True)
class Registered:
    """`sequence`: everything up to it is behind the reader. `kind` is "reader", "hold", or "copy": a reader that copies bytes,
    so that what it has not got yet may not be packed."""

    name: str
    sequence: int
    kind: str
    since: float
    pid: int


def register(directory: str | Path, name: str, sequence: int) -> None:
    """Register a reader before it reads anything behind `sequence`. Raises TrailError when the trail does not reach
    back so far.

    Registering a known name again sets it to `sequence`, also backwards (a restored target).
    """
    _register(directory, name, sequence, "reader")


def register_copy(directory: str | Path, name: str, sequence: int) -> None:
    """Register a reader that copies bytes: no segment is packed before it is past it, since a copy that has a part of the one
    file could not go on with the other."""
    _register(directory, name, sequence, COPY)


def hold(directory: str | Path, name: str, sequence: int) -> None:
    """Keep what is behind `sequence`, until `unregister`."""
    _register(directory, name, sequence, HOLD)


def advance(directory: str | Path, name: str, sequence: int) -> None:
    """Note that the reader has everything up to `sequence` behind it, durably. Never moves back.

    Cheap: it does not wait for the disk, because a lost note only keeps more. Raises TrailError if not registered.
    """
    storage = LocalStorage(directory)
    known = _load(storage, name)
    if known is None:
        raise TrailError(f"reader {name} is not registered with the trail", hint="register it before it reads")
    if sequence > known.sequence:
        with writing(f"reader {name}"):
            reach("trail.advance")
        _save(storage, Registered(name, sequence, known.kind, known.since, os.getpid()), is_durable=False)


def unregister(directory: str | Path, name: str) -> None:
    """Remove a reader that will not come back. Unknown names are fine."""
    with suppress(FileNotFoundError):
        LocalStorage(directory).remove(f"{FOLDER}/{_file(name)}")


def readers(directory: str | Path, *, storage: Storage | None = None) -> dict[str, Registered]:
    """Return all registered readers and holds."""
    storage = storage or LocalStorage(directory)
    names = [unquote(file.removesuffix(".json")) for file in storage.names(FOLDER) if file.endswith(".json")]
    return {name: found for name in names if (found := _load(storage, name))}


def refuse_before_start(name: str, sequence: int, first: int) -> None:
    if sequence + 1 < first:
        raise TrailError(
            f"reader {name} is at sequence {sequence}, the trail starts at {first}",
            hint="what lies between was dropped: load again, or restore the trail from a backup",
        )


@dataclass(frozen=True, slots=True)
class RetentionLimits:
    """Limits on segments that every reader is past: how long they stay, and at most how many bytes or files, however young.
    `load_seconds`: how long rows of a load stay for readers that join later (load_keeping.py), None where they do not;
    `load_bytes`: with no more bytes of rows than that."""

    seconds: float
    bytes: int | None = None
    count: int | None = None
    load_seconds: float | None = None
    load_bytes: int | None = None


class Clock:
    """The retention time has to outlast restarts, so it is told by the wall clock, which somebody may set. What it jumps by
    while this process lives is known; what it jumped by in between is not."""

    def __init__(self) -> None:
        self._ahead = time.time() - time.monotonic()

    def jump(self) -> float:
        """Return by how many seconds the wall clock was set since the last call."""
        before, self._ahead = self._ahead, time.time() - time.monotonic()
        return self._ahead - before


def drop_old(
    directory: str | Path,
    limits: RetentionLimits,
    *,
    now: float | None = None,
    jump: float = 0.0,
    storage: Storage | None = None,
) -> list[str]:
    """Drop the oldest segments that every registered reader is past and that `limits` do not keep. Returns their names.
    `jump`: by how much the clock was set since the last call."""
    storage = storage or LocalStorage(directory)
    now = time.time() if now is None else now
    with writing(PASSED), maintenance(Path(directory)):
        passed = _passed_since(storage, directory, now, jump)
        old = _outside(limits, storage, passed, now)
        reach("trail.drop")
        for name in old:
            storage.remove(str(name))
            del passed[name]
        reach("trail.drop.removed")
        _save_passed(storage, passed)
    return [str(name) for name in old]


def droppable(directory: str | Path, limits: RetentionLimits) -> dict[str, int]:
    """Return the segments that `drop_old` would drop now, with sizes in bytes."""
    storage, now = LocalStorage(directory), time.time()
    passed = _passed_since(storage, directory, now, 0.0)
    return {str(name): _size(storage, name) for name in _outside(limits, storage, passed, now)}


def drop_needed(directory: str | Path, upto: int) -> list[str]:
    """Drop segments that end at `upto` or before it, whoever still needs them; never the newest. Who is behind it is refused
    by name when it reads. Recorded in FORCED. Returns their names."""
    storage = LocalStorage(directory)
    with writing(FORCED), maintenance(Path(directory)):
        names = segment_names(storage.names())
        newest = _published_number(storage)
        ended = [name for name, following in pairwise(names) if following.next - 1 <= upto and not following.fragments]
        forced = [name for name in ended if name.number < newest]
        behind = [one.name for one in readers(directory, storage=storage).values() if one.sequence < upto]
        record = [*forced_drops(directory), {"upto": upto, "behind": sorted(behind), "at": time.time()}]
        if forced:
            storage.replace(FORCED, to_json(record))
        for name in forced:
            storage.remove(str(name))
    return [str(name) for name in forced]


def forced_drops(directory: str | Path) -> list[dict[str, Any]]:
    """Return what was dropped though somebody needed it: `upto`, `behind` (readers), `at` (seconds since 1970 UTC)."""
    try:
        found: list[dict[str, Any]] = json.loads(read_whole(LocalStorage(directory), FORCED))
    except FileNotFoundError:
        return []
    return found


def _outside(
    limits: RetentionLimits, storage: Storage, passed: dict[SegmentName, float], now: float
) -> list[SegmentName]:
    """Return the oldest segments that are too old, or more than the limits allow."""
    names = list(passed)
    first = next((place for place, name in enumerate(names) if now - passed[name] < limits.seconds), len(names))
    if limits.count is not None:
        first = max(first, len(names) - limits.count)
    left = sum(_size(storage, name) for name in names[first:]) if limits.bytes is not None else 0
    while first < len(names) and limits.bytes is not None and left > limits.bytes:
        left -= _size(storage, names[first])
        first += 1
    return names[:first]


def _size(storage: Storage, name: SegmentName) -> int:
    file = storage.open(str(name))
    try:
        return file.size()
    finally:
        file.close()


def _passed_since(storage: Storage, directory: str | Path, now: float, jump: float) -> dict[SegmentName, float]:
    """Return the segments that every reader is past, oldest first, and since when that is known."""
    registered = readers(directory, storage=storage)
    if not registered or (
        LATER in registered and all(name == LATER or one.kind == HOLD for name, one in registered.items())
    ):
        return {}  # nobody reads yet
    sequences = [reader.sequence for reader in registered.values()]
    known = {number: since + jump for number, since in _load_passed(storage).items()}
    newest = _published_number(storage)
    names = segment_names(storage.names())
    passed: dict[SegmentName, float] = {}
    for name, following in pairwise(names):
        needed = following.next if following.fragments else following.next - 1
        if name.number >= newest or needed > min(sequences):
            break
        passed[name] = known.get(name.number, now)
    return passed


def _published_number(storage: Storage) -> int:
    cell = published.opened(storage)
    try:
        return published.read(cell).number
    finally:
        cell.close()


def _load_passed(storage: Storage) -> dict[int, float]:
    try:
        return {int(number): float(since) for number, since in json.loads(read_whole(storage, PASSED)).items()}
    except FileNotFoundError:
        return {}
    except ValueError:  # only the waiting time starts again
        return {}


def _save_passed(storage: Storage, passed: dict[SegmentName, float]) -> None:
    content = {name.number: since for name, since in passed.items()}
    before = _load_passed(storage)
    if content.keys() != before.keys() or any(abs(content[n] - before[n]) > CLOCK_SECONDS for n in content):
        storage.replace(PASSED, to_json(content))


def _register(directory: str | Path, name: str, sequence: int, kind: str) -> None:
    directory = Path(directory)
    with writing(f"reader {name}"):
        reach("trail.register")
        (directory / FOLDER).mkdir(parents=True, exist_ok=True)
    storage = LocalStorage(directory)
    with writing(f"reader {name}"), maintenance(directory):
        names = segment_names(storage.names())
        if names:
            refuse_before_start(name, sequence, names[0].first_whole)
        _save(storage, Registered(name, sequence, kind, time.time(), os.getpid()))


def _save(storage: Storage, reader: Registered, *, is_durable: bool = True) -> None:
    with writing(f"reader {reader.name}"):
        storage.replace(f"{FOLDER}/{_file(reader.name)}", to_json(asdict(reader)), is_durable=is_durable)


def _load(storage: Storage, name: str) -> Registered | None:
    try:
        return Registered(**json.loads(read_whole(storage, f"{FOLDER}/{_file(name)}")))
    except FileNotFoundError:
        return None
    except (ValueError, TypeError):
        return Registered(
            name, 0, COPY, 0.0, 0
        )  # lost with the power: holds everything, unpacked, until registered again


def _file(name: str) -> str:
    return quote(name, safe="") + ".json"
