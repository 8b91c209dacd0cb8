"""The capture process is there as long as a job is: it imports what capture needs, and nothing of what other parts do."""

from __future__ import annotations

import subprocess
import sys

import pytest

# Each costs a process megabytes, and none is of use to what reads a log into the trail.
HEAVY = {
    "anabranch.apply",
    "anabranch.load",
    "anabranch.verify",
    "anabranch.preflight",
    "anabranch.demo",
    "anabranch.testing",
    "multiprocessing",
    "pandas",
    "py4j",
    "pyarrow.acero",
    "pyarrow.compute",
    "pyarrow.dataset",
    "pyarrow.parquet",
    "pyspark",
    "sqlglot",
    "stamina",
    "structlog",
    "unittest",
}
DRIVERS = {"mysql": {"pymysql", "cryptography"}, "postgresql": {"psycopg", "psycopg_binary"}}


@pytest.mark.parametrize("source", [*DRIVERS])
def test_capture_imports_nothing_that_it_has_no_use_for(source: str) -> None:
    modules = imported("anabranch.job.parts", f"anabranch.connectors.{source}.source.capture")
    others = set().union(*(names for name, names in DRIVERS.items() if name != source))
    elsewhere = {f"anabranch.connectors.{name}.target" for name in DRIVERS}
    assert "anabranch.capture.run" in modules
    assert not sorted(modules & (HEAVY | others | elsewhere))


def test_parts_of_a_job_import_no_driver() -> None:
    modules = imported("anabranch.job.parts")
    assert not sorted(modules & set().union(*DRIVERS.values()))


def imported(*names: str) -> set[str]:
    """Return all modules of a new interpreter that has imported these."""
    program = f"import sys, {', '.join(names)}; print(*sys.modules)"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return set(ended.stdout.split())
