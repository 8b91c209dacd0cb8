"""`anabranch trail export|import` as people give them: what is said, and with which code it ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, NamedTuple

import pytest
import structlog

from anabranch.cli import parcels
from anabranch.cli.main import main
from anabranch.trail import retention
from anabranch.trail.writer import TrailWriter
from rigs import trail_source
from rigs.parcels import flip, rows_of, same, write
from rigs.scenario import wait_until


class Told(NamedTuple):
    code: int
    out: str
    err: str


Call = Callable[..., Told]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ANABRANCH_HOME", str(tmp_path))
    (tmp_path / "job.toml").write_text(
        'name = "shop"\n[source]\nurl = "mysql://u:p@h"\n[target]\nurl = "postgresql://u:p@h/d"\n'
        '[[rules]]\ninclude = ["shop.*"]\n'
    )
    return tmp_path


@pytest.fixture
def writer(home: Path) -> Iterator[TrailWriter]:
    with TrailWriter.open(home / "shop/trail", **trail_source.JOB, pack=False) as writer:
        for table in (trail_source.ORDERS, trail_source.NOTES):
            writer.schema(trail_source.definition(table))
        write(writer, 1, 20)
        yield writer


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str]) -> Iterator[Call]:
    def call(*arguments: object) -> Told:
        with pytest.raises(SystemExit) as end:
            main(["trail", *map(str, arguments)])
        found = capsys.readouterr()
        return Told(int(end.value.code or 0), found.out, found.err)

    yield call
    structlog.reset_defaults()


def test_there_and_back_in_the_words_of_the_command_line(home, writer, call):
    trail, out, replica = home / "shop/trail", home / "out", home / "replica"
    told = call("export", home / "job.toml", out, "--size", "8kB")
    lines = told.out.splitlines()
    assert told.code == 0 and len(lines) > 2 and told.err == ""
    assert lines[0].startswith("parcel 1: sequences 1 to ") and lines[0].endswith(" bytes, written")
    assert call("export", home / "job.toml", out) == Told(
        0, f"nothing is new behind parcel {len(lines)}\n", f"export out goes on behind parcel {len(lines)}\n"
    )
    checked = call("import", out, "--check")
    assert checked.code == 0 and checked.out.count("every digest is right") == len(lines)
    told = call("import", out, "--into", replica)
    assert told.code == 0 and told.out == "".join(f"{line.removesuffix('written')}imported\n" for line in lines)
    told = call("import", out, "--into", f"trail+file://{replica}")
    assert told.out.startswith("parcel 1: was imported before\n") and "nothing is new behind" in told.out
    same(trail, replica)
    shown = [call("show", place, "--json").out for place in (home / "job.toml", replica, f"trail+file://{replica}")]
    assert shown[0] == shown[1] == shown[2] and shown[0].count("\n") == sum(map(len, rows_of(trail).values()))
    assert call("check", replica).code == 0 and call("ls", replica).out.count(".segment") == len(lines)


def test_an_encrypted_trail_goes_by_its_job_and_is_opened_by_the_key_that_is_given(
    home: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without it nobody has opened a parcel, which is said; a key that is another's is refused, with one message."""
    trail, out = home / "shop/trail", home / "out"
    key, other = home / "one.key", home / "other.key"
    for number, path in enumerate((key, other)):
        path.touch(mode=0o600)
        path.write_bytes(bytes([number] * 32))
    encrypt = {"current": {"key_file": str(key)}, "former": []}
    with TrailWriter.open(trail, **trail_source.JOB, pack=False, encrypt=encrypt) as writer:
        for table in (trail_source.ORDERS, trail_source.NOTES):
            writer.schema(trail_source.definition(table))
        write(writer, 1, 20)
        assert call("export", home / "job.toml", out, "--size", "8kB").code == 0
    assert call("import", out, "--check", "--trail-key", key).code == 0
    told = call("import", out, "--check", "--trail-key", other)
    assert told.code == 7 and "parcel 1 is encrypted by key" in told.err and told.err.count("which is not there") == 1
    unopened = call("import", out, "--into", home / "unopened")
    assert unopened.code == 0 and "nobody has opened one: --trail-key FILE" in unopened.err
    monkeypatch.setenv("SHOP_TRAIL_KEY", key.read_bytes().hex())
    told = call("import", out, "--into", home / "replica", "--trail-key-env", "SHOP_TRAIL_KEY")
    assert (told.code, told.err) == (0, "")
    same(trail, home / "replica")
    assert call("check", home / "replica").code == 0
    on = call("export", home / "unopened", home / "on")
    assert on.code == 7 and "no key is known here" in on.err
    assert call("export", home / "unopened", home / "on", "--trail-key", key).code == 0
    assert call("import", home / "on", "--into", home / "third", "--trail-key", key).code == 0
    same(trail, home / "third")
    watched = home / "watched"
    with (
        (home / "told").open("wb") as told_there,
        watching(home, told_there, "import", out, "--into", watched, "--watch"),
    ):
        wait_until(lambda: len(imported(watched)) == len(list(out.iterdir())) > 1, 60, "all of them are in")
    assert (home / "told").read_text().count("nobody has opened one: --trail-key FILE") == 1
    (home / "applied.toml").write_text(
        f'name = "applied"\n[source]\nurl = "trail+file://{watched}"\n[target]\nurl = "postgresql://u:p@h/d"\n'
        f'[[rules]]\ninclude = ["shop.*"]\n[trail]\nencrypt = {{ key_file = "{key}" }}\n'
    )
    assert call("export", home / "applied.toml", home / "further").code == 0, "the job's file names the key"
    assert call("import", home / "further", "--into", home / "fourth", "--trail-key", key).code == 0
    same(trail, home / "fourth")


