"""Locks that end with their process: who looks whether somebody has one keeps nobody from it."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path

import pytest

from anabranch.errors import TrailLocked
from anabranch.testing.in_time import PATIENCE, until
from anabranch.trail import lock
from anabranch.trail.claims import newest
from anabranch.trail.lease import Lease
from anabranch.trail.lock import OsLock, WriterLock, holder
from anabranch.trail.writer import TrailWriter


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


def test_maintenance_that_a_stopped_process_has_ends_in_an_error_that_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A takeover waited for it for ever, without a word."""
    monkeypatch.setattr(lock, "MAINTENANCE_S", 0.2)
    monkeypatch.setattr(lock, "TOLD_S", 0.0)
    code = (
        "import os, signal, sys; from pathlib import Path; from anabranch.trail.lock import maintenance\n"
        "with maintenance(Path(sys.argv[1])): print('held', flush=True); os.kill(os.getpid(), signal.SIGSTOP)"
    )
    with subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE) as stopped:
        try:
            assert stopped.stdout is not None and stopped.stdout.readline() == b"held\n"
            lease = Lease.take(tmp_path)
            said = f"held by process {stopped.pid} on .* for more than 0.2 seconds"
            with pytest.raises(TrailLocked, match=said):
                TrailWriter.open(tmp_path, job="j", job_uuid="u", source_identity="s", lock=lease)
            _, claim = newest(tmp_path)
            assert claim is not None and claim.is_released
        finally:
            stopped.kill()
    with lock.maintenance(tmp_path):
        assert holder(tmp_path / lock.MAINTENANCE).startswith(f"process {os.getpid()} on ")
