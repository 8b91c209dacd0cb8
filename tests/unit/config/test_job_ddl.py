"""`[ddl]` of the job file: what becomes of changes that it says nothing of."""

from __future__ import annotations

from pathlib import Path

import pytest

from anabranch.config import JobConfig, load_job
from anabranch.errors import ConfigError
from anabranch.model.column_changes import APPLY, PARK, ColumnChange

JOB = """\
name = "shop"
[source]
url = "postgresql://a@127.0.0.1/shop"
leave_out = ["anabranch:back"]
[target]
url = "mysql://b@127.0.0.1"
[[rules]]
include = ["public.*"]
"""
PAIR = '[pair]\nsite = "berlin"\nother = "paris"\nwinner = "berlin"\ntwin = "back"\nnewest_by = "changed_at"\n'
ADDITIVE = {ColumnChange.ADD, ColumnChange.TYPE}


def load(tmp_path: Path, text: str = "") -> JobConfig:
    (tmp_path / "job.toml").write_text(JOB + text)
    return load_job(tmp_path / "job.toml", {})


def test_what_adds_to_a_table_is_applied_and_all_else_parks(tmp_path: Path) -> None:
    job = load(tmp_path)
    assert job.followed_changes == ADDITIVE
    assert job.column_actions == {kind: APPLY if kind in ADDITIVE else PARK for kind in ColumnChange}
    job = load(tmp_path, '[ddl]\nadd_column = "park"\ndrop_column = "keep"\n')
    assert job.followed_changes == {ColumnChange.DROP, ColumnChange.TYPE}
    assert (job.column_actions[ColumnChange.ADD], job.column_actions[ColumnChange.DROP]) == ("park", "keep")


def test_a_pair_parks_whatever_is_changed(tmp_path: Path) -> None:
    assert set(load(tmp_path, PAIR).column_actions.values()) == {PARK}
    assert not load(tmp_path, f'{PAIR}[ddl]\nadd_column = "park"\n').followed_changes
    for setting in ('add_column = "apply"', 'drop_column = "keep"'):
        with pytest.raises(ConfigError) as refused:
            load(tmp_path, f"{PAIR}[ddl]\n{setting}\n")
        assert f"{setting} beside [pair]" in str(refused.value)
