"""A cluster: what Spark is told for one, when it counts as away, what workers need to be fit."""

from __future__ import annotations

import os
import pickle
import socket
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from anabranch.errors import AnabranchError, ConfigError, SparkUnavailable
from anabranch.spark import cluster, fit
from anabranch.spark.cluster import Watch, await_master, masters, python_of
from anabranch.spark.fit import Fit, UnfitWorkerError, unfit
from anabranch.spark.pieces import failed
from anabranch.spark.session import settings

MASTER = "spark://one:7077"


@pytest.fixture(autouse=True)
def no_driver() -> Iterator[None]:
    fit.begin(None)
    yield
    fit.begin(None)


def test_applications_of_a_cluster_ask_for_executors_while_they_have_tasks() -> None:
    found = settings("x", MASTER, {})
    assert found["spark.master"] == MASTER and found["spark.dynamicAllocation.enabled"] == "true"
    assert found["spark.dynamicAllocation.minExecutors"] == "0" and "spark.cores.max" not in found
    assert Path(found["spark.executorEnv.PYTHONPATH"], "anabranch").is_dir() and "spark.archives" not in found
    assert "spark.driver.host" not in found, "executors have to reach it"


def test_a_load_has_as_many_tasks_as_it_may() -> None:
    found = settings("x", MASTER, {}, 6)
    told = [found[f"spark.{name}"] for name in ("cores.max", "dynamicAllocation.maxExecutors", "default.parallelism")]
    assert told == ["6", "6", "6"]
    assert settings("x", "yarn", {"spark.executor.cores": "4"}, 6)["spark.dynamicAllocation.maxExecutors"] == "2"


def test_settings_of_the_job_win_on_a_cluster_too() -> None:
    assert settings("x", MASTER, {"spark.dynamicAllocation.enabled": "false"})["spark.dynamicAllocation.enabled"] == (
        "false"
    )


def test_a_cluster_in_processes_of_this_machine_is_none() -> None:
    found = settings("x", "local-cluster[2,1,1024]", {}, 2)
    assert found["spark.cores.max"] == "2" and "spark.dynamicAllocation.enabled" not in found


def test_executors_have_the_interpreter_that_is_named_or_that_of_the_archive(tmp_path: Path) -> None:
    assert python_of({"spark.pyspark.python": "/opt/python"}, "env.tar.gz", "/mine") == "/opt/python"
    assert python_of({}, "env.tar.gz", "/mine") == "./environment/bin/python"
    assert python_of({}, None, "/mine") == "/mine"
    found = settings("x", MASTER, {}, archive=str(tmp_path / "env.tar.gz"))
    assert found["spark.archives"] == f"{tmp_path}/env.tar.gz#environment"
    assert "spark.executorEnv.PYTHONPATH" not in found, "the package is in the archive"


@pytest.mark.parametrize(
    ("master", "found"),
    [
        ("spark://one:7078", [("one", 7078)]),
        ("spark://one,two:7078", [("one", 7077), ("two", 7078)]),
        ("spark://[::1]:7077", [("::1", 7077)]),
        ("yarn", []),
        ("k8s://https://one:6443", []),
        ("local[2]", []),
    ],
)
def test_masters_that_can_be_asked(master: str, found: list[tuple[str, int]]) -> None:
    assert masters(master) == found


def test_a_master_without_a_host_is_no_master() -> None:
    with pytest.raises(ConfigError, match=r"names no host.*HOST:7077"):
        masters("spark://")


def test_one_of_several_masters_is_enough_and_none_is_an_error_that_time_may_heal() -> None:
    with socket.create_server(("127.0.0.1", 0)) as gone:
        away = gone.getsockname()[1]
    with socket.create_server(("127.0.0.1", 0)) as there:
        await_master(f"spark://127.0.0.1:{away},127.0.0.1:{there.getsockname()[1]}")
    with pytest.raises(SparkUnavailable, match="cannot be reached: Connection refused") as raised:
        await_master(f"spark://127.0.0.1:{away}", 0.0)
    assert raised.value.retry == "timed" and raised.value.exit_code == 1, "a part that ends with it is started again"
    await_master("local[2]", 0.0)


