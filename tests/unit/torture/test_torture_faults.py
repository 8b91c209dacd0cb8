"""What is drawn as faults, and what of a process's end they explain."""

from __future__ import annotations

import signal
from collections import Counter
from dataclasses import replace

import pytest

from anabranch.errors import ConfigError
from anabranch.failpoints import POINTS, VARIABLE, arm
from anabranch.pace import Pace
from anabranch.spark.where import SparkFilter
from anabranch.spark.work import Bundle
from anabranch.testing.torture.contract import Fault
from anabranch.testing.torture.explain import explains
from anabranch.testing.torture.faults_plan import ELSEWHERE, WEIGHTS, draw_faults
from anabranch.testing.torture.local import HASTE, LocalEngine, Small
from anabranch.testing.torture.parts import Ended
from anabranch.testing.torture.spark_pipeline import spark_faults
from anabranch.testing.torture.waiting import AT_FAILPOINTS, asked


def test_the_same_seed_draws_the_same_faults_and_some_hundred_draw_all() -> None:
    drawn = {seed: draw_faults(seed, with_servers=True) for seed in range(1, 6001)}
    assert drawn == {seed: draw_faults(seed, with_servers=True) for seed in drawn}
    assert {len(faults) for faults in drawn.values()} == {1, 2, 3}
    every = [fault for faults in drawn.values() for fault in faults]
    assert {fault.kind for fault in every} == set(WEIGHTS)
    assert {fault.where for fault in every if fault.kind == "exit"} == set(POINTS) - ELSEWHERE
    assert ("clock", "load") not in {(fault.kind, fault.where) for fault in every}
    first = Counter(fault.where for faults in list(drawn.values())[:400] for fault in faults)
    assert len(first.keys() & set(POINTS)) > 0.8 * len(POINTS.keys() - ELSEWHERE)


def test_servers_are_left_alone_where_they_are_not_ours() -> None:
    assert not {f.kind for seed in range(500) for f in draw_faults(seed)} & {"restart", "lose"}


def test_faults_at_failpoints_are_what_the_variable_takes() -> None:
    drawn = [fault for seed in range(300) for fault in (*draw_faults(seed), *spark_faults(seed))]
    for fault in drawn:
        if fault.kind in AT_FAILPOINTS:
            arm({VARIABLE: asked(fault)})
    arm({})


@pytest.mark.parametrize(
    ("fault", "code", "error", "is_explained"),
    [
        (Fault("kill", "apply"), -signal.SIGKILL, "", True),
        (Fault("kill", "apply"), 1, "KeyError", False),
        (Fault("exit", "apply.begin"), 137, "", True),
        (Fault("exit", "apply.begin"), 1, "KeyError", False),
        (Fault("raise", "apply.begin"), 1, "FailpointReached", True),
        (Fault("raise", "apply.begin"), 1, "KeyError", False),
        (Fault("full", "trail.frame"), 7, "StorageFull", True),
        (Fault("full", "trail.frame"), 7, "TrailError", False),
        (Fault("full", "trail.frame"), 1, "ValueError", False),
        (Fault("delay", "trail.frame"), 1, "ValueError", False),
        (Fault("cut", "target"), 6, "TargetUnavailable", True),
        (Fault("cut", "target"), 5, "SourceUnavailable", False),
        (Fault("cut", "target"), 6, "RowRefused", False),
        (Fault("lose", "target"), 6, "TargetUnavailable", True),
        (Fault("second", "apply"), 6, "Fenced", True),
        (Fault("second", "capture"), 6, "Fenced", False),
        (Fault("clock", "apply"), 1, "ValueError", False),
    ],
)
def test_what_explains_an_end(fault: Fault, code: int, error: str, is_explained: bool) -> None:
    assert explains(fault, Ended("apply", 17, code, 0.0, error, ""), pid=17) == is_explained


def test_a_server_that_forgets_explains_that_a_checkpoint_is_another_ones_again() -> None:
    ended, fault = Ended("apply", 17, 6, 0.0, "Fenced", ""), Fault("lose", "target")
    assert explains(fault, ended, 0) and not explains(fault, ended, 0, forgets=False)
    assert not explains(Fault("restart", "target"), ended, 0)
    assert not explains(Fault("lose", "target", at="second"), ended, 0, apart=True)


def test_a_kill_explains_the_process_that_it_met_and_no_other() -> None:
    assert not explains(Fault("kill", "apply"), Ended("apply", 18, -signal.SIGKILL, 0.0, "", ""), pid=17)


def test_a_part_has_short_pauses_and_the_sizes_that_were_drawn() -> None:
    pauses = ("apply_tick", "apply_chores", "apply_register", "capture_read", "capture_heartbeat", "capture_requests")
    for name in (*pauses, "load_pause", "repair_poll"):
        assert 0 < getattr(HASTE, name) < getattr(Pace(), name)
    assert Small().pace == HASTE
    assert Small(chunk_rows=4, log_images=3, block_changes=1).pace == replace(
        HASTE, load_rows=(4, 4), log_images=3, block_changes=1
    )


def test_a_filter_is_refused_where_there_is_no_spark() -> None:
    engine = LocalEngine(Small())
    with pytest.raises(ConfigError, match="Spark SQL"):
        engine.run(None, [Bundle([1], where=SparkFilter("a > 1", (0,), {}))], lambda outcome: None, lambda: False)


def test_tasks_are_carried_out_in_order_as_copies() -> None:
    assert LocalEngine(Small()).each([Task("a"), Task("bb")]) == [1, 2]


class Task:
    def __init__(self, text: str) -> None:
        self.text = text

    def __call__(self) -> int:
        return len(self.text)
