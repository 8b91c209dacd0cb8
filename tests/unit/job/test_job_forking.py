"""A server of forks: its children end as they end, and it is told from them when it is killed."""

from __future__ import annotations

import errno
import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from anabranch.job import forking
from anabranch.job.children import PROGRAM, Forks
from anabranch.job.forking import ForkedProcess, ForkServer

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


def test_a_request_may_be_long(server: ForkServer) -> None:
    assert server.fork({"code": 2, "more": "x" * 300_000}).wait(WITHIN) == 2


def test_a_process_for_which_there_is_no_room_is_an_error_and_not_the_end_of_the_server() -> None:
    with closing(ForkServer.started("rigs.forking_echo", "crowded", paths=[TESTS])) as server:
        child = server.fork({"until": 4})
        with pytest.raises(OSError, match=os.strerror(errno.EAGAIN)) as failed:
            server.fork({"code": 1})
        assert failed.value.errno == errno.EAGAIN
        child.let_go()
        assert child.wait(WITHIN) == 4


def test_a_server_that_does_not_answer_is_told(server: ForkServer, monkeypatch: pytest.MonkeyPatch) -> None:
    child = server.fork({"until": 6})
    os.kill(parent(child.pid), signal.SIGSTOP)
    monkeypatch.setattr(forking, "ANSWER_S", 0.2)
    monkeypatch.setattr(forking, "END_S", 0.2)
    with pytest.raises(RuntimeError, match="does not answer"):
        server.fork({"code": 1})
    os.kill(parent(child.pid), signal.SIGCONT)
    child.let_go()
    assert child.wait(WITHIN) == 6


def test_a_request_that_nobody_waits_for_any_more_is_not_carried_out(server: ForkServer, tmp_path: Path) -> None:
    child = server.fork({"until": 6})
    os.kill(parent(child.pid), signal.SIGSTOP)
    with pytest.raises(InterruptedError):
        server.fork({"touch": str(tmp_path / "done"), "until": 0}, lambda: True)
    os.kill(parent(child.pid), signal.SIGCONT)
    assert server.fork({"touch": str(tmp_path / "next"), "code": 1}).wait(WITHIN) == 1
    child.let_go()
    assert child.wait(WITHIN) == 6
    assert [file.name for file in tmp_path.iterdir()] == ["next"]


def test_what_is_at_the_other_end_is_seen_to_be_gone() -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    reads, writes = os.pipe()
    assert not forking.is_left(theirs.fileno()) and not forking.is_left(writes)
    ours.send(b"?")
    ours.close()
    os.close(reads)
    assert forking.is_left(theirs.fileno()) and forking.is_left(writes)
    theirs.close()
    os.close(writes)


def test_the_directory_in_which_we_are_has_no_modules_for_the_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "queue.py").write_text("raise SystemExit('of somebody else')")
    monkeypatch.chdir(tmp_path)
    with closing(ForkServer.started("rigs.forking_echo", paths=[TESTS])) as server:
        assert server.fork({"code": 9}).wait(WITHIN) == 9


def test_a_server_below_us_is_waited_for() -> None:
    server = ForkServer.started("rigs.forking_echo", paths=[TESTS])
    assert server.fork({"code": 0}).wait(WITHIN) == 0
    server.close()
    assert server.pid is not None and not Path(f"/proc/{server.pid}").exists()
