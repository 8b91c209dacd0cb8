"""Waits for a connection whose descriptor has a number that select(2) does not take."""

from __future__ import annotations

import fcntl
import os
import resource
from collections.abc import Iterator

import pytest

from anabranch.connectors.sql.readable import is_readable

BEYOND = 1024  # of select(2)


@pytest.fixture
def far_pipe() -> Iterator[tuple[int, int]]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 2 * BEYOND)) if hard >= 0 else 2 * BEYOND, hard))
    near, write = os.pipe()
    far = fcntl.fcntl(near, fcntl.F_DUPFD_CLOEXEC, BEYOND)
    yield far, write
    for one in (near, far):
        os.close(one)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_high_descriptor_is_waited_for(far_pipe: tuple[int, int]) -> None:
    far, write = far_pipe
    assert far >= BEYOND and not is_readable(far, 0.0) and not is_readable(far, -1.0)
    os.write(write, b"x")
    assert is_readable(far, 60.0)
    os.read(far, 1)
    os.close(write)
    assert is_readable(far, 60.0), "an end, too"
