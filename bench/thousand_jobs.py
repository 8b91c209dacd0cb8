"""`python -m bench thousand-jobs [--jobs N]`: what a manager takes whose store has a thousand jobs.

Each job has its file, a home, and a state.db in which a run has noted itself; none runs. So what is measured is the manager
alone, as `anabranch serve`: its start, its answers, its memory and its share of a processor. Prints a line for each.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from urllib.request import Request, urlopen

from anabranch.api.asking import COOKIE
from anabranch.manager.callers import Role
from anabranch.manager.manager import Manager
from anabranch.state.store import StateStore
from anabranch.testing.servers import free_port
from bench.figures import middle
from bench.presence import PATIENCE, SETTLE, WATCH, resident
from bench.processes import Program, own_cpu, python, until

TEXT = """name = "{name}"
[source]
url = "mariadb://copier:secret@source.example/{name}"
[target]
url = "postgresql://copier:secret@target.example/{name}"
[[rules]]
include = ["{name}.*"]
"""
WHO, PASSWORD = "bench", "a long word of the bench"
ASKED = 11  # times that each page is asked for
PAGE = 100  # jobs of one answer of the API


def run(jobs: int, home: Path) -> None:
    """Measure, and print."""
    begin = time.monotonic()
    cookie = _taken_in(jobs, home)
    _told("a job is taken in", 1000 * (time.monotonic() - begin) / jobs, "ms")
    url = f"http://127.0.0.1:{free_port()}"
    begin = time.monotonic()
    words = ("serve", "--listen", url.removeprefix("http://"))
    with Program(python("anabranch", *words), {"ANABRANCH_HOME": str(home)}) as program:
        until(lambda: program.heard("serves"), PATIENCE, "the manager", check=program.check)
        _told("it serves behind its start", time.monotonic() - begin, "s")
        time.sleep(SETTLE)
        before, watched = own_cpu(program.process.pid), time.monotonic()
        time.sleep(WATCH)
        program.check()
        _told("at rest", (own_cpu(program.process.pid) - before) / (time.monotonic() - watched), "cores")
        _told("memory", resident([program.process.pid])[program.process.pid], "MB")
        for what, path in (
            (f"a page of {PAGE} jobs of the API", f"/api/v1/jobs?limit={PAGE}"),
            ("the console's overview", "/"),
            ("a job's page", f"/jobs/{_name(jobs // 2)}"),
            ("all metrics", "/metrics"),
        ):
            _told(what, 1000 * _middle(partial(_get, url + path, cookie)), "ms")


def _taken_in(jobs: int, home: Path) -> str:
    """Make the jobs, as if each had run; returns the cookie of somebody who may see all of them."""
    manager = Manager(home)
    for number in range(jobs):
        name = manager.jobs.take_in(TEXT.format(name=_name(number)), WHO).name
        manager.jobs.write_file(name)
        state = StateStore(home / name)
        state.part("run", 1, "elsewhere.example")
        state.phase("streaming")
        state.part_ended("run", 1, "elsewhere.example")
        state.close()
    manager.accounts.create(WHO, PASSWORD, Role.ADMINISTRATOR, ("*",))
    cookie = manager.sessions.begin(WHO)
    manager.end(stop_jobs=False)
    return cookie


def _name(number: int) -> str:
    return f"shop{number:05}"


def _get(url: str, cookie: str) -> None:
    with urlopen(Request(url, headers={"Cookie": f"{COOKIE}={cookie}"}), timeout=PATIENCE) as answer:
        answer.read()


def _middle(ask: Callable[[], None]) -> float:
    seconds = []
    for _ in range(ASKED):
        begin = time.monotonic()
        ask()
        seconds.append(time.monotonic() - begin)
    return middle(seconds)


def _told(what: str, value: float, unit: str) -> None:
    print(f"{what:40} {value:10.3g} {unit}", flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench thousand-jobs", description=__doc__)
    parser.add_argument("--jobs", type=int, default=1_000)
    parser.add_argument("--directory", help="where the jobs have their homes (default: the temporary directory)")
    chosen = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="anabranch-bench-", dir=chosen.directory) as place:
        run(chosen.jobs, Path(place))
    return 0
