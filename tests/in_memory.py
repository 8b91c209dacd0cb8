"""Directories of tests (`tmp_path`) in memory, where it has room: a trail and a state.db are flushed at each commit, which on a
disk that three workers share is most of what many a test waits for.

That of a test that has passed goes at its end (`tmp_path_retention_policy`), the others are moved to the disk at the end of a
run that has failed. Where servers' files are in memory, too: anabranch/testing/places.py. `--basetemp`, `TMPDIR` and
`ANABRANCH_TEST_DIRECTORY` name another place.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from contextlib import ExitStack
from pathlib import Path

import pytest

from anabranch.testing.places import MEMORY, server_files

_FAILED = pytest.StashKey[bool]()


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Before pytest decides itself; workers of pytest-xdist have directories below their controller's."""
    if hasattr(config, "workerinput") or config.option.basetemp or config.option.collectonly:
        return
    with ExitStack() as made:
        place = made.enter_context(server_files(int(getattr(config.option, "numprocesses", None) or 1)))
        if place.parent != MEMORY or os.statvfs(place).f_flag & os.ST_NOEXEC:
            return
        config.option.basetemp = str(place / "tests")
        config.add_cleanup(made.pop_all().close)


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    session.config.stash[_FAILED] = exitstatus != pytest.ExitCode.OK and not hasattr(session.config, "workerinput")


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    place = Path(config.option.basetemp or "/")
    if config.stash.get(_FAILED, False) and place.is_relative_to(MEMORY) and place.is_dir():
        kept = Path(tempfile.mkdtemp(prefix="anabranch-failed-tests-"))
        with contextlib.suppress(shutil.Error, OSError):  # a socket is no file to be copied
            shutil.copytree(place, kept, symlinks=True, dirs_exist_ok=True, ignore_dangling_symlinks=True)
        terminalreporter.write_line(f"directories of tests that failed: {kept}")
