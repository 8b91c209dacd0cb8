"""Rows of loads that stay in a trail for readers who are not known yet: a job, a pump or an export that joins later.

The job that captures stands in for them, as a reader of its own trail (READER): it holds the trail from before the rows, and
says of a table's load that it has it once the load is old enough, or where its rows take too much room. So files and segments
stay together, by the rules that hold for every reader. What does not live here: who has which load (`load_readers.py`),
segments (`retention.py`).
"""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from anabranch.trail import load_readers, published, retention
from anabranch.trail.format import segment_names
from anabranch.trail.load_readers import MANIFEST, StoredLoad, Taken
from anabranch.trail.lock import maintenance
from anabranch.trail.retention import Registered, RetentionLimits
from anabranch.trail.storage import LocalStorage

READER = retention.LATER  # as the key is called, so that whoever lists the readers knows what it is


@dataclass(frozen=True, slots=True)
class KeptLoad:
    """A table's load that stays for others who may come: its files' bytes, and since when all of it is there (seconds since
    1970). `is_theirs`: readers that are known need it as well."""

    table: str
    number: int
    bytes: int
    since: float
    is_theirs: bool


def begin(trail: Path, limits: RetentionLimits) -> None:
    """Stand in for later readers, or do so no more, as the limits say. The caller writes the trail, and loads nothing yet."""
    known = retention.readers(trail).get(READER)
    if limits.load_seconds is None:
        if known is not None:
            retention.unregister(trail, READER)
            load_readers.forget(trail, READER)
    elif known is None or known.kind != retention.HOLD:  # damaged
        names = segment_names(LocalStorage(trail).names())
        retention.hold(trail, READER, max(0, names[0].first_whole - 1) if names else _end(trail))


def tend(trail: Path, limits: RetentionLimits, *, now: float | None = None) -> None:
    """Let go what is older than the limits say, and the oldest where there is more than they allow. As long as nobody else
    reads the trail, everything stays. What is let go is removed by the next sweep, unless others need it."""
    give_up(trail)  # whoever used force may have died before that
    if not _is_for_others(retention.readers(trail)):
        return
    end = _end(trail)  # looked at first: a load that begins behind this look holds the trail behind it
    held = _held(retention.readers(trail))  # looked at before the loads: one that ends meanwhile is held, or is found
    free = min([end, *held])
    found = list(kept(trail))
    now = time.time() if now is None else now
    old = [one for one in found if limits.load_seconds is not None and now - one.since >= limits.load_seconds]
    young = [one for one in found if one not in old]
    if limits.load_bytes is not None:
        old += _too_much(trail, old, young, limits.load_bytes)
    if old:
        _let_go(trail, old)
    if len(old) == len(found):
        retention.advance(trail, READER, free)


def make_room(trail: Path, limit: int) -> None:
    """Let go the oldest loads that only later readers would need, until all rows in the trail have no more bytes than that."""
    tend(trail, RetentionLimits(0, load_bytes=limit))
    load_readers.sweep(trail)


def give_up(trail: Path) -> None:
    """Let go all loads that are there, where segments that they need were removed by force. Which of them could do without is
    not told by their places, which are the source's."""
    known = retention.readers(trail).get(READER)
    if known is None or known.kind != retention.HOLD:  # a damaged one is at 0, wherever it was
        return
    names = segment_names(LocalStorage(trail).names())
    first = names[0].first_whole - 1 if names else 0
    if known.sequence >= first:
        return
    if found := list(kept(trail)):
        _let_go(trail, found)
    retention.advance(trail, READER, first)


def kept_until(trail: Path, loads: Collection[KeptLoad], seconds: float | None) -> float | None:
    """Return when the last of these loads is old enough to go (seconds since 1970); None where no time ends it: as long as
    nobody else reads the trail, and where the key is taken out."""
    if seconds is None or not _is_for_others(retention.readers(trail)):
        return None
    return max((one.since + seconds for one in loads), default=None)


def kept(trail: Path) -> Iterator[KeptLoad]:
    """Yield the loads that stay for later readers, the oldest first."""
    readers = retention.readers(trail)
    if READER not in readers:
        return
    note = load_readers.noted(trail, READER)
    needed = {(one.table, tuple(one.awaited) + tuple(one.left)) for one in load_readers.unread(trail)}
    theirs = {table for table, who in needed if set(who) - {READER}}
    loads = [load for load in load_readers.stored(trail) if not note.has(load.table, load.number)]
    dated = [(since, load) for load in loads if (since := _since(trail, load)) is not None]
    for since, load in sorted(dated, key=lambda one: (one[0], one[1].table)):
        size = sum(load_readers.sizes(trail, load.files))
        yield KeptLoad(load.table, load.number, size, since, load.table in theirs)


def _too_much(trail: Path, old: Collection[KeptLoad], young: Collection[KeptLoad], limit: int) -> Iterator[KeptLoad]:
    """Yield the oldest loads that nobody else needs, as long as what stays is more than the limit."""
    size = load_readers.size(trail) - sum(one.bytes for one in old if not one.is_theirs)
    for one in young:
        if size <= limit:
            return
        if not one.is_theirs:
            size -= one.bytes
            yield one


def _let_go(trail: Path, loads: Collection[KeptLoad]) -> None:
    """Note that nobody waits for these any more. More than one process may do so."""
    with maintenance(trail):
        note = load_readers.noted(trail, READER)
        taken = {one.table: Taken(one.number, is_done=True) for one in loads if not note.has(one.table, one.number)}
        if taken:
            load_readers.save(trail, READER, replace(note, tables={**note.tables, **taken}))


def _is_for_others(readers: dict[str, Registered]) -> bool:
    """Return whether somebody stands in for later readers, and others are there, too."""
    return READER in readers and any(name != READER and load_readers.key_of(name) for name in readers)


def _held(readers: dict[str, Registered]) -> Iterator[int]:
    """Yield where loads that go on hold the trail."""
    return (one.sequence for name, one in readers.items() if name != READER and not load_readers.key_of(name))


def _since(trail: Path, load: StoredLoad) -> float | None:
    with suppress(FileNotFoundError):  # it was removed in this moment
        return os.stat(trail / load.folder / MANIFEST).st_mtime
    return None


def _end(trail: Path) -> int:
    """Return the published end."""
    cell = published.opened(LocalStorage(trail))
    try:
        return published.read(cell).sequence
    finally:
        cell.close()
