"""Verbs that ask every target: what they show, and the one exit code that is made of several."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from anabranch.cli.each import Answers, of_each
from anabranch.cli.main import exit_code
from anabranch.config import load_job
from anabranch.errors import AnabranchError, ConfigError, TargetUnavailable
from anabranch.job import Job


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Job:
    monkeypatch.setenv("ANABRANCH_HOME", str(tmp_path))
    file = tmp_path / "job.toml"
    targets = "".join(f'[[targets]]\nname = "{name}"\nurl = "memory:///{name}"\n' for name in ("north", "south"))
    file.write_text(f'name = "shop"\n[source]\nurl = "memory:///s"\n{targets}[[rules]]\ninclude = ["shop.*"]\n')
    return Job(load_job(file, {"ANABRANCH_HOME": str(tmp_path)}), file)


def ask(one: Job) -> str:
    if one.target == "north":
        raise TargetUnavailable("north is away")
    return one.target


def test_one_that_is_away_keeps_nobody_from_answering(job: Job, capsys: pytest.CaptureFixture[str]) -> None:
    answers = of_each(job, None, ask)
    assert answers.found == {"south": "south"} and list(answers.errors) == ["north"]
    answers.show(False, lambda found: {}, lambda found: print(f"it is {found}"))
    assert capsys.readouterr().out == "target south\nit is south\n"
    answers.show(True, lambda found: {"is": found}, print)
    shown = json.loads(capsys.readouterr().out)["targets"]
    assert shown[0] == {"name": "south", "is": "south"}
    assert shown[1]["name"] == "north" and "north is away" in shown[1]["error"]


def test_one_target_is_shown_as_it_always_was(job: Job, capsys: pytest.CaptureFixture[str]) -> None:
    answers = of_each(job, "south", ask)
    answers.show(True, lambda found: {"is": found}, print)
    assert json.loads(capsys.readouterr().out) == {"is": "south"}
    with pytest.raises(TargetUnavailable):
        of_each(job, "north", ask)
    for name in ("west", ""):  # a variable of a script that is not set means no target, not all
        with pytest.raises(ConfigError, match=f"no target '{name}'"):
            of_each(job, name, ask)


def test_a_name_that_is_empty_drops_nothing(job: Job, capsys: pytest.CaptureFixture[str]) -> None:
    (job.config.home / "kept").mkdir(parents=True)
    code = exit_code(["drop", str(job.path), "--target", "", "--execute"])
    assert code == 2 and "no target ''" in capsys.readouterr().err and (job.config.home / "kept").exists()


@pytest.mark.parametrize(
    ("codes", "errors", "expected"),
    [([0, 4, 8], [], 4), ([4], [6], 4), ([8], [6], 6), ([0], [7, 6], 6), ([0, 0], [], 0)],
)
def test_the_lowest_code_counts_and_every_error_is_told(
    codes: list[int], errors: list[int], expected: int, capsys: pytest.CaptureFixture[str]
) -> None:
    raised: dict[str, AnabranchError] = {}
    for code in errors:
        raised[str(code)] = AnabranchError(f"error {code}")
        raised[str(code)].exit_code = code
    answers = Answers[int]({}, raised, is_one=False)
    try:
        answers.exit(codes)
        code, told = 0, ""
    except SystemExit as end:
        code, told = int(end.code or 0), capsys.readouterr().err
    except AnabranchError as error:
        code, told = error.exit_code, "".join([str(error), *getattr(error, "__notes__", ())])
    assert code == expected
    assert all(f"error {one}" in told for one in errors)
