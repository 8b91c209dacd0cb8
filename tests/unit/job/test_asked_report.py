"""A preflight that a person asks for, where the target is one whose clients wait for brokers."""

from __future__ import annotations

from pathlib import Path

import pytest

from anabranch.config import load_job
from anabranch.job import Job, preflight
from anabranch.job.preflight import asked_report


def test_brokers_that_are_away_have_the_targets_exit_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preflight, "ANSWER_S", 0.5)
    file = tmp_path / "job.toml"
    source, target = "memory:///asked", "kafka://127.0.0.1:1"
    both = f'[source]\nurl = "{source}"\n[target]\nurl = "{target}"\n[target.options]\ntopic = "a"\n'
    file.write_text(f'name = "shop"\n{both}[[rules]]\ninclude = ["shop.*"]\n')
    found = asked_report(Job(load_job(file, {"ANABRANCH_HOME": str(tmp_path)}), file))
    assert [one.check for one in found.failed] == ["target.brokers"] and found.exit_code == 6
