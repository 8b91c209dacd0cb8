"""A manager is there as long as its jobs are: what it only needs for what somebody asks now and then is loaded then."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from anabranch.manager import Manager
from tests.unit.manager.test_manager_statistics import ADMIN, running, trail_of
from tests.unit.manager.test_manager_store import text

# Each costs megabytes, and none is of use to what keeps jobs running, measures them and shows the overview.
HEAVY = {
    "anabranch.apply",
    "anabranch.capture.run",
    "anabranch.load",
    "anabranch.preflight",
    "anabranch.spark",
    "anabranch.verify",
    "numpy",
    "pandas",
    "psycopg",
    "pyarrow",
    "pymysql",
    "pyspark",
    "rich",
    "sqlglot",
}
PROGRAM = """
import sys
from anabranch import console
from anabranch.api import create_app
from anabranch.api.gate import Pace
from anabranch.cli.serve import opened
manager = opened()
app = create_app(manager, [console.routes], console.static_files(), ("127.0.0.1",), Pace(), console.refused_page)
for second in range(3):
    found = manager.monitor.look(float(second), second)
manager.statistics.write(3)
print(found["shop"].state, manager.glances.of("shop").state.state, *sys.modules)
"""


def test_a_manager_that_looks_at_its_jobs_loads_nothing_of_what_they_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PW", "x")
    monkeypatch.setenv("ANABRANCH_HOME", str(tmp_path))
    manager = Manager(tmp_path)
    manager.add(ADMIN, text())
    manager.store.close()
    trail_of(tmp_path / "shop")
    running(tmp_path / "shop").close()
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True, env=os.environ, cwd=tmp_path
    )
    measured, shown, *modules = ended.stdout.split()
    assert (measured, shown) == ("streaming", "streaming")
    assert not sorted(set(modules) & HEAVY)
