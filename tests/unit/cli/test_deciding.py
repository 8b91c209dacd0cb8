"""Messages of values end with the line of the job file that decides."""

from __future__ import annotations

from pathlib import Path

import pytest

from anabranch.cli import main as shell
from anabranch.errors import AnabranchError, ConfigError, SourceError, ValueRefused

JOB = """name = "shop"

[source]
url = "mysql://u@h/shop"

[target]
url = "postgresql://u@h/shop"

[[rules]]
include = ["shop.*"]

[[tables]]
name = "shop.goods"
columns.drop = ["photo"]

[types]
nul = "stop"
zero_date = "stop"
"""
ZERO, NUL, BYTES = (
    '[types] zero_date = "null"',
    '[types] nul = "strip"',
    "leave the column out ([[tables]] columns.drop)",
)


@pytest.fixture
def job(tmp_path: Path) -> Path:
    file = tmp_path / "shop.toml"
    file.write_text(JOB)
    return file


def told(job: Path, error: AnabranchError, capsys: pytest.CaptureFixture[str]) -> str:
    shell._tell([error], ["preflight", str(job)])
    return capsys.readouterr().err


@pytest.mark.parametrize(
    ("hint", "table", "line"),
    [
        (ZERO, "shop.orders", "line 18"),
        (NUL, "shop.orders", "line 17"),
        (BYTES, "shop.goods", "line 14"),
        ('[types] json = "text"', "shop.orders", "line 16"),
        ('[load] lock = "table"', "shop.orders", "[load] is not in the file, its defaults hold"),
    ],
)
def test_the_deciding_line_is_told(
    job: Path, capsys: pytest.CaptureFixture[str], hint: str, table: str, line: str
) -> None:
    text = told(job, ValueRefused("column c of the row with id=1 holds …", hint=hint, table=table), capsys)
    assert text.rstrip().endswith(f"{hint} ({job}: {line})")


def test_without_a_key_no_line_is_told(job: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A table without an entry, a hint without a key, a job file that cannot be read, errors that have lines already."""
    for error in (
        ValueRefused("…", hint=BYTES, table="shop.orders"),
        SourceError("…", hint="start the source"),
        SourceError("…"),
        ConfigError("…", hint=ZERO),
    ):
        assert "line" not in told(job, error, capsys)
    job.write_text("name =")
    assert "line" not in told(job, ValueRefused("…", hint=ZERO), capsys)
