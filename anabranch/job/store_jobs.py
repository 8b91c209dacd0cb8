"""Pumps at a store of objects: the one that brings a trail out of it, and what is asked of a store before either runs.

What does not live here: the pump that puts a trail there (`hopping.py`), stores (`stores/`), what is in them (`transport/`).
"""

from __future__ import annotations

import os
import time
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any
from urllib.parse import quote
from uuid import uuid4

from anabranch.config.hop_files import PumpFile, TrailUrl
from anabranch.config.store_urls import StoreUrl, parse_store_url
from anabranch.errors import AnabranchError, ConfigError, NotCaughtUp, Problem, Side, StateError
from anabranch.job.hop_status import pump_status
from anabranch.job.signals import Stop
from anabranch.stores.contract import ObjectMissing, ObjectStore
from anabranch.stores.opening import open_store
from anabranch.trail.lock import LockHeld, OsLock
from anabranch.trail.retention import RetentionLimits
from anabranch.transport import hop_state, store_facts
from anabranch.transport.pump import LONGEST_PAUSE
from anabranch.transport.store_source import StoreSource

TRIED = b"whether it can be written, and read back"


class FetchJob:
    """A pump from a store of objects into a replica in a directory."""

    def __init__(self, path: str | Path, file: PumpFile, source: StoreUrl, target: TrailUrl) -> None:
        self.path, self.file, self.source, self.target = Path(path), file, source, target
        self.name = file.name

    @property
    def directory(self) -> Path:
        return Path(self.target.path)

    def check(self) -> list[str]:
        """Return what stands in the way of a run, nothing where it could begin."""
        return [*problems(self.source, Side.SOURCE, self.name), *_problems_of_folder(self.directory)]

    def run(self, *, until_caught_up: bool = False, seconds: float | None = None) -> None:
        """Take pieces in until stopped, or until the replica has all that are there. Raises AnabranchError; NotCaughtUp where
        that has taken longer than `seconds`."""
        end = None if seconds is None else time.monotonic() + seconds
        with Stop() as stop, ExitStack() as stack:
            self._lock_file.parent.mkdir(parents=True, exist_ok=True)
            stack.callback(locked(self._lock_file, self.name).close)

            def is_over() -> bool:
                return stop.asked() or (end is not None and time.monotonic() > end)

            self._pump().run(is_over, until_caught_up=until_caught_up)
            if until_caught_up:
                stop.exit_if_signalled()
                if is_over():
                    raise NotCaughtUp(f"{self.directory} has not got all of {self.source}", hint="give it more time")

    def status(self) -> dict[str, Any]:
        """Return how far it is, as `pump_status` has it."""
        return pump_status(self.name, self.directory, str(self.source), str(self.target), folder=hop_state.FETCHED)

    @property
    def _lock_file(self) -> Path:
        return self.directory / hop_state.FETCHED / f"{quote(self.name, safe='')}.lock"

    def _pump(self) -> StoreSource:
        return StoreSource(
            self.directory,
            self.name,
            lambda: open_store(self.source, Side.SOURCE),
            of=str(self.source),
            longest_pause=float(self.file.retry.target.interval_s or LONGEST_PAUSE),
            give_up=give_up(self.file),
            limits=RetentionLimits(self.file.trail.retain_hours * 3600.0),
        )


def parsed(path: str | Path, key: str, text: str) -> StoreUrl:
    """Return what the URL of a store says. Raises ConfigError."""
    try:
        return parse_store_url(text, os.environ)
    except ValueError as error:
        problem = Problem("no URL that can stand here", key=key, expected=str(error))
        raise ConfigError(f"{path} has 1 problem", problems=[problem]) from None


def give_up(file: PumpFile) -> float | None:
    """Return after how many seconds without the other end a pump ends; None for never."""
    seconds = file.retry.target.give_up_s
    return None if seconds in (None, -1) else float(seconds or 0)


def locked(file: Path, name: str) -> OsLock:
    """Return the lock that one process of a pump has. Raises StateError where another one has it."""
    file.parent.mkdir(exist_ok=True)
    try:
        return OsLock(file)
    except LockHeld as held:
        hint = "stop that one first: two would take the way from each other"
        raise StateError(f"the pump is running: {held}", hint=hint, job=name) from None


def problems(url: StoreUrl, end: Side, name: str) -> list[str]:
    """Return why a store cannot be reached, written, or read; of a source also where nothing was begun there."""
    try:
        with closing(open_store(url, end)) as store:
            return _tried(store, end, name)
    except AnabranchError as error:
        return [str(error)]


def _tried(store: ObjectStore, end: Side, name: str) -> list[str]:
    found = store_facts.begun(store)
    probe = f"preflight/{quote(name, safe='')}"
    if end is Side.SOURCE:  # who reads need not write anywhere else
        probe = f"{store_facts.READERS}{quote(name, safe='')}-{uuid4().hex}.tried"
    store.replace(probe, TRIED)
    try:
        is_same = store.read(probe) == TRIED
    except ObjectMissing:
        is_same = False
    store.delete(probe)
    said = [] if is_same else [f"{store.path(probe)} was written, and cannot be read back"]
    if end is Side.SOURCE and found is None:
        said.append(f"there is no trail in {store.path()}: start the pump that puts it there")
    return said


def _problems_of_folder(directory: Path) -> list[str]:
    """Return why a replica cannot be written there."""
    place = directory
    while not place.exists() and place != place.parent:
        place = place.parent
    is_good = place.is_dir() and os.access(place, os.W_OK | os.X_OK)
    return [] if is_good else [f"{place} cannot be written: let this user write there"]
