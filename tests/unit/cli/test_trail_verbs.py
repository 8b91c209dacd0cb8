"""`anabranch trail ls|show|check` on a trail that was written here."""

from __future__ import annotations

import importlib.util
import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest
import structlog

from anabranch.cli.main import main
from anabranch.trail.writer import TrailWriter


def samples() -> ModuleType:
    file = Path(__file__).parents[1] / "trail" / "samples.py"
    spec = importlib.util.spec_from_file_location("trail_samples_for_cli", file)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("home")
    source = samples()
    with TrailWriter.open(home / "shop" / "trail", **source.JOB, pack=False) as writer:
        for table in (source.ORDERS, source.NOTES):
            writer.schema(source.definition(table))
        writer.append(source.chunk(1, 6))
        writer.flush()
    (home / "job.toml").write_text(
        'name = "shop"\n[source]\nurl = "mysql://u:p@h"\n[target]\nurl = "postgresql://u:p@h/d"\n'
        '[[rules]]\ninclude = ["shop.*"]\n'
    )
    return home / "job.toml"


Trail = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def trail(job: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Trail]:
    monkeypatch.setenv("ANABRANCH_HOME", str(job.parent))

    def call(verb: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        with pytest.raises(SystemExit) as end:
            main(["trail", verb, str(job), *arguments])
        return subprocess.CompletedProcess(verb, end.value.code, capsys.readouterr().out)

    yield call
    structlog.reset_defaults()


def test_ls(trail: Trail) -> None:
    lines = trail("ls").stdout.splitlines()
    assert lines[0].split() == ["SEGMENT", "STATE", "FIRST", "LAST", "ROWS", "BYTES"]
    assert lines[1].split()[2:5] == ["1", "6", "9"]
    (segment,) = json.loads(trail("ls", "--json").stdout)["segments"]
    assert (segment["first"], segment["last"], segment["rows"]) == (1, 6, 9)


def test_show_by_position_table_key_and_limit(trail: Trail) -> None:
    assert len(trail("show").stdout.splitlines()) == 9
    some = trail("show", "--from", "3@log:3", "--to", "5").stdout.splitlines()
    assert {line.partition("@")[0] for line in some} == {"3", "5"}
    notes = trail("show", "--table", 'shop."odd.name"').stdout.splitlines()
    assert notes and all('shop."odd.name"' in line for line in notes)
    assert "id='31'" in trail("show", "--key", "id=31").stdout
    assert len(trail("show", "--limit", "2").stdout.splitlines()) == 2


def test_show_as_json_is_one_object_a_line(trail: Trail) -> None:
    rows = [json.loads(line) for line in trail("show", "--key", "id=31", "--json").stdout.splitlines()]
    assert [(row["position"], row["operation"], row["values"]["id"]) for row in rows] == [("3@log:3", "insert", "31")]


def test_check_and_damage(job: Path, trail: Trail) -> None:
    good = trail("check")
    assert good.returncode == 0
    assert good.stdout.endswith("every checksum is right\n")
    (segment,) = (job.parent / "shop" / "trail").glob("*.segment")
    content = bytearray(segment.read_bytes())
    content[len(content) // 2] ^= 1
    segment.write_bytes(content)
    bad = trail("check", "--json")
    assert bad.returncode == 7
    assert json.loads(bad.stdout)["problems"]
