"""Tell a run whose turn it is on a trail that captures share: its own, another one's, or nobody's for a moment."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from anabranch.job import children, standing_by
from anabranch.job.children import Child
from anabranch.job.standing_by import is_ours
from anabranch.testing.in_time import PATIENCE
from anabranch.trail.claims import holder
from anabranch.trail.lease import Lease


@pytest.fixture
def captures() -> Iterator[list[Child]]:
    """Yield a capture that this process seems to be."""
    ours: Any = SimpleNamespace(pid=os.getpid())
    yield [Child("capture", [], process=ours)]


def job_of(trail: Path) -> Any:
    return SimpleNamespace(trail=trail)


def test_nobodys_turn_is_no_other_ones(tmp_path: Path, captures: list[Child]) -> None:
    """While a capture starts again nobody has the lease: its load goes on."""
    assert is_ours(job_of(tmp_path), captures) is None
    with closing(Lease.take(tmp_path)):
        assert is_ours(job_of(tmp_path), captures) is True
        assert is_ours(job_of(tmp_path), []) is False
    assert is_ours(job_of(tmp_path), captures) is None


@pytest.mark.parametrize("other", [{"place": "another boot/pid:[1]"}, {"host": "elsewhere"}])
def test_a_process_of_the_same_number_elsewhere_is_another_one(
    other: dict[str, str], tmp_path: Path, captures: list[Child], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two containers may have one host name, and one number for the process in each."""
    with closing(Lease.take(tmp_path)):
        claim = holder(tmp_path)
        assert claim is not None
        monkeypatch.setattr(standing_by, "holder", lambda trail: replace(claim, **other))
        assert is_ours(job_of(tmp_path), captures) is False
        monkeypatch.setattr(standing_by, "holder", lambda trail: replace(claim, started="1"))
        assert is_ours(job_of(tmp_path), captures) is False


CAREFUL = """
import signal, sys, time
signals = []
signal.signal(signal.SIGTERM, lambda *_: signals.append(1))
print("ready", flush=True)
while not signals:
    time.sleep(0.01)
input()
sys.exit(143 if len(signals) == 1 else 99)
"""


def test_a_part_that_is_paused_is_signalled_once_and_has_not_died(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second signal ended it at once, and five of these ended the run."""
    process = subprocess.Popen([sys.executable, "-c", CAREFUL], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout is not None and process.stdin is not None and process.stdout.readline() == b"ready\n"
    part = Child("load", [sys.executable, "-c", "import time; time.sleep(600)"], may_end=True, process=process)
    for _ in range(3):
        part.pause()
    part.renew(children.RESTARTS_PER_HOUR)
    process.stdin.write(b"\n")
    process.stdin.close()
    assert process.wait(PATIENCE) == 143
    process.stdout.close()
    part.poll(1.0)
    assert part.process is not None and part.process is not process
    assert not part.restarts and not part.restarted and not part.ended_well
    part.pause()
    assert part.process.wait(PATIENCE) == -signal.SIGTERM
