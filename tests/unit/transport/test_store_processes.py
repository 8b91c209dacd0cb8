"""The commands: pumps into and out of a store of objects as processes, killed while a trail grows; files that are wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from anabranch.errors import ConfigError
from anabranch.failpoints import LOG_VARIABLE, POINTS, VARIABLE
from anabranch.job.hopping import pump_job
from anabranch.trail import pack
from anabranch.trail.reader import TrailReader
from anabranch.transport import pieces
from rigs import trail_source as samples
from rigs.hop_files import Process, asked, fetch_file, pump_file, status, wait_for
from unit.transport.conftest import begun, rows, write

AT_WRITER = ("store.begun", "store.put", "store.noted", "store.removing")
AT_ONCE = "[trail]\ninterval_s = 0.1\nretain_hours = 0\ncompress = true"


def end_of(directory: Path) -> int:
    if not (directory / "trail.json").exists():
        return 0
    with TrailReader(directory) as trail:
        return trail.end().position.sequence


def both(folder: Path) -> tuple[Process, Process]:
    """Pumps from `a` into a store, and from there into `b`."""
    store = f"trail+objects://{folder}/store/shop"
    (folder / "store").mkdir(exist_ok=True)
    files = pump_file(folder, folder / "a", store, AT_ONCE), fetch_file(folder, store, folder / "b")
    out, into = (Process("run", file, folder=folder) for file in files)
    return out, into


def test_kill_9_of_each_while_a_trail_grows(tmp_path: Path) -> None:
    writer, (out, into) = begun(tmp_path / "a"), both(tmp_path)
    for one in (out, into):
        one.start()
    try:
        for who in (out, into, out, into):
            write(writer, 30)
            wait_for(lambda: end_of(tmp_path / "b") > writer.end.position.sequence - 30)
            who.kill()
            write(writer, 10)
            who.start()
        wait_for(lambda: end_of(tmp_path / "b") == 160)
        first, second = tmp_path / "pump.toml", tmp_path / "fetch.toml"
        wait_for(lambda: status(first)["registered"] == 160)
        wait_for(lambda: [one["acknowledged"] for one in status(first)["hop"]["behind"]] == [160])
        shown = asked("status", first).stdout
        assert "durable     160" in shown and "store       " in shown and "goes on     fetch to" in shown
        shown = asked("status", second).stdout
        assert "durable     160" in shown and "pieces to take" in shown and "from        trail+objects://" in shown
        refused = asked("run", second)
        assert refused.returncode == 7 and "the pump is running: process" in refused.stderr
        assert [one.end() for one in (out, into)] == [0, 0]
    finally:
        for one in (out, into):
            one.kill()
        writer.close()
    assert rows(tmp_path / "b") == samples.expected_rows(1, 160, with_large=True)


@pytest.mark.long  # a dozen processes
@pytest.mark.parametrize("who", ["out", "into"])
def test_a_pump_that_dies_at_any_failpoint_of_a_store_goes_on(tmp_path: Path, who: str) -> None:
    """Each failpoint ends the process once; it is started again until all is there."""
    names = [name for name in POINTS if name.startswith("store.") and (name in AT_WRITER) == (who == "out")]
    writer, reached = begun(tmp_path / "a", segment_bytes=30_000), tmp_path / "reached"
    write(writer, 60)
    assert pack.pack_all(tmp_path / "a")
    write(writer, 60)
    (tmp_path / "a" / "load" / "t").mkdir(parents=True)
    (tmp_path / "a" / "load" / "t" / "manifest.json").write_text("{}")
    out, into = both(tmp_path)
    armed = {VARIABLE: ";".join(f"{name}=exit" for name in names), LOG_VARIABLE: str(reached)}
    mortal, other = (out, into) if who == "out" else (into, out)
    other.start()
    mortal.start(**armed)
    try:
        for number, name in enumerate(names, 1):
            write(writer, 10)
            if name == "store.removing":
                wait_for(lambda: end_of(tmp_path / "b") > 0)
            assert mortal.process and mortal.process.wait(40) == 137
            assert number <= len(names)
            mortal.start(**armed)
        last = writer.end.position.sequence
        wait_for(lambda: end_of(tmp_path / "b") == last)
        wait_for(lambda: (tmp_path / "b" / "load" / "t" / "manifest.json").exists())
        assert mortal.end() == 0
    finally:
        out.kill()
        into.kill()
        writer.close()
    assert {line.partition("=")[0] for line in reached.read_text().splitlines() if "=" in line} == set(names)
    assert rows(tmp_path / "b") == rows(tmp_path / "a") == samples.expected_rows(1, last, with_large=True)


def test_preflight_says_what_is_in_the_way(tmp_path: Path) -> None:
    out, into = (tmp_path / name for name in ("pump.toml", "fetch.toml"))
    both(tmp_path)
    (tmp_path / "store").rmdir()
    done = asked("preflight", out)
    assert done.returncode == 3 and "there is no trail in" in done.stderr and f"{tmp_path}/store" in done.stderr
    (tmp_path / "store").mkdir()
    writer = begun(tmp_path / "a")
    write(writer, 10)
    writer.close()
    done = asked("preflight", into)
    assert done.returncode == 3 and "start the pump that puts it there" in done.stderr
    for file in (out, into):
        ran = asked("run", file, "--until-caught-up", "--seconds", "30")
        assert ran.returncode == 0, ran.stderr
        assert asked("preflight", file).returncode == 0
    assert rows(tmp_path / "b") == samples.expected_rows(1, 10, with_large=True)
    assert sorted(path.name for path in (tmp_path / "store" / "shop").iterdir() if path.name[0] != ".") == [
        "pieces", "preflight", "readers", "trail.json", "writer.json",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("source", "target", "said"),
    [
        ("trail+objects:///d/shop", "trail+tcp://127.0.0.1:7420/shop", "trail\\+file:///DIRECTORY/NAME"),
        ("trail+objects:///d/shop", "trail+objects:///d/shop", "trail\\+file:///DIRECTORY/NAME"),
        ("trail+objects:///d/../shop", "trail+file:///d/a", r"\[source\] url.*trail\+objects:///DIRECTORY/NAME"),
        ("trail+file:///d/a", "trail+objects://host/shop", r"\[target\] url.*an absolute path"),
    ],
)
def test_urls_that_cannot_stand_there(tmp_path: Path, source: str, target: str, said: str) -> None:
    file = tmp_path / "job.toml"
    file.write_text(f'name = "hop"\n[source]\nurl = "{source}"\n[target]\nurl = "{target}"\n')
    with pytest.raises(ConfigError, match=said):
        pump_job(file)


def test_numbers_of_pieces_are_those_of_their_names() -> None:
    assert [pieces.number_of(pieces.name_of(n)) for n in (1, 10**19)] == [1, 10**19]
    assert [pieces.number_of(name) for name in ("trail.json", "pieces/1", "pieces/" + "x" * 20)] == [None] * 3
