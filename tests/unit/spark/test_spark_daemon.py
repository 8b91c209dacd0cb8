"""The daemon of Spark's Python workers: it has imported what tasks need, and a worker of it does what another one does."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from anabranch.job.parts import IN_TASKS, WORK
from anabranch.spark import daemon
from anabranch.spark.session import settings

ENDS = ("mysql.source", "postgresql.source", "mysql.target", "postgresql.target")


def imported(worker: str, *modules: str) -> set[str]:
    """Return the modules of ours that a new daemon for such workers has imported."""
    code = (
        "import json, sys; from anabranch.spark import daemon; daemon.import_all(sys.argv[1], sys.argv[2:]);"
        "print(json.dumps([name for name in sys.modules if name.startswith(('anabranch.', 'pyspark.'))]))"
    )
    done = subprocess.run([sys.executable, "-c", code, worker, *modules], capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout))


def test_what_tasks_need_is_imported_and_what_is_missing_is_left_to_them() -> None:
    found = imported(daemon.RUNS_TASKS, "anabranch.load.copy", "anabranch.no_such_room", "anabranch.load.copy.load")
    assert {"anabranch.load.copy", "anabranch.spark.pieces", daemon.RUNS_TASKS} <= found


def test_workers_that_carry_out_no_task_get_none_of_it() -> None:
    found = imported("pyspark.sql.worker.create_data_source", "anabranch.load.copy")
    assert "anabranch.load.copy" not in found and "anabranch.spark.pieces" not in found


def test_a_cluster_keeps_spark_s_own_daemon_and_a_job_s_setting_wins() -> None:
    here = settings("x", "local[2]", {}, modules=["a.b", "c"])
    assert here["spark.python.daemon.module"] == daemon.MODULE == daemon.__name__
    assert here[f"spark.executorEnv.{daemon.VARIABLE}"] == "a.b,c"
    assert "spark.python.daemon.module" not in settings("x", "spark://host:7077", {}, modules=["a.b"])
    other = settings("x", "local[2]", {"spark.python.daemon.module": "pyspark.daemon"})
    assert other["spark.python.daemon.module"] == "pyspark.daemon"


@pytest.mark.parametrize("part", ["load", "verify"])
def test_the_modules_that_are_named_are_there_in_some_connector(part: str) -> None:
    """A file that is renamed would be imported by each worker again, and nobody would see it."""
    wanted = [*WORK[part], *(f"anabranch.connectors.{end}.{name}" for end in ENDS for name in IN_TASKS[part])]
    found = imported(daemon.RUNS_TASKS, *wanted)
    assert set(WORK[part]) <= found
    for end in ENDS:
        assert any(f"anabranch.connectors.{end}.{name}" in found for name in IN_TASKS[part]), end


def test_a_worker_is_known_by_its_name() -> None:
    """Spark gives the daemon the worker's module as its first argument."""
    assert daemon.RUNS_TASKS == "pyspark.worker" and daemon.VARIABLE not in os.environ
