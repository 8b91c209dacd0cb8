"""Names of tables as `Job.load` takes them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from anabranch.config import load_job
from anabranch.job import Job
from anabranch.model.ids import TableId

A = TableId("shop", "a")


@pytest.mark.parametrize(
    ("table", "expected"),
    [(None, []), ((), []), ("shop.a", [A]), (["shop.a", "shop.b"], [A, TableId("shop", "b")])],
    ids=["None", "nothing", "one", "two"],
)
def test_none_one_or_some(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, table: Any, expected: list[TableId]) -> None:
    """None has been what is given where no table is meant."""
    file = tmp_path / "job.toml"
    both = '[source]\nurl = "memory:///names"\n[target]\nurl = "memory:///named"\n'
    file.write_text(f'name = "shop"\n{both}[[rules]]\ninclude = ["shop.*"]\n')
    asked: list[list[TableId]] = []
    monkeypatch.setattr("anabranch.job.parts.run_load", lambda job, tables, *more, **options: asked.append(tables))
    Job(load_job(file, {"ANABRANCH_HOME": str(tmp_path)}), file).load(table=table)
    assert asked == [expected]
