"""Servers of the torture kit's own: quick, not durable, restarted at will."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from anabranch.testing.databases import unique_name
from anabranch.testing.torture.ground import Ground, private


@pytest.fixture(scope="session")
def torture_directory(quick_directory: Path) -> Iterator[Path]:
    directory = quick_directory / unique_name("torture")
    directory.mkdir()
    directory.chmod(0o755)
    yield directory
    shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture(scope="session")
def torture_ground(torture_directory: Path) -> Iterator[Ground]:
    with private(torture_directory) as ground:
        yield ground
