"""A scenario's job in the hands of managers, each a process of its own.

What does not live here: one manager and its HTTP (served.py), the job and its servers (scenario.py).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from anabranch import failpoints
from anabranch.testing import faults
from rigs.scenario import Scenario, wait_until
from rigs.served import Served

QUICK = Path(__file__).parent / "quick"


def environment_of(made: Scenario) -> dict[str, str]:
    """Return the variables of a manager whose jobs do without Spark."""
    return made.environment | {"PYTHONPATH": f"{QUICK}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"}


def output(made: Scenario) -> Path:
    """Return where managers write what they say."""
    (found := made.directory / "output").mkdir(exist_ok=True)
    return found


@contextmanager
def served(
    made: Scenario, number: int, *arguments: str, without: str = "", has_nursery: bool = True
) -> Iterator[Served]:
    """A manager of the scenario's home, whose jobs do without Spark. `without`: a variable that it does not have;
    `has_nursery`: as Served has it."""
    environment = environment_of(made)
    environment.pop(without, None)
    manager = Served(environment, output(made) / f"serve{number}", *arguments, has_nursery=has_nursery)
    manager.token = manager.command("token", "create", "--role", "administrator", "--name", "test")
    try:
        manager.wait_health()
        yield manager
    finally:
        manager.close()


def processes_of(made: Scenario) -> list[int]:
    """Return the processes that run this job's file, of any manager."""
    return [
        int(entry.name)
        for entry in Path("/proc").iterdir()
        if entry.name.isdigit() and f"/jobs/{made.name}.toml".encode() in _command(entry)
        and str(made.directory).encode() in _command(entry)
    ]  # fmt: skip


def runs_of(made: Scenario) -> list[int]:
    """Return the processes `anabranch run` of this job's file; each has its parts beside it."""
    return [pid for pid in processes_of(made) if b"\0run\0" in _command(Path("/proc") / str(pid))]


def _command(entry: Path) -> bytes:
    try:
        return (entry / "cmdline").read_bytes()
    except OSError:  # it ended meanwhile
        return b""


class Managers:
    """Managers of one home, one after the other. Jobs go on between them, until `close`."""

    def __init__(self, made: Scenario) -> None:
        self.made, self.number = made, 0
        self.environment = environment_of(made)
        with served(made, 0) as first:
            self.token = first.token

    @contextmanager
    def next(self) -> Iterator[Served]:
        """Yield a manager that is killed at the end of the block."""
        manager = self._begun(self.environment)
        try:
            yield manager
        finally:
            manager.jobs.clear()
            manager.close()

    @contextmanager
    def dying(self, point: str) -> Iterator[Served]:
        """Yield a manager that dies at a failpoint; wait at the end of the block until it has."""
        manager = self._begun(self.environment | {failpoints.VARIABLE: f"{point}=exit"})
        try:
            yield manager
            wait_until(lambda: not manager.process.is_alive, 120, f"the manager dies at {point}", manager.process.tail)
            assert manager.process.process.wait() == failpoints.EXIT_CODE, manager.process.tail()
        finally:
            manager.jobs.clear()
            manager.close()

    def close(self) -> None:
        """Kill what still runs of the job."""
        for pid in processes_of(self.made):
            faults.kill_tree(pid)

    def _begun(self, environment: dict[str, str]) -> Served:
        self.number += 1
        manager = Served(environment, output(self.made) / f"serve{self.number}")
        manager.token = self.token
        manager.wait_health()
        return manager
