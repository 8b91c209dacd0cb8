"""Locks that end with their process: who looks whether somebody has one keeps nobody from it."""

from __future__ import annotations

import fcntl
import os
import threading
from contextlib import closing
from pathlib import Path

import pytest

from anabranch.errors import TrailLocked
from anabranch.testing.in_time import PATIENCE, until
from anabranch.trail import lock
from anabranch.trail.lock import OsLock, WriterLock, holder


def test_a_lock_that_is_held_is_refused_at_once_and_names_its_holder(tmp_path: Path) -> None:
    with closing(WriterLock(tmp_path)):
        assert holder(tmp_path / lock.FILE).startswith(f"process {os.getpid()} on ")
        with pytest.raises(TrailLocked, match=f"is being written by process {os.getpid()} on "):
            WriterLock(tmp_path)
    assert holder(tmp_path / lock.FILE) == ""
    WriterLock(tmp_path).close()


def test_who_looks_at_a_lock_keeps_nobody_from_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In `holder` it is locked for a moment, in which a capture that was started again was told that another one writes."""
    path, tries, taken = tmp_path / lock.FILE, list[bool](), list[OsLock]()
    is_looked_at = OsLock._is_looked_at

    def tried(self: OsLock) -> bool:
        tries.append(is_looked_at(self))
        return tries[-1]

    monkeypatch.setattr(OsLock, "_is_looked_at", tried)
    monkeypatch.setattr(lock, "LOOKED_AT", PATIENCE)
    looker = os.open(path, os.O_RDWR | os.O_CREAT)
    fcntl.flock(looker, fcntl.LOCK_SH)
    taker = threading.Thread(target=lambda: taken.append(OsLock(path)))
    taker.start()
    until(lambda: tries, "the lock was tried")
    os.close(looker)
    taker.join()
    assert all(tries) and holder(path)
    taken[0].close()


def test_a_looker_that_stands_still_is_waited_for_a_time_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock, "LOOKED_AT", 0.0)
    looker = os.open(tmp_path / lock.FILE, os.O_RDWR | os.O_CREAT)
    fcntl.flock(looker, fcntl.LOCK_SH)
    with pytest.raises(TrailLocked):
        WriterLock(tmp_path)
    os.close(looker)
