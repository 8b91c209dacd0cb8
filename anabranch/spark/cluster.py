"""A cluster behind `[spark] master`: what Spark is told for one, whether it can be reached, whether it has executors for us.

Several applications share a cluster: load, apply and verify of a job are one each, and a standalone master gives all its
cores to the first that asks. So executors are asked for while there are tasks, one core each, and given back. What does not
live here: what a task checks of the place where it runs (fit.py), settings for every master (session.py).
"""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from anabranch import log
from anabranch.errors import ConfigError, SparkUnavailable

MASTER_SECONDS = 60.0  # for which a master that is away is waited for
EXECUTOR_SECONDS = 300.0  # without an executor, until work that waits for one is an error
LOOK_SECONDS, TELL_SECONDS = 1.0, 15.0
CONNECT_SECONDS = 5.0
PORT = 7077  # https://spark.apache.org/docs/latest/spark-standalone.html
UNPACKED = "environment"  # the archive's name in the working directory of an executor
NO_EXECUTOR = "no worker has a free core and enough memory, or none is there: look at the master's page"

SHARED = {
    "spark.dynamicAllocation.enabled": "true",
    "spark.dynamicAllocation.minExecutors": "0",
    "spark.dynamicAllocation.shuffleTracking.enabled": "true",  # no shuffle service has to be set up
    "spark.dynamicAllocation.shuffleTracking.timeout": "60s",  # what a comparison has shuffled holds no executor for ever
    "spark.executor.cores": "1",
}


def is_cluster(master: str) -> bool:
    return not master.startswith("local")


def settings(master: str, conf: Mapping[str, str], parallel: int, archive: str | None, package: str) -> dict[str, str]:
    """Return what Spark is told for a cluster. `parallel`: tasks at once, 0 for as many as there is room for; `archive`: the
    Python environment that executors unpack; without one they have this machine's, and import `package` from its path."""
    found = {**SHARED}
    if archive:
        found["spark.archives"] = f"{Path(archive).absolute()}#{UNPACKED}"
    else:
        found["spark.executorEnv.PYTHONPATH"] = package
    if parallel:
        cores = int(conf.get("spark.executor.cores", SHARED["spark.executor.cores"]))
        found["spark.cores.max"] = str(parallel)  # of a standalone cluster; others count executors
        found["spark.dynamicAllocation.maxExecutors"] = str(max(1, -(-parallel // cores)))
        found["spark.default.parallelism"] = found["spark.sql.shuffle.partitions"] = str(parallel)
    return found


def python_of(conf: Mapping[str, str], archive: str | None, otherwise: str) -> str:
    """Return the interpreter of the executors: `[spark.conf]` names it, or the archive has it."""
    return conf.get("spark.pyspark.python") or (f"./{UNPACKED}/bin/python" if archive else otherwise)


# --- reaching it --------------------------------------------------------------------------------------------------------


def masters(master: str) -> list[tuple[str, int]]:
    """Return hosts and ports of a standalone cluster's masters; none for other clusters. Raises ConfigError."""
    if not master.startswith("spark://"):
        return []
    found = [re.fullmatch(r"(\[[^]]+\]|[^:]+)(?::(\d+))?", one) for one in master.removeprefix("spark://").split(",")]
    if any(one is None for one in found):
        raise ConfigError(f"[spark] master {master} names no host", hint=f'write "spark://HOST:{PORT}"')
    return [(one[1].strip("[]"), int(one[2] or PORT)) for one in found if one]


def await_master(master: str, seconds: float = MASTER_SECONDS) -> None:
    """Wait until a master of a standalone cluster takes a connection. Raises SparkUnavailable after `seconds`."""
    places, until, pause = masters(master), time.monotonic() + seconds, 0.5
    while places:
        why = ""
        for place in places:
            try:
                socket.create_connection(place, CONNECT_SECONDS).close()
                return
            except OSError as error:
                why = str(error.strerror or error)
        if time.monotonic() + pause > until:
            raise SparkUnavailable(f"Spark's master {master} cannot be reached: {why}")
        log.get().warning("spark_master_away", master=master, reason=why, seconds=pause)
        time.sleep(pause)
        pause = min(pause * 2, 5.0)


class Watch:
    """Looks whether an application has executors while its work waits. Made where the work begins; local masters have
    executors always."""

    def __init__(self, context: Any, seconds: float = EXECUTOR_SECONDS) -> None:
        self._context, self._seconds = context, seconds
        self._is_cluster = is_cluster(context.master)
        self._since = self._told = time.monotonic()
        self._next = self._since + LOOK_SECONDS

    def look(self) -> None:
        """Raise SparkUnavailable if there has been no executor for so long, or if the cluster has ended the application."""
        now = time.monotonic()
        if not self._is_cluster or now < self._next:
            return
        self._next = now + LOOK_SECONDS
        context = self._context._jsc.sc()
        if context.isStopped():
            raise SparkUnavailable(f"Spark's cluster {self._context.master} has ended the application")
        if executors(self._context):
            self._since = now
        elif now - self._since > self._seconds:
            raise SparkUnavailable(
                f"Spark's cluster {self._context.master} has given no executor for {now - self._since:.0f} s",
                hint=NO_EXECUTOR,
            )
        elif now - max(self._told, self._since) > TELL_SECONDS:
            self._told = now
            log.get().warning("spark_gives_no_executor", master=self._context.master, seconds=round(now - self._since))


def executors(context: Any) -> int:
    """Return how many executors an application has; the driver is among those that Spark counts."""
    return max(0, len(context._jsc.sc().statusTracker().getExecutorInfos()) - 1)


@contextmanager
def on_driver(context: Any, interpreter: Callable[[], str]) -> Iterator[None]:
    """Have what is planned meanwhile run with this machine's interpreter: executors may have another, out of an archive, and
    the reader of a stream is asked on the driver."""
    before = context.pythonExec
    if is_cluster(context.master):
        context.pythonExec = interpreter()
    try:
        yield
    finally:
        context.pythonExec = before
