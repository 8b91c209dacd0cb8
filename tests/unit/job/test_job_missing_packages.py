"""Extras that are not installed: one message with what to install, no traceback."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from rigs.told_errors import as_read

PROGRAM = (
    "import sys\nfor name in sys.argv[2].split(','): sys.modules[name] = None\n"
    "from anabranch.cli.main import exit_code\nsys.exit(exit_code([sys.argv[1], sys.argv[3]]))"
)


@pytest.mark.parametrize(
    ("verb", "package", "expected"),
    [
        (
            "load",
            "pyspark",
            "Spark is not installed (pyspark) — pip install '.[spark]' in a checkout of anabranch",
        ),
        (
            "apply",
            "pyspark",
            "Spark is not installed (pyspark) — pip install '.[spark]' in a checkout of anabranch",
        ),
        (
            "verify",
            "pyspark",
            "error: job shop: Spark is not installed (pyspark) — pip install '.[spark]' in a checkout of anabranch",
        ),
        (
            "preflight",
            "pymysql",
            "the driver of mariadb:// is not installed (pymysql) — pip install '.[mysql]' in a checkout of anabranch",
        ),
        (
            "run",
            "pymysql",
            "the driver of mariadb:// is not installed (pymysql) — pip install '.[mysql]' in a checkout of anabranch",
        ),
        (
            "status",
            "psycopg",
            "the driver of postgresql:// is not installed (psycopg) — pip install '.[postgresql]' in a checkout of anabranch",
        ),
    ],
)
def test_what_is_missing_is_named_with_its_extra(tmp_path: Path, verb: str, package: str, expected: str) -> None:
    job = tmp_path / "job.toml"
    ends = '[source]\nurl = "mariadb://u:p@127.0.0.1:9"\n[target]\nurl = "postgresql://u:p@127.0.0.1:9/d"\n'
    job.write_text(f'name = "shop"\n{ends}[[rules]]\ninclude = ["shop.*"]\n')
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, verb, package, str(job)],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "ANABRANCH_HOME": str(tmp_path)},
    )
    told = as_read(done.stderr) + done.stdout
    assert expected in told and "unexpected" not in told
    assert done.returncode == 2