class Clock:
    now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> tuple[Callable[..., None], SimpleNamespace, Watch]:
    """`look(seconds)`, the application, what watches it."""
    clock, app = Clock(), SimpleNamespace(executors=0, stopped=False)
    monkeypatch.setattr(cluster, "time", clock)
    tracker = SimpleNamespace(getExecutorInfos=lambda: [None] * (1 + app.executors))
    jvm = SimpleNamespace(statusTracker=lambda: tracker, isStopped=lambda: app.stopped)
    context = SimpleNamespace(master=MASTER, _jsc=SimpleNamespace(sc=lambda: jvm))
    watch = Watch(context, 120.0)

    def look(seconds: float) -> None:
        clock.now += seconds
        watch.look()

    return look, app, watch


def test_work_that_gets_no_executor_is_an_error_in_the_end(watched: tuple[Any, ...]) -> None:
    look, app, _ = watched
    look(100)
    app.executors = 1
    look(100)
    app.executors = 0
    look(100)
    with pytest.raises(SparkUnavailable, match=r"has given no executor for 1[0-9][0-9] s — no worker has a free core"):
        look(30)


def test_an_application_that_was_ended_waits_for_nothing(watched: tuple[Any, ...]) -> None:
    look, app, _ = watched
    app.stopped = True
    with pytest.raises(SparkUnavailable, match="has ended the application"):
        look(2)


def test_a_local_master_is_never_asked() -> None:
    Watch(cast(Any, SimpleNamespace(master="local[2]"))).look()


def test_a_worker_with_other_code_or_without_the_home_is_not_fit(tmp_path: Path) -> None:
    fit.begin(tmp_path / "spark")
    found = pickle.loads(pickle.dumps(fit.wanted(MASTER, needs_home=True)))
    assert isinstance(found, Fit) and found.mark is not None and found.why_not() == ""
    assert "and the driver 0.0.1" in replace(found, release="0.0.1").why_not()
    assert "has other code of anabranch" in replace(found, code=7).why_not()
    elsewhere = replace(found, mark=tmp_path / "elsewhere" / "spark" / "marks" / found.mark.name)
    with pytest.raises(UnfitWorkerError, match="does not see the job's home"):
        elsewhere.require()
    assert fit.wanted("local[2]", needs_home=True) is None
    without = fit.wanted(MASTER)
    assert without is not None and without.mark is None, "verification reads no trail"


def test_marks_of_processes_that_are_gone_are_removed_and_those_of_other_machines_stay(tmp_path: Path) -> None:
    marks, node = tmp_path / "spark" / "marks", os.uname().nodename
    marks.mkdir(parents=True)
    for name in (f"{node}.999999999.a", f"{node}.1.b", "other.999999999.c"):
        (marks / name).touch()
    fit.begin(tmp_path / "spark")
    found = fit.wanted(MASTER, needs_home=True)
    assert found is not None and found.mark is not None
    assert {path.name for path in marks.iterdir()} == {f"{node}.1.b", "other.999999999.c", found.mark.name}


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ("anabranch.spark.fit.UnfitWorkerError: the worker on x has other code", ConfigError),
        ("ExecutorLostFailure (executor 3 exited caused by one of the running tasks)", SparkUnavailable),
        ("Job 3 cancelled because SparkContext was shut down", SparkUnavailable),
        ("KeyError: 'b'", AnabranchError),
    ],
)
def test_what_has_ended_a_job_of_spark(said: str, kind: type[AnabranchError]) -> None:
    error = failed(Exception(f"org.apache.spark.SparkException: Job aborted\n{said}\n\tat org.apache"))
    assert type(error) is kind and "\n" not in error.message


def test_a_worker_that_is_not_fit_says_where_what_and_what_to_do() -> None:
    error = unfit("anabranch.spark.fit.UnfitWorkerError: the worker on x has other code")
    assert error is not None and str(error).startswith("the worker on x has other code — every worker needs")
    assert unfit("KeyError: 1") is None
