"""What Spark is told, and the Java that it needs."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from anabranch.errors import ConfigError
from anabranch.spark.java import require_java
from anabranch.spark.session import ENDED_WORKER, LOG4J, _paragraphs, settings


@pytest.mark.parametrize(
    ("master", "parallel", "expected"),
    [
        ("local", 0, "local[1,4]"),
        ("local[3]", 7, "local[3,4]"),
        ("local[*]", 7, "local[7,4]"),
        ("local[*]", 0, f"local[{len(os.sched_getaffinity(0))},4]"),
        ("spark://host:7077", 7, "spark://host:7077"),
        ("local[2,9]", 0, "local[2,9]"),
    ],
)
def test_local_masters_try_a_task_four_times(master: str, parallel: int, expected: str) -> None:
    assert settings("x", master, {}, parallel)["spark.master"] == expected


def test_the_job_s_own_settings_win() -> None:
    found = settings("x", "local[2]", {"spark.driver.memory": "3g", "spark.ui.enabled": "true"})
    assert (found["spark.driver.memory"], found["spark.ui.enabled"]) == ("3g", "true")
    assert found["spark.sql.shuffle.partitions"] == "2" and found["spark.driver.host"] == "127.0.0.1"
    assert LOG4J.is_file()


def test_a_cluster_is_told_how_many_cores_and_no_loopback_address() -> None:
    found = settings("x", "spark://host:7077", {}, 8)
    assert found["spark.cores.max"] == "8" and "spark.driver.host" not in found


def test_no_java_says_what_to_install(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="apt-get install openjdk-17"):
        require_java({"PATH": str(tmp_path)})
    with pytest.raises(ConfigError, match="there is none"):
        require_java({"JAVA_HOME": str(tmp_path), "PATH": os.environ["PATH"]})


@pytest.mark.parametrize(
    ("printed", "found"),
    [('openjdk version "11.0.2" 2019', "11"), ('java version "1.8.0_292"', "8"), ("hello", "unknown")],
)
def test_an_old_java_is_refused(tmp_path: Path, printed: str, found: str) -> None:
    with pytest.raises(ConfigError, match=f"17 or later.*{found}"):
        require_java({"PATH": _java(tmp_path, printed)})


def test_a_new_java_is_taken(tmp_path: Path) -> None:
    directory = _java(tmp_path, 'openjdk version "21" 2023-09-19')
    assert require_java({"PATH": directory}) == str(tmp_path / "java")


def _java(directory: Path, printed: str) -> str:
    """A program called java that prints a version as Java does."""
    program = directory / "java"
    program.write_text(f"#!{sys.executable}\nimport sys\nsys.stderr.write({printed!r})\n")
    program.chmod(0o755)
    return str(directory)


def test_a_traceback_is_one_paragraph() -> None:
    traceback = ["Traceback (most recent call last):\n", f'  File "{ENDED_WORKER}", line 1\n', "BrokenPipeError\n"]
    assert list(_paragraphs(["a\n", *traceback, "b\n"])) == ["a\n", "".join(traceback), "b\n", ""]
