"""A Spark cluster of this machine: a standalone master and workers of one core each, from the installed pyspark.

What does not live here: what is run on it (tests/scenarios/test_scenario_spark_cluster.py).
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyspark

from anabranch.spark.java import require_java
from anabranch.testing import faults
from rigs.scenario import wait_until

SOON = 240.0
HOME = Path(pyspark.__file__).parent
DEPLOY = "org.apache.spark.deploy"
QUIET = f"""
rootLogger.level = info
rootLogger.appenderRef.stdout.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d %p %c{{1}}: %m%n%ex
logger.app.name = {DEPLOY}
logger.app.level = info
"""
# Masters and workers are idle, executors live for a minute: no threads for many cores, nothing that pays only later.
JAVA_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
STARTED = re.compile(r"Starting Spark master at (spark://\S+)")
PAGE = re.compile(r"Bound MasterWebUI to \S+, and started at (http://\S+)|started at (http://\S+)")


@dataclass
class SparkCluster:
    """`url`: what `[spark] master` takes. Each worker has a core and a gigabyte, so one executor of an application."""

    directory: Path
    url: str = ""
    page: str = ""
    _started: list[subprocess.Popen[bytes]] = field(default_factory=list)
    _workers: dict[int, subprocess.Popen[bytes]] = field(default_factory=dict)

    def start(self, workers: int = 2) -> None:
        (self.directory / "log4j2.properties").write_text(QUIET)
        log = self.directory / "master.log"
        words = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
        self._java("master.Master", log, *words)
        self.url = wait_until(lambda: _found(STARTED, log), SOON, "a master of Spark", lambda: _tail(log))
        self.page = wait_until(lambda: _found(PAGE, log), SOON, "its page", lambda: _tail(log))
        for _ in range(workers):
            self.add_worker()
        self.wait_alive(workers)

    def add_worker(self) -> int:
        """Start a worker; returns its process id."""
        place = self.directory / f"worker-{len(self._started)}"
        place.mkdir()
        words = ("--host", "127.0.0.1", "--webui-port", "0", "--cores", "1", "--memory", "1g")
        process = self._java("worker.Worker", place.with_suffix(".log"), *words, "--work-dir", str(place), self.url)
        self._workers[process.pid] = process
        return process.pid

    def wait_alive(self, workers: int) -> None:
        wait_until(lambda: len(self.alive()) == workers or None, SOON, f"{workers} workers", lambda: str(self.state()))

    def state(self) -> dict[str, Any]:
        """Read the master's page, as JSON."""
        with urllib.request.urlopen(f"{self.page.rstrip('/')}/json/", timeout=SOON) as answer:
            found: dict[str, Any] = json.load(answer)
            return found

    def alive(self) -> list[dict[str, Any]]:
        return [worker for worker in self.state()["workers"] if worker["state"] == "ALIVE"]

    def applications(self) -> list[str]:
        """Names of those that have the cluster now."""
        return [str(app["name"]) for app in self.state()["activeapps"]]

    @property
    def workers(self) -> list[int]:
        return [pid for pid, process in self._workers.items() if process.poll() is None]

    def executors(self, words: str = "") -> list[int]:
        """Process ids of executors, of all applications or of that whose executors' command lines have `words`."""
        found = (faults.find(pid, "CoarseGrainedExecutorBackend") for pid in self.workers)
        return [pid for some in found for pid in some if words in faults.command_line(pid)]

    def tasks(self) -> list[int]:
        """Process ids of Python workers: those that executors run tasks in."""
        return [pid for executor in self.executors() for pid in faults.python_workers(executor)]

    def kill_worker(self, pid: int) -> None:
        """SIGKILL for a worker and its executors, as if its machine had stopped."""
        faults.kill_tree(pid)
        self._workers.pop(pid).wait()

    def stop(self) -> None:
        for process in reversed(self._started):
            if process.poll() is None:
                faults.kill_tree(process.pid)
                process.wait()

    def _java(self, main: str, log: Path, *words: str) -> subprocess.Popen[bytes]:
        java = Path(require_java()).resolve().parents[1]
        settings = f"-Dlog4j2.configurationFile={(self.directory / 'log4j2.properties').as_uri()} {JAVA_OPTIONS}"
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_"))}
        environment |= {
            "JAVA_HOME": str(java),
            "SPARK_HOME": str(HOME),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": settings,
            "SPARK_MASTER_OPTS": "-Dspark.master.rest.enabled=false",  # no port of its own
        }
        environment.pop(
            "PYTHONPATH", None
        )  # executors have what a job gives them, and nothing of who started the cluster
        with log.open("wb") as out:
            process = subprocess.Popen(
                [str(HOME / "bin" / "spark-class"), f"{DEPLOY}.{main}", *words],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                env=environment,
                cwd=self.directory,
                start_new_session=True,
            )
        self._started.append(process)
        return process


@contextmanager
def spark_cluster(directory: Path, workers: int = 2) -> Iterator[SparkCluster]:
    directory.mkdir(parents=True, exist_ok=True)
    made = SparkCluster(directory)
    try:
        made.start(workers)
        yield made
    finally:
        made.stop()


def _found(pattern: re.Pattern[str], log: Path) -> str | None:
    match = pattern.search(log.read_text(errors="replace"))
    return next(filter(None, match.groups())) if match else None


def _tail(log: Path) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-30:])