@contextmanager
def watching(home: Path, told: BinaryIO, *line: object) -> Iterator[None]:
    """Run `anabranch trail …`, and end it by Ctrl-C. `told`: what it says to people."""
    environment = {**os.environ, "ANABRANCH_HOME": str(home)}
    arguments = [sys.executable, "-m", "anabranch", "trail", *map(str, line)]
    with subprocess.Popen(arguments, env=environment, stdout=subprocess.DEVNULL, stderr=told) as process:
        try:
            yield
        finally:
            process.send_signal(signal.SIGINT)
            code = process.wait(60)
    assert code == 0


def imported(replica: Path) -> dict[str, str]:
    """Return the digests of the parcels that a replica has, by number."""
    with suppress(FileNotFoundError):
        found: dict[str, str] = json.loads((replica / "imports.json").read_text())["known"]
        return found
    return {}


def test_json_is_the_only_thing_on_stdout(home, writer, call):
    out, replica = home / "out", home / "replica"
    made = json.loads(call("export", home / "job.toml", out, "--size", "8kB", "--json").out)
    assert made["export"] == "out" and made["reached"] == {"number": len(made["parcels"]), "position": "20@log:20"}
    assert made["parcels"][0].keys() == {"number", "first", "last", "start", "end", "created", "key", "size", "files"}
    assert json.loads(call("import", out, "--check", "--json").out)["parcels"] == made["parcels"]
    told = json.loads(call("import", out, "--into", replica, "--remove-imported", "--json").out)
    assert told["imported"] == made["parcels"] and told["number"] == len(made["parcels"]) and list(out.iterdir()) == []
    assert json.loads(call("import", out, "--into", replica, "--json").out)["imported"] == []


def test_what_is_wrong_is_one_line_and_code_7(home, writer, call):
    out, replica = home / "out", home / "replica"
    call("export", home / "job.toml", out, "--size", "8kB")
    (out / "000002").rename(home / "kept")
    told = call("import", out, "--into", replica)
    assert told.code == 7 and told.out.startswith("parcel 1: ") and "parcel 2 is missing, parcel 3 is there" in told.err
    (home / "kept").rename(out / "000002")
    (segment,) = (out / "000002").glob("*.segment")
    flip(segment, 100)
    for arguments in (("--into", replica), ("--check",)):
        told = call("import", out, *arguments)
        assert told.code == 7 and f"parcel 2: {segment.name} is not the file that was exported" in told.err
    assert call("import", home / "nowhere", "--check").code == 7


