"""`anabranch serve` as a process of its own, spoken to by HTTP, and killed as a machine would do it.

What does not live here: jobs and servers (scenario.py), the manager inside the test's own process (tests/unit/manager).
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from anabranch.testing import faults
from anabranch.testing.servers import free_port
from rigs import forked_commands
from rigs.scenario import Running, wait_until


class Served:
    """One `anabranch serve` of a home, which `environment` names. Leave it by `close`, which also ends its jobs. `has_nursery`:
    jobs are forks of a fork, and of no program."""

    def __init__(
        self, environment: Mapping[str, str], log: Path, *arguments: str, port: int = 0, has_nursery: bool = True
    ) -> None:
        self.environment, self.url = dict(environment), f"http://127.0.0.1:{port or free_port()}"
        self.jobs: set[int] = set()  # pids that it has told of
        words = ("serve", "--listen", self.url.removeprefix("http://"), *arguments)
        is_quick = str(forked_commands.QUICK) in environment.get("PYTHONPATH", "").split(os.pathsep)
        fork = partial(forked_commands.start, words, is_quick=is_quick, has_nursery=has_nursery)
        self.process = Running(("anabranch", *words), self.environment, log, fork)
        self.token = ""

    def command(self, *arguments: str, given: str = "") -> str:
        """Return what `anabranch …` prints, of this home."""
        ended = forked_commands.run(arguments, self.environment, given)
        assert ended.returncode == 0, ended.stderr
        return ended.stdout.strip()

    def ask(self, method: str, path: str, body: object = None) -> tuple[int, Any]:
        """Return the code and the JSON (or text) of an answer; code 0 where nobody answers."""
        data = None if body is None else json.dumps(body).encode()
        headers = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        headers |= {"Content-Type": "application/json"} if data else {}
        try:
            with urlopen(Request(self.url + path, data, headers, method=method), timeout=60) as answer:
                return answer.status, _read(answer.read())
        except HTTPError as error:
            return error.code, _read(error.read())
        except (OSError, HTTPException):  # it was killed before the answer, or in the middle of it
            return 0, None

    def wait_health(self, code: int = 200) -> None:
        wait_until(lambda: self.ask("GET", "/healthz")[0] == code, 60, f"/healthz is {code}", self.process.tail)

    def job(self, name: str) -> dict[str, Any]:
        code, found = self.ask("GET", f"/api/v1/jobs/{name}")
        assert code == 200, found
        if found["pid"]:
            self.jobs.add(found["pid"])
        return dict(found)

    def wait_job(self, name: str, state: str) -> dict[str, Any]:
        wait_until(lambda: self.job(name)["state"] == state, 120, f"{name} is {state}", self.process.tail)
        return self.job(name)

    def kill(self) -> None:
        """SIGKILL for the manager alone."""
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.process.wait()

    def close(self) -> None:
        if self.process.is_alive:
            os.kill(self.process.pid, signal.SIGCONT)
            self.kill()
        for pid in self.jobs:
            with suppress(OSError):
                faults.kill_tree(pid)


def _read(text: bytes) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text.decode()
