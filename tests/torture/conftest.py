"""Servers of the torture kit's own: quick, not durable, restarted at will."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from anabranch.testing.places import server_files
from anabranch.testing.torture.ground import Ground, private


@pytest.fixture(scope="session")
def torture_directory() -> Iterator[Path]:
    with server_files(int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))) as directory:
        yield directory


@pytest.fixture(scope="session")
def torture_ground(torture_directory: Path) -> Iterator[Ground]:
    with private(torture_directory) as ground:
        yield ground
