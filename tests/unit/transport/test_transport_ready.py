"""Waiting for connections: which are ready, also where their descriptors have numbers that select(2) does not take."""

from __future__ import annotations

import fcntl
import resource
import socket
from collections.abc import Iterator

import pytest

from anabranch.transport.ready import ready

BEYOND = 1024  # of select(2)


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    one, other = socket.socketpair()
    yield one, other
    for each in (one, other):
        each.close()


def test_those_with_bytes_and_those_with_room_are_told(pair: tuple[socket.socket, socket.socket]) -> None:
    one, other = pair
    assert ready([one, other], [], 0) == []
    other.send(b"x")
    assert ready([one, other], [], 10) == [one]
    assert ready([one], [one, other], 10) == [one, other]
    assert ready([], [], 0) == []


def test_an_end_is_told(pair: tuple[socket.socket, socket.socket]) -> None:
    one, other = pair
    other.close()
    assert ready([one], [], 10) == [one]


def test_a_closed_socket_is_refused(pair: tuple[socket.socket, socket.socket]) -> None:
    one, _ = pair
    one.close()
    with pytest.raises(ValueError, match="negative"):
        ready([one], [], 0)


def test_descriptors_above_what_select_takes(pair: tuple[socket.socket, socket.socket]) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 2 * BEYOND)) if hard >= 0 else 2 * BEYOND, hard))
    one, other = pair
    try:
        with socket.socket(fileno=fcntl.fcntl(one, fcntl.F_DUPFD_CLOEXEC, BEYOND)) as far:
            other.send(b"x")
            assert far.fileno() >= BEYOND and ready([far], [], 10) == [far]
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
