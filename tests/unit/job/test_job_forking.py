"""A server of forks: its children end as they end, and it is told from them when it is killed."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from anabranch.job.children import PROGRAM, Forks
from anabranch.job.forking import LONGEST_REQUEST, ForkedProcess, ForkServer

TESTS = Path(__file__).parents[2]
WITHIN = 60.0


@pytest.fixture
def server() -> Iterator[ForkServer]:
    with closing(ForkServer.started("rigs.forking_echo", paths=[TESTS])) as made:
        yield made


def parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def test_a_child_ends_with_its_code_or_its_signal(server: ForkServer) -> None:
    assert server.fork({"code": 7}).wait(WITHIN) == 7
    child = server.fork({})
    assert child.code() is None and child.wait(0.0) is None
    child.send(signal.SIGTERM)  # at once: it may not have begun yet, and is not lost
    assert child.wait(WITHIN) == -signal.SIGTERM
    assert not child.send(signal.SIGTERM)


def test_a_child_sees_that_its_asker_lets_go(server: ForkServer) -> None:
    child = server.fork({"until": 3})
    child.let_go()
    assert child.wait(WITHIN) == 3


def test_signals_to_end_do_not_end_the_server(server: ForkServer) -> None:
    child = server.fork({})
    for number in (signal.SIGTERM, signal.SIGINT):
        os.kill(parent(child.pid), number)
    assert server.fork({"code": 5}).wait(WITHIN) == 5
    assert child.code() is None
    child.send(signal.SIGKILL)
    assert child.wait(WITHIN) == -signal.SIGKILL


def test_a_killed_server_is_told_and_its_child_sees_its_input_close(server: ForkServer) -> None:
    child = server.fork({"until": 0})
    handles = len(os.listdir("/proc/self/fd"))
    os.kill(parent(child.pid), signal.SIGKILL)
    assert child.wait(WITHIN) == -signal.SIGKILL
    for _ in range(2):
        with pytest.raises(RuntimeError, match="is gone"):
            server.fork({"code": 1})
    assert len(os.listdir("/proc/self/fd")) == handles - 2, "the pipes are closed"


def test_a_request_that_is_too_long_is_refused(server: ForkServer) -> None:
    with pytest.raises(RuntimeError, match="takes no request"):
        server.fork({"code": 1, "more": "x" * LONGEST_REQUEST})
    assert server.fork({"code": 1}).wait(WITHIN) == 1


def test_a_forked_process_is_waited_for_as_a_program(server: ForkServer) -> None:
    process = ForkedProcess(server.fork({}))
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.01)
    assert process.poll() is None
    process.kill()
    assert process.wait(WITHIN) == process.returncode == -signal.SIGKILL


def test_parts_are_programs_where_nothing_forks_them() -> None:
    server = ForkServer.started("rigs.forking_echo", paths=[TESTS])
    forks = Forks(server)
    server.close()
    command = [*PROGRAM, "--version"]
    for _ in range(2):
        process = forks.start(command, dict(os.environ))
        assert isinstance(process, subprocess.Popen) and process.wait(WITHIN) == 0
        process.communicate()
