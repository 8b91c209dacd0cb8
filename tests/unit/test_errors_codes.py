"""Codes of errors are for machines: they stay as they are, whatever a class is called."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import anabranch
from anabranch import errors
from anabranch.cli import main as shell
from anabranch.errors import AnabranchError
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
def test_a_verb_that_logs_ends_with_its_error_as_json_beside_the_message(
    tmp_path: Path, arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "job.toml"
    file.write_text('name = "shop"\n[source]\nurl = "mysqll://u:S3cret@h"\n')
    assert shell.exit_code([arguments[0], str(file), *arguments[1:]]) == 2
    told = capsys.readouterr().err
    assert told.startswith("error: ") and "S3cret" not in told
    (line,) = [json.loads(line) for line in told.splitlines() if line.startswith("{")]
    assert line["event"] == line["level"] == "error" and "unknown URL scheme" in line["message"]
    known = {"code": "configuration", "class": "ConfigError", "side": "job", "exit_code": 2, "retry": "never"}
    assert known.items() <= line.items() and line["retried"] is False and line["task"] == arguments[0]
