"""The Python of Spark's processes: this one, without the archives that Spark puts in front."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from anabranch.spark.interpreter import interpreter


@pytest.mark.parametrize("has_place", [True, False])
def test_it_is_this_interpreter_and_only_the_archives_are_left_out(tmp_path: Path, has_place: bool) -> None:
    spark = [
        "/opt/a b/python/lib/pyspark.zip",
        "/opt/a b/python/lib/py4j-0.10.9.9-src.zip",
        "/opt/a b/jars/spark-core_2.13-4.3.0.jar",
    ]
    given = [*spark, "/mine/*", *spark, "/mine/lib.zip", "/mine/spark-core.jar"]
    shown = "[sys.prefix, os.environ['PYTHONPATH'], sys.argv[1:], pyspark.__file__]"
    code = f"import json, os, pyspark, sys; print(json.dumps({shown}))"
    done = subprocess.run(
        [interpreter(tmp_path / "a new one" if has_place else None), "-c", code, "two words", "$HOME"],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "PYTHONPATH": ":".join(given)},
    )
    assert done.returncode == 0, done.stderr
    prefix, path, arguments, pyspark = json.loads(done.stdout)
    assert prefix == sys.prefix
    assert path.split(":") == ["/mine/*", "/mine/lib.zip", "/mine/spark-core.jar"]
    assert arguments == ["two words", "$HOME"]
    assert ".zip" not in pyspark


def test_without_a_place_for_the_script_it_is_the_interpreter_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(**_: Any) -> str:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tempfile, "mkdtemp", full)
    assert interpreter() == sys.executable


def test_a_directory_that_takes_no_script_is_done_without(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert interpreter(tmp_path / "file") == sys.executable


def test_the_script_is_written_again_only_where_it_says_something_else(tmp_path: Path) -> None:
    script = Path(interpreter(tmp_path))
    before = script.stat().st_ino
    assert Path(interpreter(tmp_path)).stat().st_ino == before
    script.write_text("#!/bin/sh\nexit 1\n")
    assert subprocess.run([interpreter(tmp_path), "-c", ""], check=False).returncode == 0
    assert [one.name for one in tmp_path.iterdir()] == ["python"]


def test_where_nothing_may_be_run_it_is_the_interpreter_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    class NoExec:
        f_flag = os.ST_NOEXEC

    monkeypatch.setattr(os, "statvfs", lambda path: NoExec())
    assert interpreter() == sys.executable


def test_where_pyspark_is_not_installed_the_archives_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("site.getsitepackages", lambda: ["/nowhere"])
    assert interpreter() == sys.executable
