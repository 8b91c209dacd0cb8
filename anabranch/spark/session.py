"""The one way to a Spark session: the settings that make it fast and quiet are set here, not left to users.

What lives here: settings, start of the JVM and what it may print. What does not: anything that knows rows (rows.py) or
runs work (pieces.py). Secrets never come into Spark's configuration: connectors travel inside the tasks.
"""

from __future__ import annotations

import os
import re
import signal
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from subprocess import PIPE
from typing import IO

from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # it has no types
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from anabranch.errors import SparkUnavailable
from anabranch.spark import cluster, daemon, fit
from anabranch.spark.interpreter import interpreter
from anabranch.spark.java import require_java

LOG4J = Path(__file__).with_name("log4j2.properties")
PACKAGE_PARENT = str(Path(__file__).parents[2])
ATTEMPTS = 4  # local[N] alone gives a task one attempt
NOISE = ("WARNING: Using incubator modules",)  # printed by the JVM itself, before any log is set up
ENDED_WORKER = "pyspark/daemon.py"  # in the traceback of a worker whose task was cancelled

# Rows pass the JVM by: it plans, and its own start and warm-up are what can be felt. The first compiler alone halves the
# processor time of an epoch in the first minutes, the plain collector has no threads that wait for a second core. Left to
# itself Java takes a heap by the size of the machine, and has touched all of its young generation soon.
JAVA_OPTIONS = f"-Dlog4j2.configurationFile={LOG4J.as_uri()} -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xms64m -Xmn32m"

_LOCAL = re.compile(r"local(?:\[(\*|\d+)\])?$")

FIXED = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.python.unix.domain.socket.enabled": "true",  # no 40 ms stall by delayed acknowledgements per Python task
    "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",  # no fork of chmod per file
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
    "spark.sql.streaming.checkpoint.fileChecksum.enabled": "false",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
    "spark.driver.memory": "1g",
    "spark.driver.extraJavaOptions": JAVA_OPTIONS,
}
LOCAL_ONLY = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.executorEnv.PYTHONPATH": PACKAGE_PARENT,  # workers import this very package, wherever it was started from
}


def session(
    app_name: str,
    master: str = "local[*]",
    conf: Mapping[str, str] | None = None,
    parallel: int = 0,
    place: Path | None = None,
    archive: str | None = None,
    patience: float = cluster.MASTER_SECONDS,
    modules: Sequence[str] = (),
) -> SparkSession:
    """Return a Spark session with our settings; `conf` (the job's `[spark.conf]`) wins over them.

    `parallel`: tasks at once, where the master leaves that open (0: as many as there are cores); `place`: a directory of the
    job's home for what Spark's processes are started with (interpreter.py), and for a mark that workers look for (fit.py);
    `archive`: the Python environment of a cluster's executors; `patience`: seconds for which a cluster's master is waited for;
    `modules`: what tasks will import besides this room; on this machine it is imported once for all workers (daemon.py).

    An active session of this process is taken as it is: notebooks have one. The JVM ends with this process, also when
    that is killed: its standard input closes. Raises ConfigError without Java 17, SparkUnavailable for a cluster that does not
    take us.
    """
    fit.begin(place)
    if SparkContext._active_spark_context is not None:
        return SparkSession.builder.getOrCreate()
    chosen = settings(app_name, master, conf or {}, parallel, archive, modules)
    if cluster.is_cluster(chosen["spark.master"]):
        fit.code()  # of the files as they are now: somebody may put a new release in their place later
    _set_environment(require_java(), chosen, place, archive)
    cluster.await_master(chosen["spark.master"], patience)
    with _own_signals():
        try:
            return _start(chosen)
        except (PySparkException, Py4JError) as error:
            if not cluster.is_cluster(chosen["spark.master"]):
                raise
            why = next((line for line in str(error).splitlines()[::-1] if line.startswith("Caused by: ")), str(error))
            raise SparkUnavailable(f"Spark did not start at {master}: {why.splitlines()[0]}") from error


def settings(
    app_name: str,
    master: str,
    conf: Mapping[str, str],
    parallel: int = 0,
    archive: str | None = None,
    modules: Sequence[str] = (),
) -> dict[str, str]:
    """Return everything Spark is told, as one table."""
    found = _LOCAL.match(master)
    cores = _cores(found, parallel) if found else None
    mine = FIXED | {"spark.app.name": app_name, "spark.master": f"local[{cores},{ATTEMPTS}]" if cores else master}
    if cores:
        mine |= LOCAL_ONLY | daemon.settings(modules)
        mine |= {"spark.sql.shuffle.partitions": str(cores), "spark.default.parallelism": str(cores)}
    elif cluster.is_cluster(master):
        mine |= cluster.settings(master, conf, parallel, archive, PACKAGE_PARENT)
    elif parallel:
        mine |= {"spark.cores.max": str(parallel)}  # of a cluster in processes of this machine
    return mine | dict(conf)


def _cores(found: re.Match[str], parallel: int) -> int:
    wanted = found.group(1)
    if wanted is None:
        return 1
    return max(1, (parallel or len(os.sched_getaffinity(0))) if wanted == "*" else int(wanted))


def _set_environment(java: str, chosen: Mapping[str, str], place: Path | None, archive: str | None) -> None:
    """Set what Spark reads from the environment only: the interpreter of its workers, the Java to start."""
    if "JAVA_HOME" not in os.environ:
        os.environ["JAVA_HOME"] = str(Path(java).resolve().parents[1])
    if cluster.is_cluster(chosen["spark.master"]):
        os.environ["PYSPARK_PYTHON"] = cluster.python_of(chosen, archive, sys.executable)
        os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    else:
        os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = interpreter(place)
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")


def driver_python() -> str:
    """Return the interpreter of what Spark starts beside this process."""
    return sys.executable


@contextmanager
def _own_signals() -> Iterator[None]:
    """Keep the SIGINT handler that a command line has set: Spark puts its own in its place."""
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        ours = before not in (signal.default_int_handler, None)
        if ours and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, before)


def _start(chosen: Mapping[str, str]) -> SparkSession:
    configuration = SparkConf(loadDefaults=False).setAll(list(chosen.items()))
    if SparkContext._gateway is None:
        gateway = launch_gateway(configuration, {"stderr": PIPE})
        threading.Thread(target=_relay, args=(gateway.proc.stderr,), name="spark-stderr", daemon=True).start()
    else:  # a JVM from an earlier session of this process
        gateway = SparkContext._gateway
    context = SparkContext(conf=configuration, gateway=gateway)
    return SparkSession(context)


def _relay(lines: IO[bytes]) -> None:
    """Pass on what the JVM prints, without its noise."""
    for text in _paragraphs(line.decode(errors="replace") for line in lines):
        if not text.startswith(NOISE) and ENDED_WORKER not in text:
            sys.stderr.write(text)


def _paragraphs(lines: Iterable[str]) -> Iterator[str]:
    """Yield lines one by one, but a Python traceback as a whole."""
    held = ""
    for line in lines:
        if held or line.startswith("Traceback "):
            held += line
            if held == line or line.startswith(" "):
                continue
        yield held or line
        held = ""
    yield held
