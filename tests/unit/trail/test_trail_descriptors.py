"""Descriptors of a trail's files are closed once, however often that is asked: a second close would hit the file of somebody
else who has the number by then."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import pytest

from anabranch.trail.lock import OsLock
from anabranch.trail.storage import LocalStorage


class Closable(Protocol):
    def close(self) -> None: ...


def _lock(directory: Path) -> Closable:
    return OsLock(directory / "lock")


def _readable(directory: Path) -> Closable:
    (directory / "file").write_bytes(b"x")
    return LocalStorage(directory).open("file")


def _writable(directory: Path) -> Closable:
    return LocalStorage(directory).create("file")


@pytest.mark.parametrize("opened", [_lock, _readable, _writable])
def test_a_second_close_hits_nobody(opened: Callable[[Path], Closable], tmp_path: Path) -> None:
    one = opened(tmp_path)
    one.close()
    other = os.open(tmp_path, os.O_RDONLY)  # has the number of the one that was closed
    try:
        one.close()
        os.fstat(other)
    finally:
        os.close(other)


@pytest.mark.parametrize("opened", [_readable, _writable])
def test_whoever_is_forgotten_leaves_no_descriptor(opened: Callable[[Path], Closable], tmp_path: Path) -> None:
    before = set(os.listdir("/proc/self/fd"))
    forgotten = opened(tmp_path)
    assert set(os.listdir("/proc/self/fd")) - before
    del forgotten
    assert not set(os.listdir("/proc/self/fd")) - before
