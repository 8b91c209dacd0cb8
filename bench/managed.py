"""Many jobs in the hands of one manager: what each of them takes that has nothing to do, and what the manager takes.

Jobs with an empty table each, streaming, with `runner = "continuous"`: they start no JVM before an epoch needs one."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any
from urllib.request import Request, urlopen

from anabranch.testing.servers import free_port
from bench.at_target import Looking
from bench.figures import Figure, middle
from bench.presence import PATIENCE, SETTLE, TABLE, WATCH, resident
from bench.processes import Program, own_cpu, python, until
from bench.stand import Job, Stand

JOBS = 30  # with three connections each: the target has a hundred
JOB_MB, MANAGER_MB, MANAGER_CORES, LIST_MS = 60, 120, 0.01, 100
MORE = '[apply]\nrunner = "continuous"'


def run(stand: Stand, scale: float, repeat: int) -> list[Figure]:
    """Measure `scale` times 30 jobs, two at least."""
    number = max(2, round(JOBS * scale))
    with ExitStack() as stack:
        jobs = []
        for one in range(number):
            source, target = stand.databases(f"managed{one}")
            source.execute(TABLE)
            jobs.append(stand.job(f"managed{one}", source, target, more=MORE))
        manager = stack.enter_context(Managed(jobs[0]))
        manager.run(stand, jobs[:1])
        time.sleep(SETTLE)
        first = sum(resident(manager.program.tree).values())
        manager.run(stand, jobs[1:])
        time.sleep(SETTLE)
        begin, used = time.monotonic(), own_cpu(manager.program.process.pid)
        time.sleep(WATCH)
        manager.program.check()
        cores = (own_cpu(manager.program.process.pid) - used) / (time.monotonic() - begin)
        sizes = resident(manager.program.tree)
        lists = [manager.timed("/api/v1/jobs") for _ in range(2 * repeat + 1)]
    facts: dict[str, Any] = {"jobs": number, "processes": len(sizes), "all_mb": sum(sizes.values()), "first_mb": first}
    of = stand.of

    def most(what: str, unit: str, value: float, goal: float) -> Figure:
        return Figure(f"managed {what}", of, unit, value, goal, is_most=True, facts=facts)

    return [
        most("job", "pss_mb", (sum(sizes.values()) - first) / (number - 1), JOB_MB),
        most("manager", "pss_mb", sizes[manager.program.process.pid], MANAGER_MB),
        most("manager", "cores", cores, MANAGER_CORES),
        most("list", "ms", 1000 * middle(lists), LIST_MS),
    ]


class Managed:
    """A manager of a home of jobs, which it stops as it ends."""

    def __init__(self, job: Job) -> None:
        self.environment, self._url = job.environment, f"http://127.0.0.1:{free_port()}"
        words = ("token", "create", "--role", "administrator", "--name", "bench")
        told = subprocess.run(
            [str(word) for word in python("anabranch", *words)],
            env={**os.environ, **self.environment},
            check=True,
            capture_output=True,
            text=True,
        )
        self._token = told.stdout.split()[-1]
        listen = self._url.removeprefix("http://")
        self.program = Program(python("anabranch", "serve", "--stop-jobs", "--listen", listen), job.environment)

    def __enter__(self) -> Managed:
        self.program.__enter__()
        until(lambda: self.program.heard("serves"), PATIENCE, "the manager", check=self.program.check)
        return self

    def __exit__(self, *ended: Any) -> None:
        self.program.__exit__(*ended)

    def run(self, stand: Stand, jobs: Sequence[Job]) -> None:
        """Take in and start jobs, and wait until each streams."""
        for job in jobs:
            self.ask("POST", "/api/v1/jobs", {"text": job.file.read_text()})
            self.ask("POST", f"/api/v1/jobs/{job.name}/start")
            with Looking(job.target) as looking:  # one at a time: the target has a hundred connections
                until(partial(stand.at.streaming, looking, job.name), PATIENCE, job.name, 0.05, self.program.check)

    def ask(self, method: str, path: str, body: object = None) -> bytes:
        data = None if body is None else json.dumps(body).encode()
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"}
        with urlopen(Request(self._url + path, data, headers, method=method), timeout=PATIENCE) as answer:
            return bytes(answer.read())

    def timed(self, path: str) -> float:
        begin = time.monotonic()
        self.ask("GET", path)
        return time.monotonic() - begin
