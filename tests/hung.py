"""Ends a worker whose test goes on long after its time, so that the run goes on, and shows where its threads stood.

pytest-timeout raises an error in a test when its time is over. A test can swallow that error (Hypothesis runs an example that
failed once more) or wait again in its clean-up, and then nothing ends it. With `--second-run FILE`, each worker of xdist has
faulthandler end it then; xdist reports the test as failed and starts another worker. `was_hung` tells such an end from a
worker that crashed: the stacks of its threads are in a file beside FILE.
"""

from __future__ import annotations

import faulthandler
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

import pytest

TIMES = 1.5  # of the time that pytest-timeout gives a test; the rest is for its clean-up
ENDED = "Timeout ("  # as faulthandler begins what it writes


def pytest_configure(config: pytest.Config) -> None:
    file = config.getoption("--second-run")
    if file is not None and hasattr(config, "workerinput"):
        config.pluginmanager.register(Guard(_stacks_of(file, os.getpid())))


class Guard:
    """Ends this process where a test does not end. A test cannot defeat it: the clock is a thread of faulthandler's."""

    def __init__(self, file: Path) -> None:
        self._path = file
        self._file: TextIO = file.open("w")
        self._seconds = 0.0

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self._file.seek(0)
        self._file.truncate()
        self._file.write(item.nodeid + "\n")
        self._file.flush()
        self._seconds = _seconds_of(item)
        self._arm()
        try:
            return (yield)
        finally:
            faulthandler.cancel_dump_traceback_later()

    @pytest.hookimpl(trylast=True)
    def pytest_exception_interact(self) -> None:
        """Begin anew behind a failure, for the clean-up: pytest's own plugin has stopped the clock for a debugger."""
        self._arm()

    def pytest_unconfigure(self) -> None:
        self._file.close()
        self._path.unlink(missing_ok=True)

    def _arm(self) -> None:
        if self._seconds:
            faulthandler.dump_traceback_later(self._seconds, exit=True, file=self._file)


def was_hung(file: Path, test: str) -> str:
    """Return what the worker wrote that was ended in this test; empty where none was."""
    for path in file.parent.glob(f"{file.name}.*.stacks"):
        try:
            found = path.read_text(errors="replace")
        except FileNotFoundError:  # another worker has come to its end meanwhile
            continue
        if found.startswith(test + "\n") and ENDED in found:
            path.unlink()
            return found
    return ""


def _stacks_of(file: Path, process: int) -> Path:
    return file.with_name(f"{file.name}.{process}.stacks")


def _seconds_of(item: pytest.Item) -> float:
    """Return after how many seconds the worker ends; 0 where pytest-timeout gives the test all the time there is."""
    marker = item.get_closest_marker("timeout")
    given: Any = marker.args[0] if marker and marker.args else item.config.getoption("timeout", None)
    given = item.config.getini("timeout") if given is None else given
    return float(given or 0) * TIMES
