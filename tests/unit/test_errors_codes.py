"""Codes of errors are for machines: they stay as they are, whatever a class is called."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import anabranch
from anabranch import errors, log
from anabranch.cli import main as shell
from anabranch.errors import AnabranchError
from anabranch.job import Job
from anabranch.job.children import PartFailed

CODES = {
    "spark_unavailable": "job", "provider_unavailable": "job",
    "error": "job", "configuration": "job", "job_changed": "job", "unknown_name": "job", "not_allowed": "job",
    "out_of_date": "job", "too_often": "job", "too_busy": "job", "preflight_failed": "job", "differences_found": "job",
    "source_refused": "source", "source_unavailable": "source", "source_busy": "source", "log_lost": "source",
    "unknown_log_event": "source", "parcel_damaged": "job", "parcel_refused": "job", "parcel_missing": "job",
    "value_refused": "source", "definition": "source", "stopped_by_change": "source",
    "target_refused": "target", "target_unavailable": "target",
    "target_busy": "target", "target_full": "target", "row_refused": "target", "redefined": "source", "fenced": "target",
    "not_told": "target", "trail": "job",
    "trail_locked": "job", "trail_overtaken": "job", "trail_corrupt": "job", "trail_key_missing": "job",
    "storage_full": "job", "state": "job", "overtaken": "job", "tables_parked": "job",
    "not_caught_up": "job",
}  # fmt: skip


def classes() -> list[type[AnabranchError]]:
    found = [one for one in vars(errors).values() if isinstance(one, type) and issubclass(one, AnabranchError)]
    return [*found, PartFailed]


def test_every_class_has_a_code_of_its_own_and_a_side() -> None:
    assert all("code" in vars(one) for one in classes())
    assert {one.code: str(one.side) for one in classes()} == {**CODES, "part_failed": "job"}
    page = (Path(anabranch.__file__).parents[1] / "docs/reference/errors.md").read_text()
    assert set(CODES) <= set(re.findall(r"`(\w+)`", page)), "users find them"


@pytest.mark.parametrize("arguments", [["run"], ["capture"], ["load"], ["apply"], ["preflight", "--json"]])
def test_a_verb_that_logs_ends_with_its_error_once_as_json(
    tmp_path: Path, arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "job.toml"
    file.write_text('name = "shop"\n[source]\nurl = "mysqll://u:S3cret@h"\n')
    assert shell.exit_code([arguments[0], str(file), *arguments[1:]]) == 2
    told = capsys.readouterr().err
    assert "S3cret" not in told
    (line,) = map(json.loads, told.splitlines())
    assert line["event"] == line["level"] == "error" and "unknown URL scheme" in line["message"]
    known = {"code": "configuration", "class": "ConfigError", "side": "job", "exit_code": 2, "retry": "never"}
    assert known.items() <= line.items() and line["retried"] is False and line["task"] == arguments[0]


@pytest.mark.parametrize(("verb", "is_json"), [("run", True), ("load", True), ("status", False), ("verify", False)])
def test_an_error_is_told_once_in_the_form_of_the_output(tmp_path: Path, verb: str, is_json: bool) -> None:
    missing = str(tmp_path / "run.toml")
    command = [sys.executable, "-m", "anabranch", verb, missing]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr.count(missing)) == (2, "", 1)
    (line,) = done.stderr.splitlines()
    assert json.loads(line)["hint"] if is_json else line.startswith("error: ")


def test_an_error_is_text_where_people_read_what_a_command_says(tmp_path: Path) -> None:
    missing = str(tmp_path / "run.toml")
    command = [sys.executable, "-m", "anabranch", "load", missing]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, log.AS_TEXT: "1"})
    (line,) = done.stderr.splitlines()
    assert done.returncode == 2 and line.startswith("error: ") and missing in line


def test_the_line_of_an_error_has_all_that_its_text_would_have(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        error = errors.TargetError("one", hint="set [load] existing", table="a.b")
        error.add_note("two")
        raise error

    monkeypatch.setattr(Job, "load", refuse)
    file = tmp_path / "job.toml"
    file.write_text(
        'name = "shop"\n[source]\nurl = "memory:///x"\n[target]\nurl = "memory:///y"\n[[rules]]\ninclude = ["a.*"]\n'
        '[load]\nexisting = "empty"\n'
    )
    assert shell.exit_code(["load", str(file)]) == 6
    (line,) = map(json.loads, capsys.readouterr().err.splitlines())
    assert line["hint"].startswith("set [load] existing (") and "line 9" in line["hint"]
    assert (line["message"], line["table"], line["notes"]) == ("one", "a.b", ["two"])
