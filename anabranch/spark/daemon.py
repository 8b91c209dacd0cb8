"""Be what Spark forks its Python workers from on this machine, with everything imported that each of their tasks needs.

Spark's own daemon imports next to nothing: each worker, of which a load with a filter has two for each of its tasks, then
takes half a second of processor and 40 MB for the same modules. What does not live here: which modules (the session's
caller knows the job), the daemon of a cluster's executors, which is Spark's: they may have another release of this package.

Importing starts threads (of Arrow, and of its memory). They rest: the daemon does nothing but fork, and a worker that uses
Arrow makes its own.
"""

from __future__ import annotations

import contextlib
import gc
import os
import sys
from collections.abc import Iterable
from importlib import import_module

from pyspark import daemon

MODULE = "anabranch.spark.daemon"
VARIABLE = "ANABRANCH_TASK_MODULES"
RUNS_TASKS = "pyspark.worker"  # what Spark starts its other Python workers with has no need of our modules


def settings(modules: Iterable[str]) -> dict[str, str]:
    """Return what Spark is told, so that its workers are forks of this module, which has imported these."""
    return {"spark.python.daemon.module": MODULE, f"spark.executorEnv.{VARIABLE}": ",".join(modules)}


def import_all(worker: str, modules: Iterable[str]) -> None:
    """Import what the tasks of such a worker need. What cannot be imported, the task that needs it says."""
    if worker != RUNS_TASKS:
        return
    for name in (RUNS_TASKS, "anabranch.spark.pieces", *modules):
        with contextlib.suppress(Exception):  # whatever it is: the task that needs the module meets it, and says so
            import_module(name)
    gc.collect()
    gc.freeze()  # workers share what is never touched


if __name__ == "__main__":
    import_all(sys.argv[1], filter(None, os.environ.get(VARIABLE, "").split(",")))
    daemon.manager()
