"""`anabranch trail ls|show|check` on a trail that was written here."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import structlog

from anabranch.cli.main import main
from anabranch.trail.writer import TrailWriter
from rigs import trail_source


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("home")
    source = trail_source
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
        captured = capsys.readouterr()
        return subprocess.CompletedProcess(verb, end.value.code, captured.out, captured.err)

    yield call
    structlog.reset_defaults()


def test_damage_is_one_clear_error(trail: Trail, job: Path) -> None:
    for path, place in (
        (next((job.parent / "shop" / "trail").glob("*.segment")), "offset 0"),
        (history(job), "line 2"),
    ):
        content = path.read_bytes()
        at = 30 if place == "offset 0" else content.index(b"\n") + 90
        path.write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
        try:
            for verb, *arguments in (("ls",), ("show", "--from", "0"), ("check",)):
                found = trail(verb, *arguments)
                if verb == "ls" and path.name == "history":
                    assert found.returncode == 0
                    continue
                assert found.returncode == 7
                text = found.stdout + found.stderr
                assert str(path) in text and place in text and "Traceback" not in text, (verb, text)
        finally:
            path.write_bytes(content)


def history(job: Path) -> Path:
    return job.parent / "shop" / "trail" / "history"


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


def test_rule_12_prune_shows_drops_and_says_who_holds_the_rest(tmp_path: Path, trail: Trail, job: Path) -> None:
    from anabranch.trail import retention

    directory = job.parent / "pruned" / "trail"
    source = trail_source
    with TrailWriter.open(directory, **{**source.JOB, "job": "pruned"}, pack=False, segment_bytes=600) as writer:
        writer.schema(source.definition(source.ORDERS))
        writer.schema(source.definition(source.NOTES))
        for number in range(1, 30):
            writer.append(source.chunk(number, number))
        writer.flush()
    job.write_text(job.read_text().replace('name = "shop"', 'name = "pruned"', 1))
    try:
        retention.register(directory, "apply", 20)
        retention.hold(directory, "load shop.notes", 10)
        assert trail("prune").stdout.startswith(
            "nothing is to be dropped\nheld behind 10 for load shop.notes\nheld behind 20"
        )
        shown = trail("prune", "--older-than", "0").stdout
        assert "would drop: 00000001-" in shown and "--execute" in shown
        count = shown.count("would drop")
        assert trail("prune", "--keep-segments", "2").stdout.count("would drop") == count - 2
        assert trail("prune", "--older-than", "0", "--execute").stdout.count("dropped: ") == count
        assert trail("prune", "--upto", "15").returncode == trail("prune", "--force").returncode == 2
        assert trail("prune", "--force", "--upto", "15").returncode == 2
        forced = trail("prune", "--force", "--upto", "15@log:15", "--execute").stdout
        assert "dropped: " in forced and forced.endswith("left behind: load shop.notes\n")
        assert trail("prune", "--force", "--upto", "5", "--execute").returncode == 2
    finally:
        job.write_text(job.read_text().replace('name = "pruned"', 'name = "shop"', 1))


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
