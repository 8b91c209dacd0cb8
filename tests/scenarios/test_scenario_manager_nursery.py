"""Jobs of a manager are forks of one process. It may be killed, as may what forks the parts of a job: the job goes on."""

from __future__ import annotations

import os
import signal
from base64 import b64encode
from collections.abc import Callable
from pathlib import Path

import pytest

from anabranch.manager.secret_keys import VARIABLE
from anabranch.testing.servers import Server
from rigs.managed import processes_of, served
from rigs.scenario import Scenario, wait_until

Make = Callable[..., Scenario]
NURSERY = "-m anabranch.cli.forks"


def command(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode().strip()


def parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def children(pid: int) -> dict[int, str]:
    """Return the command lines of the processes below one."""
    found = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if parent(number := int(entry.name)) == pid:
                found[number] = command(number)
        except OSError:  # it ended meanwhile
            continue
    return found


@pytest.mark.quick
def test_jobs_are_forks_of_one_process_and_go_on_without_it(mariadb: Server, scenario: Make) -> None:
    made = scenario(mariadb, "CREATE TABLE item (id INT PRIMARY KEY)", "INSERT INTO item VALUES (1)")
    key = b64encode(os.urandom(32)).decode()
    made.environment[VARIABLE] = key
    with served(made, 1, has_nursery=False) as manager:
        assert manager.ask("POST", "/api/v1/jobs", {"text": made.job_file.read_text()})[0] == 201
        assert manager.ask("POST", "/api/v1/jobs/shop/start")[0] == 202
        pid = manager.wait_job("shop", "running")["pid"]
        made.wait_streaming(manager.process)
        nursery = parent(pid)
        assert NURSERY in command(nursery) and parent(nursery) == manager.process.pid
        assert len(list(Path(f"/proc/{nursery}/task").iterdir())) == 1, "a thread is not there in what it forks"
        assert command(pid).split()[1:4] == ["-m", "anabranch", "run"]
        (forks,) = children(pid)
        assert sorted(line.split()[3] for line in children(forks).values()) == ["apply", "capture"]
        for one in (nursery, pid, forks, *children(forks)):
            assert key.encode() not in Path(f"/proc/{one}/environ").read_bytes()

        os.kill(nursery, signal.SIGKILL)
        made.source.execute("INSERT INTO item VALUES (2)")
        made.sync()
        assert (manager.job("shop")["pid"], manager.job("shop")["state"]) == (pid, "running")

        os.kill(forks, signal.SIGKILL)  # its parts end with it, and come again as programs
        wait_until(lambda: len(children(pid)) >= 2, 120, "the parts run again", manager.process.tail)
        made.source.execute("INSERT INTO item VALUES (3)")
        made.sync()
        assert (manager.job("shop")["pid"], manager.job("shop")["restarts"]) == (pid, 0)

        assert manager.ask("POST", "/api/v1/jobs/shop/stop")[0] == 202
        manager.wait_job("shop", "stopped")
        wait_until(lambda: not processes_of(made), 60, "no process is left", manager.process.tail)
        assert manager.ask("POST", "/api/v1/jobs/shop/start")[0] == 202
        again = manager.wait_job("shop", "running")["pid"]
        assert NURSERY in command(parent(again)) and parent(again) != nursery
        made.source.execute("INSERT INTO item VALUES (4)")
        made.sync()
        manager.ask("POST", "/api/v1/jobs/shop/stop")
        assert manager.wait_job("shop", "stopped")["exit_code"] == 0
    made.assert_identical("item")
