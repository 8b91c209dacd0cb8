"""Spark starts in half the time from an archive of its classes. For tests and the demo, which start it again and again.

https://docs.oracle.com/en/java/javase/17/vm/class-data-sharing.html
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from anabranch.testing.cache import ServerUnavailable, cache_directory, fetched

NAME, FILE = "spark-classes", "classes.jsa"
QUIET = "-Xlog:cds=off -Xlog:cds+dynamic=off -Xlog:class+path=off"
SECONDS = 180

# What a job's Spark does: Python tasks, a stream into a function, SQL. Ends when the JVM has written the archive.
WORK = """
import sys
from anabranch.spark.session import JAVA_OPTIONS, session
spark = session("classes", "local[2]", {"spark.driver.extraJavaOptions": JAVA_OPTIONS + " " + sys.argv[1]})
spark.sparkContext.parallelize(range(4), 2).map(lambda n: n).collect()
stream = spark.readStream.format("rate").load().writeStream.foreachBatch(lambda frame, number: frame.count())
query = stream.option("checkpointLocation", sys.argv[2]).start()
while query.lastProgress is None or query.lastProgress["batchId"] < 2:
    query.awaitTermination(0.2)
query.stop()
jvm = spark.sparkContext._gateway.proc
spark.stop()
jvm.stdin.close()
jvm.wait(120)
"""


@cache
def environment() -> dict[str, str]:
    """Return what a process that starts Spark needs in its environment; make the archive when this Java has none for this
    pyspark. Empty where that fails."""
    name = _name()
    if not name:
        return {}
    try:
        return _using(fetched(name, _make))
    except (ServerUnavailable, OSError, subprocess.SubprocessError):
        return {}


def found() -> dict[str, str]:
    """The same where the archive is there already; empty where it is not."""
    name = _name()
    place = cache_directory() / name
    return _using(place) if name and place.is_dir() else {}


def _using(place: Path) -> dict[str, str]:
    return {"SPARK_SUBMIT_OPTS": f"-XX:SharedArchiveFile={place / FILE} {QUIET}"}


def _name() -> str:
    """Return the archive's name, made of this Java and this pyspark; "" where one of them is missing."""
    spark = find_spec("pyspark")
    java = shutil.which("java", path=os.path.join(os.environ.get("JAVA_HOME", ""), "bin")) or shutil.which("java")
    if spark is None or spark.origin is None or java is None:
        return ""
    told = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    place = Path(spark.origin).resolve()  # as Spark itself names its classes, whatever link leads to this environment
    return f"{NAME}-{hashlib.sha256(f'{place} {told}'.encode()).hexdigest()[:12]}"


def _make(directory: Path) -> None:
    """Takes ten seconds and 150 MB; one of another pyspark or Java goes."""
    for other in cache_directory().glob(f"{NAME}-*"):
        if other.is_dir():
            shutil.rmtree(other, ignore_errors=True)
    options = f"-XX:ArchiveClassesAtExit={directory / FILE} {QUIET}"
    command = [sys.executable, "-c", WORK, options, str(directory / "checkpoint")]
    subprocess.run(command, capture_output=True, timeout=SECONDS, check=True)
    shutil.rmtree(directory / "checkpoint", ignore_errors=True)
    (directory / FILE).chmod(0o644)