def test_signed_by_a_key_of_a_file_or_of_the_environment(home, writer, call, monkeypatch):
    out, key, public = home / "out", home / "key.pem", home / "key.pub.pem"
    subprocess.run(["openssl", "genpkey", "-algorithm", "ed25519", "-out", key], check=True)
    subprocess.run(["openssl", "pkey", "-in", key, "-pubout", "-out", public], check=True)
    key.chmod(0o600)
    call("export", home / "job.toml", out, "--sign-key", key, "--to", "9")
    monkeypatch.setenv("A_KEY", key.read_text())
    call("export", home / "job.toml", out, "--sign-key-env", "A_KEY")
    assert call("import", out, "--check", "--verify-key", public).code == 0
    told = call("import", out, "--into", home / "bare")
    assert told.code == 0 and told.err == "the parcels are signed, and nobody has checked it: --verify-key FILE\n"
    assert call("import", out, "--into", home / "replica", "--verify-key", public).err == ""
    told = call("export", home / "job.toml", out, "--sign-key", key, "--sign-key-env", "A_KEY")
    assert told.code == 2 and "exclude each other" in told.err


def test_a_range_and_an_export_that_is_forgotten(home, writer, call):
    job, trail = home / "job.toml", home / "shop/trail"
    assert "sequences 3 to 9" in call("export", job, home / "out", "--from", "3@log:3", "--to", "9").out
    assert "export out" in retention.readers(trail)
    assert call("export", job, home / "out", "--forget").out == "export out is forgotten\n"
    assert call("export", job, home / "out", "--forget").out == "there is no export out\n"
    assert "export out" not in retention.readers(trail)
    told = call("export", job, home / "out")
    assert told.code == 7 and "has parcel 1 of another export" in told.err
    assert "parcel 1: sequences 3 to 20" in call("export", job, home / "elsewhere/out", "--from", "3").out


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        (("export", "job.toml", "out", "--every", "5m"), "--every is for --follow"),
        (("export", "job.toml", "out", "--follow", "--to", "7"), "--follow has no end"),
        (("export", "job.toml", "out", "--size", "64"), "'64' is not an amount as 64MB"),
        (("export", "job.toml", "out", "--follow", "--every", "0m"), "'0m' is not a time as 10m"),
        (("export", "job.toml", "out", "--from", "x"), "'x' is no position"),
        (("export", "trail+file://x/y", "out"), "names no directory"),
        (("import", "out"), "--into is wanted"),
        (("import", "out", "--into", "replica", "--watch", "--json"), "--watch has no end"),
    ],
)
def test_a_command_line_that_cannot_be_meant_ends_with_2(home, writer, call, monkeypatch, arguments, match):
    monkeypatch.chdir(home)
    told = call(*arguments)
    assert told.code == 2 and match in told.err


def test_amounts_and_times():
    for text, wanted in (("64MB", 64 << 20), ("1 gb", 1 << 30), ("10kB", 10240)):
        assert parcels._amount(parcels.UNITS, "")(None, None, text) == wanted  # type: ignore[arg-type]  # no command is there
    for text, wanted in (("10m", 600), ("30s", 30), ("1h", 3600), ("2d", 172800)):
        assert parcels._amount(parcels.SECONDS, "")(None, None, text) == wanted  # type: ignore[arg-type]  # no command is there


def test_both_sides_go_on_until_they_are_asked_to_stop(home, writer):
    """Follow and watch: what is written here comes there by itself; Ctrl-C ends each with 0, with nothing half done."""
    out, replica = home / "out", home / "replica"
    out.mkdir()
    environment = {**os.environ, "ANABRANCH_HOME": str(home)}
    lines = (
        ("export", str(home / "job.toml"), str(out), "--follow", "--every", "1s"),
        ("import", str(out), "--into", str(replica), "--watch", "--remove-imported"),
    )
    running = [
        subprocess.Popen([sys.executable, "-m", "anabranch", "trail", *line], env=environment, stdout=subprocess.PIPE)
        for line in lines
    ]
    try:
        for last in (20, 25):
            wait_until(
                lambda last=last: has(replica, last), 60, f"sequence {last} is there", lambda: str(list(out.iterdir()))
            )
            if last == 20:
                write(writer, 21, 25)
    finally:
        for process in running:
            process.send_signal(signal.SIGINT)
        codes = [process.wait(60) for process in running]
        told = [process.stdout.read().decode() for process in running if process.stdout]
    assert codes == [0, 0] and "parcel 2: sequences 21 to 25" in told[1], told
    assert rows_of(replica) == rows_of(home / "shop/trail")


def has(replica: Path, last: int) -> bool:
    return (
        (replica / "published").exists()
        and (replica / "trail.json").exists()
        and max(rows_of(replica), default=0) == last
    )
