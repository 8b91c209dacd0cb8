"""Servers of the torture kit's own: quick, not durable, restarted at will."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from anabranch.testing.torture.ground import Ground, private


@pytest.fixture(scope="session")
def torture_directory() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="anabranch-torture-") as directory:
        Path(directory).chmod(0o755)
        yield Path(directory)


@pytest.fixture(scope="session")
def torture_ground(torture_directory: Path) -> Iterator[Ground]:
    with private(torture_directory) as ground:
        yield ground
