"""Jobs on a Spark cluster of a standalone master and two workers: load, both runners, executors that stage, verification;
executors, workers and drivers are killed where it hurts."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import anabranch
from anabranch import failpoints
from anabranch.testing import faults
from anabranch.testing.servers import Server
from rigs.scenario import Running, Scenario, wait_until
from rigs.scenario_busy import busy
from rigs.spark_cluster import JAVA_OPTIONS, SparkCluster

PACKAGE = Path(anabranch.__file__).parent
Make = Callable[..., Scenario]
SOON = 600.0  # seconds: several drivers, executors and their Python begin on two cores
SMALL_CHUNKS = str(Path(__file__).parents[1] / "rigs" / "small_chunks")
MANY = (
    "CREATE TABLE many (id INT PRIMARY KEY, n INT NOT NULL, word VARCHAR(40))",
    "CREATE TABLE loose (n INT, word VARCHAR(40))",
    "INSERT INTO loose VALUES (1, 'x'), (1, 'x'), (NULL, NULL)",
    *(
        "INSERT INTO many VALUES " + ", ".join(f"({first + n}, {n % 7}, 'row {n}')" for n in range(1000))
        for first in range(0, 9000, 1000)
    ),
)


class OnCluster:
    """A job there. `held`: failpoints of its tasks, which `reached` tells of; `conf`: settings besides."""

    def __init__(self, made: Scenario, cluster: SparkCluster) -> None:
        self.made, self.cluster, self.log = made, cluster, made.directory / "reached"
        self.events = made.directory / "events"
        self.events.mkdir()

    def write(self, held: str = "", *, text: str = "", conf: str = "", archive: str = "") -> None:
        variables = {failpoints.VARIABLE: held, failpoints.LOG_VARIABLE: str(self.log)} if held else {}
        settings = {
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.executor.memory": "512m",
            "spark.executor.extraJavaOptions": JAVA_OPTIONS,
            "spark.eventLog.enabled": "true",
            "spark.eventLog.dir": self.events.as_uri(),
            **{f"spark.executorEnv.{name}": value for name, value in variables.items()},
        }
        lines = "".join(f'"{name}" = "{value}"\n' for name, value in settings.items())
        self.made.write_job(f'{text}[spark]\nmaster = "{self.cluster.url}"\n{archive}[spark.conf]\n{lines}{conf}')

    def reached(self, point: str, run: Running) -> None:
        wait_until(lambda: self.has_reached(point), SOON, f"{point} in a task", run.tail, run)

    def has_reached(self, point: str) -> bool:
        return self.log.exists() and any(line.startswith(point) for line in self.log.read_text().splitlines())

    def holder(self, point: str) -> int:
        """The process that a failpoint holds up."""
        return int(next(line for line in self.log.read_text().splitlines() if line.startswith(point)).split()[1])

    def kill_executor_of(self, point: str) -> None:
        """SIGKILL for the executor whose task is held up; its Python goes with it."""
        task = self.holder(point)
        (executor,) = [pid for pid in self.cluster.executors() if task in faults.descendants(pid)]
        faults.kill_tree(executor)

    def kill_worker_of(self, point: str) -> None:
        """SIGKILL for the worker below which a task is held up, with all of it; another one begins."""
        task = self.holder(point)
        (worker,) = [pid for pid in self.cluster.workers if task in faults.descendants(pid)]
        self.cluster.kill_worker(worker)
        self.cluster.add_worker()

    def assert_keeps_secrets(self) -> None:
        """Look for passwords in what Spark writes down of the applications: plans, settings, environment, messages of tasks."""
        told = [path for path in self.events.rglob("*") if path.is_file()]
        told += [path for path in self.cluster.directory.rglob("*") if path.name in ("stderr", "stdout")]
        assert told
        for password in (self.made.source.server.password, self.made.target.server.password):
            assert password and [path for path in told if password.encode() in path.read_bytes()] == []


@pytest.fixture
def on_cluster(scenario: Make, cluster: SparkCluster, monkeypatch: pytest.MonkeyPatch) -> Callable[..., OnCluster]:
    def make(server: Server, *statements: str) -> OnCluster:
        monkeypatch.setenv("PYTHONPATH", os.pathsep.join([SMALL_CHUNKS, os.environ.get("PYTHONPATH", "")]))
        return OnCluster(scenario(server, *statements, is_forked=False), cluster)

    return make


def changes(n: int) -> list[str]:
    return [
        f"UPDATE many SET n = n + 1 WHERE id % 40 = {n % 40}",
        f"INSERT INTO many VALUES ({n + 100_000}, 0, 'new'), ({n + 200_000}, 0, NULL)",
        f"DELETE FROM many WHERE id = {n + 99_990}",
        f"INSERT INTO loose VALUES ({n % 5}, 'n')",
    ]


@pytest.mark.timeout(1800)
def test_rule_10_a_job_on_a_cluster_loses_an_executor_in_the_load_and_a_worker_in_an_epoch(
    mariadb: Server, on_cluster: Callable[..., OnCluster]
) -> None:
    job = on_cluster(mariadb, *MANY)
    made = job.made
    held = {"load": "load.copied=delay:900", "stage": "apply.stage=delay:900"}
    job.write(";".join(held.values()), text="[apply]\nstage_rows = 10\n")
    run = made.start("run")
    job.reached(held["load"], run)
    job.kill_executor_of(held["load"])
    made.wait_streaming(run, SOON)
    with busy(made, changes, rest=0.2):
        job.reached(held["stage"], run)
        job.kill_worker_of(held["stage"])
        made.sync(run, SOON)
    made.sync(run, SOON)
    made.assert_identical()
    verified = made.cli("verify", seconds=SOON)
    assert "many" in verified.stdout and run.stop().code == 0
    assert set(made.states().values()) == {"streaming"}
    job.assert_keeps_secrets()


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_rule_10_drivers_on_a_cluster_are_killed_in_the_load_and_in_a_staged_epoch(
    logical_postgresql: Server, on_cluster: Callable[..., OnCluster]
) -> None:
    job = on_cluster(logical_postgresql, *MANY)
    made = job.made
    held = {"load": "load.copied=delay:900", "stage": "apply.stage=delay:900"}
    job.write(";".join(held.values()), text='[apply]\nrunner = "continuous"\nstage_rows = 10\n')
    run = made.start("run")
    job.reached(held["load"], run)
    faults.kill_tree(run.part("load", SOON))
    made.wait_streaming(run, SOON)
    with busy(made, changes, rest=0.2):
        job.reached(held["stage"], run)
        faults.kill_tree(run.part("apply", SOON))
        made.sync(run, SOON)
        run.kill()  # all of it, with epochs on their way
        run = made.start("run")
        made.sync(run, SOON)
    made.sync(run, SOON)
    made.assert_identical()
    made.cli("verify", seconds=SOON)
    assert run.stop().code == 0
    job.assert_keeps_secrets()
    wait_until(lambda: not job.cluster.applications(), SOON, "the cluster is free again", run.tail)


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_a_filter_is_evaluated_on_a_cluster(mysql: Server, on_cluster: Callable[..., OnCluster]) -> None:
    job = on_cluster(mysql, *MANY)
    made = job.made
    job.write(text=f'[[tables]]\nname = "{made.schema}.many"\nwhere = "id % 2 = 0"\n')
    run = made.start("run")
    made.wait_streaming(run, SOON)
    with busy(made, changes, rest=0.5):
        made.sync(run, SOON)
        made.cli("verify", seconds=SOON)
    made.sync(run, SOON)
    assert made.target_rows("many") == made.source_rows("many", where="id % 2 = 0")
    made.assert_identical("loose")
    assert run.stop().code == 0
    job.assert_keeps_secrets()


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_executors_have_their_python_out_of_an_archive_and_other_code_is_refused(
    mariadb: Server, on_cluster: Callable[..., OnCluster], tmp_path: Path
) -> None:
    job = on_cluster(mariadb, *MANY)
    made = job.made
    job.write(archive=f'archive = "{environment(tmp_path / "other", "# changed")}"\n')
    refused = made.cli("preflight", code=3, seconds=SOON).stdout
    assert (
        "spark.workers" in refused and "has other code of anabranch" in refused and "workers reach both ends" in refused
    )
    assert "has other code of anabranch" in made.cli("load", code=2, seconds=SOON).stderr
    stage = "apply.stage=delay:0.1"
    job.write(stage, archive=f'archive = "{environment(tmp_path / "same")}"\n', text="[apply]\nstage_rows = 10\n")
    assert "this release, this Python, and the job's home" in made.cli("preflight", seconds=SOON).stdout
    run = made.start("run")
    made.wait_streaming(run, SOON)
    with busy(made, changes, rest=0.2):
        job.reached(stage, run)
    made.sync(run, SOON)
    made.assert_identical()
    assert run.stop().code == 0


def environment(place: Path, more: str = "") -> Path:
    """An archive of a Python environment, as venv-pack writes one but for what this machine's has anyway: `bin/python`, and a
    copy of the package, with `more` in one of its files."""
    shutil.copytree(PACKAGE, place / "lib" / "anabranch")
    with (place / "lib" / "anabranch" / "version.py").open("a") as file:
        file.write(f"{more}\n" * bool(more))
    program = place / "bin" / "python"
    program.parent.mkdir()
    here = '$(cd "$(dirname "$0")/.." && pwd)'
    program.write_text(
        f'#!/bin/sh\nPYTHONPATH="{here}/lib:$PYTHONPATH"\nexport PYTHONPATH\nexec {sys.executable} "$@"\n'
    )
    program.chmod(0o755)
    return Path(shutil.make_archive(str(place), "gztar", place))
